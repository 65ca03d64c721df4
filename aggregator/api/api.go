// Package api is the reading API: boards, items and totals as JSON, over HTTP
// and, for edges that serve it to their visitors, over NATS. openapi.yaml
// describes it.
//
// An answer holds for a time slice. However many ask the same question within
// one, the store is asked once.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// DefaultSlice is how long an answer holds unless Options say otherwise.
const DefaultSlice = time.Second

// MaxSlice is the longest time slice.
const MaxSlice = 2 * time.Minute

// Bounds of what answering may take.
const (
	cacheBytes    = 32 << 20
	buildsAtOnce  = 8
	buildTimeout  = 10 * time.Second
	maxCachedBody = cacheBytes / 8
)

// Options are the parts an API works with.
type Options struct {
	Boards *board.Boards
	Rules  func() *ruleset.Ruleset
	Slice  time.Duration // default DefaultSlice
	Now    func() time.Time
	Logger *slog.Logger
}

// API answers queries. It is safe for concurrent use.
type API struct {
	Options
	cache  *cache
	flight singleflight.Group
	builds chan struct{} // one token for each build under way

	unanswered *faults.Repeated
}

// New returns an API with an empty cache.
func New(o Options) *API {
	if o.Slice <= 0 {
		o.Slice = DefaultSlice
	}
	return &API{
		Options: o, cache: newCache(cacheBytes), builds: make(chan struct{}, buildsAtOnce),
		unanswered: faults.NewRepeated(o.Logger, slog.LevelWarn, "a query could not be answered"),
	}
}

// Forget drops every cached answer: the rules have changed.
func (a *API) Forget() { a.cache.clear() }

// answer is what one question got.
type answer struct {
	status int
	body   []byte
	etag   string // weak; "" for errors
}

// MaxAnswerBytes is the longest answer that an edge gets. With what is around it
// it fits into the 1 MiB that a NATS server accepts by default.
const MaxAnswerBytes = 760 << 10

// Answer answers a query that an edge passed on.
func (a *API) Answer(ctx context.Context, q hit.Query) hit.Answer {
	ans, left := a.answer(ctx, q)
	if len(ans.body) > MaxAnswerBytes {
		ans, left = failure(badRequest("answer_too_large", "The answer has more than %d bytes: ask for less at once.", MaxAnswerBytes)), 0
	}
	return hit.Answer{Status: ans.status, Body: ans.body, ETag: ans.etag, MaxAgeMillis: left.Milliseconds()}
}

// answer returns the answer to a query and how long it holds.
func (a *API) answer(ctx context.Context, q hit.Query) (ans answer, left time.Duration) {
	var defaultList string
	if lists := a.Rules().Lists; len(lists) > 0 {
		defaultList = lists[0].Name
	}
	requests, bad := parse(q, defaultList)
	if bad != nil {
		return failure(bad), 0
	}
	if k, _, _ := route(q.Path); k == boardsOf {
		return a.answerAll(ctx, requests)
	}
	return a.answerOne(ctx, requests[0])
}

// answerAll answers several requests in one: those that ask for what is not there
// with null. Each is answered as if it were asked alone.
func (a *API) answerAll(ctx context.Context, requests []request) (ans answer, left time.Duration) {
	boards := make([]json.RawMessage, len(requests))
	tags := fnv.New64a()
	for i, r := range requests {
		ans, holds := a.answerOne(ctx, r)
		if i == 0 || holds < left {
			left = holds
		}
		switch ans.status {
		case http.StatusOK:
			boards[i] = ans.body
		case http.StatusNotFound:
			boards[i] = json.RawMessage("null")
		default:
			return ans, holds
		}
		fmt.Fprintln(tags, i, ans.etag)
	}
	body, err := json.Marshal(map[string][]json.RawMessage{"boards": boards})
	if err != nil { // JSON that was made here
		panic(err)
	}
	return answer{status: http.StatusOK, body: append(body, '\n'), etag: entityTag(tags.Sum64())}, left
}

