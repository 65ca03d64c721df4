// Package api is the reading API: boards, items and totals as JSON, over HTTP and,
// for edges that serve it to their visitors, over NATS. openapi.yaml describes it.
//
// An answer holds for a time slice. However many clients ask the same question in
// it, the API asks the store once.
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
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
)

// DefaultSlice is the default time slice.
const DefaultSlice = time.Second

// MaxSlice is the longest time slice.
const MaxSlice = 2 * time.Minute

// Bounds of the work for one answer.
const (
	cacheBytes    = 32 << 20
	buildsAtOnce  = 8
	buildTimeout  = 10 * time.Second
	maxCachedBody = cacheBytes / 8
)

// Options configures an API.
type Options struct {
	Boards *board.Boards
	Rules  func() *ruleset.Rules
	Slice  time.Duration // default DefaultSlice
	Now    func() time.Time
	Logger *slog.Logger
}

// API answers questions. It is safe for concurrent use.
type API struct {
	Options
	// cache holds the answers of the current time slice.
	cache  *otter.Cache[reading.Request, entry]
	rules  atomic.Uint64 // how often the rules have changed
	flight singleflight.Group
	builds chan struct{} // one token for each build under way

	unanswered *faults.Repeated
}

// entry is an answer with its time slice and the version of its rules.
type entry struct {
	slice  int64
	rules  uint64
	answer *reading.Answer
}

// entryBytes is roughly the memory of an entry beside its body and strings.
const entryBytes = 400

// New returns an API with an empty cache.
func New(o Options) *API {
	if o.Slice <= 0 {
		o.Slice = DefaultSlice
	}
	a := &API{
		Options: o, builds: make(chan struct{}, buildsAtOnce),
		unanswered: faults.NewRepeated(o.Logger, slog.LevelWarn, "cannot answer a request"),
	}
	a.cache = otter.Must(&otter.Options[reading.Request, entry]{
		MaximumWeight: cacheBytes,
		Weigher: func(r reading.Request, e entry) uint32 {
			return uint32(entryBytes + len(e.answer.Body) + len(r.List) + len(r.ID))
		},
	})
	return a
}

// Forget drops every cached answer after a change of the rules.
func (a *API) Forget() {
	a.rules.Add(1)
	a.cache.InvalidateAll()
}

// MaxAnswerBytes is the longest answer for an edge. Together with its headers it
// fits into the 1 MiB that a NATS server accepts by default.
const MaxAnswerBytes = 760 << 10

// Answer answers a question that an edge has forwarded.
func (a *API) Answer(ctx context.Context, q *reading.Question) *reading.Answer {
	ans := a.answer(ctx, q)
	if len(ans.Body) > MaxAnswerBytes {
		return reading.BadRequest("answer_too_large", "The answer would exceed %d bytes: ask for fewer boards or items at once.", MaxAnswerBytes).Answer()
	}
	return ans
}

func (a *API) answer(ctx context.Context, q *reading.Question) *reading.Answer {
	if q.Several {
		return a.answerAll(ctx, q.Requests)
	}
	return a.answerOne(ctx, q.Requests[0])
}

// answerAll answers several requests in one JSON list, with null for what does not
// exist. Each element equals the answer to that request alone.
func (a *API) answerAll(ctx context.Context, requests []reading.Request) *reading.Answer {
	boards := make([]json.RawMessage, len(requests))
	tags := fnv.New64a()
	all := &reading.Answer{Status: http.StatusOK, Holds: a.Slice}
	for i, r := range requests {
		ans := a.answerOne(ctx, r)
		all.Holds = min(all.Holds, ans.Holds)
		switch ans.Status {
		case http.StatusOK:
			boards[i] = ans.Body
		case http.StatusNotFound:
			boards[i] = json.RawMessage("null")
		default:
			return ans
		}
		fmt.Fprintln(tags, i, ans.ETag)
	}
	body, err := json.Marshal(map[string][]json.RawMessage{"boards": boards})
	if err != nil { // the JSON was made here
		panic(err)
	}
	all.Body, all.ETag = append(body, '\n'), entityTag(tags.Sum64())
	return all
}

