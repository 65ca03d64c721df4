package caddymodule

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"

	"github.com/hotboard/hotboard/hit"
)

const (
	// answersBytes bounds the memory for answers.
	answersBytes = 32 << 20
	// answersAsking bounds how many different questions are under way at once.
	answersAsking = 64
	// answerTimeout is how long a visitor waits for an aggregator.
	answerTimeout = 2 * time.Second
	// answerRetry is how long a question that failed is not asked again.
	answerRetry = time.Second
	// answerOverhead is what an answer takes in memory beside its body, in bytes, roughly.
	answerOverhead = 512
)

var errBusy = errors.New("too many different questions are waiting for an aggregator")

// answer is an aggregator's reply to a question, ready to be served. It is not
// changed once made.
type answer struct {
	status  int
	body    []byte
	etag    string
	length  string // of the body
	expires time.Time
}

// answers asks the aggregators, and remembers what they said: each question is
// asked once in a time slice however many visitors ask it, and while no
// aggregator answers the last answer stands in.
type answers struct {
	ask    func(context.Context, hit.Query) (*hit.Answer, error)
	flight singleflight.Group
	asking chan struct{}

	mu     sync.Mutex
	known  map[string]*list.Element // of *remembered
	recent list.List                // the least recently used last
	bytes  int
}

type remembered struct {
	key     string
	answer  *answer
	retryAt time.Time // not asked again before that
}

func newAnswers(conn func() (*nats.Conn, bool)) *answers {
	return &answers{
		ask:    func(ctx context.Context, q hit.Query) (*hit.Answer, error) { return askAggregator(ctx, conn, q) },
		asking: make(chan struct{}, answersAsking),
		known:  make(map[string]*list.Element),
	}
}

func askAggregator(ctx context.Context, conn func() (*nats.Conn, bool), q hit.Query) (*hit.Answer, error) {
	nc, ok := conn()
	if !ok {
		return nil, errNoConnection
	}
	if !nc.IsConnected() {
		return nil, fmt.Errorf("asking an aggregator: not connected to NATS (%v)", nc.Status())
	}
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("asking an aggregator: %w", err)
	}
	msg, err := nc.RequestWithContext(ctx, hit.SubjectQuery, data)
	if err != nil {
		return nil, fmt.Errorf("asking an aggregator: %w", err)
	}
	var a hit.Answer
	if err := decodeReply(msg.Data, &a); err != nil {
		return nil, fmt.Errorf("asking an aggregator: %w", err)
	}
	if a.Status < 200 || a.Status > 599 {
		return nil, fmt.Errorf("asking an aggregator: it answered with the status %d", a.Status)
	}
	return &a, nil
}

// get returns the answer to q. A stale one is the last that there was, because
// now there is none. With an error there is no answer at all.
func (a *answers) get(ctx context.Context, q hit.Query) (ans *answer, stale bool, err error) {
	key := q.Path + "?" + q.Query + "\n" + string(q.Body)
	now := time.Now()
	last, retryAt := a.recall(key)
	if last != nil && now.Before(last.expires) {
		return last, false, nil
	}
	if now.Before(retryAt) {
		return last, true, nil
	}

	// The question goes on when the visitor who asked it first hangs up: others
	// may wait for it.
	result := a.flight.DoChan(key, func() (any, error) { return a.refresh(key, q) })
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case r := <-result:
		if r.Err == nil {
			return r.Val.(*answer), false, nil
		}
		if last != nil {
			return last, true, nil
		}
		return nil, false, r.Err
	}
}

func (a *answers) refresh(key string, q hit.Query) (*answer, error) {
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	default:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	got, err := a.ask(ctx, q)
	if err == nil && got.Status >= http.StatusInternalServerError {
		err = fmt.Errorf("the aggregator answered with the status %d: %.200s", got.Status, got.Body)
	}
	if err != nil {
		a.failed(key)
		return nil, err
	}
	ans := &answer{
		status:  got.Status,
		body:    got.Body,
		etag:    got.ETag,
		length:  strconv.Itoa(len(got.Body)),
		expires: time.Now().Add(time.Duration(got.MaxAgeMillis) * time.Millisecond),
	}
	if ans.status == http.StatusOK {
		a.remember(key, ans)
	}
	return ans, nil
}

// recall returns the last answer to a question, or nil, and when it may be
// asked again after a failure.
func (a *answers) recall(key string) (*answer, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.known[key]
	if e == nil {
		return nil, time.Time{}
	}
	a.recent.MoveToFront(e)
	r := e.Value.(*remembered)
	return r.answer, r.retryAt
}

// remember keeps an answer, and forgets those least recently asked for when
// there are too many.
func (a *answers) remember(key string, ans *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.known[key]; e != nil {
		r := e.Value.(*remembered)
		a.bytes += len(ans.body) - len(r.answer.body)
		r.answer, r.retryAt = ans, time.Time{}
		a.recent.MoveToFront(e)
	} else {
		a.known[key] = a.recent.PushFront(&remembered{key: key, answer: ans})
		a.bytes += len(key) + len(ans.body) + answerOverhead
	}
	for a.bytes > answersBytes {
		e := a.recent.Back()
		r := a.recent.Remove(e).(*remembered)
		delete(a.known, r.key)
		a.bytes -= len(r.key) + len(r.answer.body) + answerOverhead
	}
}

// failed puts off asking again a question that has an old answer, so that
// visitors get that one without waiting.
func (a *answers) failed(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.known[key]; e != nil {
		e.Value.(*remembered).retryAt = time.Now().Add(answerRetry)
	}
}

// decodeReply reads an aggregator's reply. It is strict, so that an error in
// place of an answer is not taken for an empty answer.
func decodeReply(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("reading the reply %.200q: %w", data, err)
	}
	return nil
}