// answerOne returns the answer to a request and how long it holds.
func (a *API) answerOne(ctx context.Context, r request) (ans answer, left time.Duration) {
	now := a.Now()
	slice := now.UnixNano() / int64(a.Slice)
	left = time.Duration((slice+1)*int64(a.Slice) - now.UnixNano())
	if ans, ok := a.cache.get(r, slice); ok {
		return ans, left
	}
	// The build goes on for the others when this caller goes away.
	result := a.flight.DoChan(fmt.Sprintf("%d %d %#v", slice, a.cache.age(), r), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
		defer cancel()
		return a.build(ctx, r, slice), nil
	})
	select {
	case res := <-result:
		ans = res.Val.(answer)
	case <-ctx.Done():
		ans = failure(&Error{http.StatusServiceUnavailable, "unavailable", "The question was given up before the answer was there."})
	}
	if ans.status == http.StatusServiceUnavailable {
		left = 0
	}
	return ans, left
}

// build asks the boards, and keeps the answer for the rest of the slice.
func (a *API) build(ctx context.Context, r request, slice int64) answer {
	// Another build may have ended since the caller looked.
	if ans, ok := a.cache.get(r, slice); ok {
		return ans
	}
	age := a.cache.age()
	select {
	case a.builds <- struct{}{}:
		defer func() { <-a.builds }()
	case <-ctx.Done():
		return a.unavailable(r, ctx.Err())
	}
	ans, err := a.ask(ctx, r)
	switch {
	case err == nil:
	case errors.Is(err, board.ErrUnknownList):
		return failure(&Error{http.StatusNotFound, "unknown_list", fmt.Sprintf("There is no list %.80q.", r.list)})
	case errors.Is(err, board.ErrUnknownItem):
		ans = failure(&Error{http.StatusNotFound, "unknown_item", fmt.Sprintf("List %s has no item %q.", r.list, r.id)})
	case errors.Is(err, board.ErrNotKept):
		ans = failure(&Error{http.StatusNotFound, "not_kept", fmt.Sprintf("List %s does not keep this board.", r.list)})
	default:
		return a.unavailable(r, err)
	}
	if len(ans.body) <= maxCachedBody {
		a.cache.put(r, slice, age, ans)
	}
	return ans
}

func (a *API) unavailable(r request, err error) answer {
	a.unanswered.Log("list", r.list, "period", r.period, "id", fmt.Sprintf("%.256q", r.id), "error", err)
	return failure(&Error{http.StatusServiceUnavailable, "unavailable", "The counts cannot be read at the moment; try again."})
}

// ask gets an answer from the boards.
func (a *API) ask(ctx context.Context, r request) (answer, error) {
	switch r.kind {
	case itemOf:
		v, err := a.Boards.Item(ctx, r.list, r.id)
		if err != nil {
			return answer{}, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	case itemsOf:
		return a.askItems(ctx, r)
	case statsOf:
		v, err := a.Boards.Stats(ctx, r.list, time.Time{})
		if err != nil {
			return answer{}, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	default:
		v, err := a.Boards.Board(ctx, board.Query{
			List: r.list, Period: r.period, Limit: r.limit, Offset: r.offset, At: r.time(), Explain: r.explain,
		})
		if err != nil {
			return answer{}, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	}
}

// items is the answer to a request for many.
type items struct {
	List  string        `json:"list"`
	Items []*board.Item `json:"items"` // null for one that is unknown
}

func (a *API) askItems(ctx context.Context, r request) (answer, error) {
	found, err := a.Boards.Items(ctx, r.list, strings.Split(r.id, "\x00"))
	if err != nil {
		return answer{}, err
	}
	same := make([]*board.Item, len(found))
	for i, it := range found {
		if it != nil {
			timeless := *it
			timeless.GeneratedAt = time.Time{}
			same[i] = &timeless
		}
	}
	return success(items{r.list, found}, items{r.list, same})
}

// success encodes v. The entity tag is that of same, which is v without the
// time it was made at: two slices with the same content have the same tag.
func success(v, same any) (answer, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the answer: %w", err)
	}
	content, err := json.Marshal(same)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the answer: %w", err)
	}
	h := fnv.New64a()
	h.Write(content)
	return answer{status: http.StatusOK, body: append(body, '\n'), etag: entityTag(h.Sum64())}, nil
}

func entityTag(hash uint64) string { return fmt.Sprintf(`W/"%016x"`, hash) }

func failure(e *Error) answer {
	body, err := json.Marshal(map[string]*Error{"error": e})
	if err != nil { // two strings
		panic(err)
	}
	return answer{status: e.Status, body: append(body, '\n')}
}