// answerOne returns the answer to a request.
func (a *API) answerOne(ctx context.Context, r reading.Request) *reading.Answer {
	now := a.Now()
	slice := now.UnixNano() / int64(a.Slice)
	rules := a.rules.Load()
	ans := a.cached(r, slice, rules)
	if ans == nil {
		// The build goes on for other callers when this one goes away.
		result := a.flight.DoChan(fmt.Sprintf("%d %d %#v", slice, rules, r), func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
			defer cancel()
			return a.build(ctx, r, slice, rules), nil
		})
		select {
		case res := <-result:
			ans = res.Val.(*reading.Answer)
		case <-ctx.Done():
			ans = unavailable("The request ended before the answer was ready.")
		}
	}
	if ans.Status == http.StatusServiceUnavailable {
		return ans
	}
	holds := *ans
	holds.Holds = time.Duration((slice+1)*int64(a.Slice) - now.UnixNano())
	return &holds
}

// cached returns the answer of a slice under the given version of the rules, or
// nil.
func (a *API) cached(r reading.Request, slice int64, rules uint64) *reading.Answer {
	if e, ok := a.cache.GetIfPresent(r); ok && e.slice == slice && e.rules == rules {
		return e.answer
	}
	return nil
}

// build makes an answer from the boards and caches it for the rest of the slice.
func (a *API) build(ctx context.Context, r reading.Request, slice int64, rules uint64) *reading.Answer {
	// Another build may have ended since the caller looked in the cache.
	if ans := a.cached(r, slice, rules); ans != nil {
		return ans
	}
	select {
	case a.builds <- struct{}{}:
		defer func() { <-a.builds }()
	case <-ctx.Done():
		return a.failed(r, ctx.Err())
	}
	ans, err := a.ask(ctx, r)
	switch {
	case err == nil:
	case errors.Is(err, board.ErrUnknownList):
		return notFound("unknown_list", "Unknown list %.80q.", r.List)
	case errors.Is(err, board.ErrUnknownItem):
		ans = notFound("unknown_item", "The list %s has no item %q.", r.List, r.ID)
	case errors.Is(err, board.ErrNotKept):
		ans = notFound("not_kept", "The list %s does not keep this board.", r.List)
	default:
		return a.failed(r, err)
	}
	if len(ans.Body) <= maxCachedBody {
		a.cache.Set(r, entry{slice, rules, ans})
	}
	return ans
}

func notFound(code, format string, args ...any) *reading.Answer {
	return (&reading.Error{Status: http.StatusNotFound, Code: code, Message: fmt.Sprintf(format, args...)}).Answer()
}

func unavailable(message string) *reading.Answer {
	return (&reading.Error{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: message}).Answer()
}

func (a *API) failed(r reading.Request, err error) *reading.Answer {
	a.unanswered.Log("list", r.List, "period", r.Period, "id", fmt.Sprintf("%.256q", r.ID), "error", err)
	return unavailable("The counts cannot be read at the moment; try again.")
}

// ask reads an answer from the boards.
func (a *API) ask(ctx context.Context, r reading.Request) (*reading.Answer, error) {
	switch r.Kind {
	case reading.ItemOf:
		v, err := a.Boards.Item(ctx, r.List, r.ID)
		if err != nil {
			return nil, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	case reading.ItemsOf:
		return a.askItems(ctx, r)
	case reading.StatsOf:
		v, err := a.Boards.Stats(ctx, r.List, time.Time{})
		if err != nil {
			return nil, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	default:
		v, err := a.Boards.Board(ctx, board.Query{
			List: r.List, Period: r.Period, Limit: r.Limit, Offset: r.Offset, At: r.Time(), Explain: r.Explain,
		})
		if err != nil {
			return nil, err
		}
		same := *v
		same.GeneratedAt = time.Time{}
		return success(v, same)
	}
}

// items is the answer to a request for several items.
type items struct {
	List  string        `json:"list"`
	Items []*board.Item `json:"items"` // null for one that is unknown
}

func (a *API) askItems(ctx context.Context, r reading.Request) (*reading.Answer, error) {
	found, err := a.Boards.Items(ctx, r.List, strings.Split(r.ID, "\x00"))
	if err != nil {
		return nil, err
	}
	same := make([]*board.Item, len(found))
	for i, it := range found {
		if it != nil {
			timeless := *it
			timeless.GeneratedAt = time.Time{}
			same[i] = &timeless
		}
	}
	return success(items{r.List, found}, items{r.List, same})
}

// success encodes v. Its entity tag comes from same, which is v without the time of
// generation: two slices with the same content have the same tag.
func success(v, same any) (*reading.Answer, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	content, err := json.Marshal(same)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	h := fnv.New64a()
	h.Write(content)
	return &reading.Answer{Status: http.StatusOK, Body: append(body, '\n'), ETag: entityTag(h.Sum64())}, nil
}

func entityTag(hash uint64) string { return fmt.Sprintf(`W/"%016x"`, hash) }
