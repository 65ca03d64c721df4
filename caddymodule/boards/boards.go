// Package boards answers the reading API at an edge: it asks the aggregators and
// caches their answers.
package boards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/reading"
)

const (
	// maxBytes bounds the memory for answers.
	maxBytes = 32 << 20
	// maxAsking bounds the number of different questions in flight.
	maxAsking = 64
	// askTimeout is how long a visitor waits for an aggregator.
	askTimeout = 2 * time.Second
	// retryAfter is the time before a failed question is asked again.
	retryAfter = time.Second
	// entryBytes is the approximate size of an answer in memory without its body.
	entryBytes = 512
)

// ErrBusy is returned while too many different questions wait for an aggregator.
var ErrBusy = errors.New("too many different questions wait for an aggregator")

// Boards asks the aggregators each question once per time slice, however many
// visitors ask it. While no aggregator answers, it returns the last answer.
type Boards struct {
	ask    func(context.Context, *reading.Question) (*reading.Answer, error)
	flight singleflight.Group
	asking chan struct{}
	known  *otter.Cache[string, entry] // by [reading.Question.Key]
}

// entry is the last answer to a question. It is immutable.
type entry struct {
	answer  *reading.Answer
	expires time.Time
	retryAt time.Time // earliest time of the next attempt
}

// New returns Boards with an empty cache. conn returns the connection to the
// broker, or false if there is none.
func New(conn func() (*nats.Conn, bool)) *Boards {
	return &Boards{
		ask: func(ctx context.Context, q *reading.Question) (*reading.Answer, error) {
			return askAggregator(ctx, conn, q)
		},
		asking: make(chan struct{}, maxAsking),
		known: otter.Must(&otter.Options[string, entry]{
			MaximumWeight: maxBytes,
			Weigher: func(key string, e entry) uint32 {
				return uint32(len(key) + len(e.answer.Body) + entryBytes)
			},
		}),
	}
}

func askAggregator(ctx context.Context, conn func() (*nats.Conn, bool), q *reading.Question) (*reading.Answer, error) {
	nc, ok := conn()
	if !ok || nc == nil {
		return nil, errors.New("asking an aggregator: there is no connection to the broker yet")
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
	if err := hit.ReplyError(msg.Header); err != nil {
		return nil, fmt.Errorf("asking an aggregator: %w", err)
	}
	return reading.ReadAnswer(msg.Header, msg.Data)
}

// Get returns the answer to q and how long it stays valid. If the aggregators
// fail, it returns the last answer and marks it as stale; without a last answer,
// it returns an error.
func (b *Boards) Get(ctx context.Context, q *reading.Question) (ans *reading.Answer, left time.Duration, stale bool, err error) {
	key := q.Key()
	now := time.Now()
	last, known := b.known.GetIfPresent(key)
	if known && now.Before(last.expires) {
		return last.answer, last.expires.Sub(now), false, nil
	}
	if known && now.Before(last.retryAt) {
		return last.answer, 0, true, nil
	}
	// The question continues when the visitor who asked it first disconnects:
	// others may wait for the answer.
	result := b.flight.DoChan(key, func() (any, error) { return b.refresh(key, q) })
	select {
	case <-ctx.Done():
		return nil, 0, false, ctx.Err()
	case r := <-result:
		if r.Err == nil {
			e := r.Val.(entry)
			return e.answer, time.Until(e.expires), false, nil
		}
		if known {
			return last.answer, 0, true, nil
		}
		return nil, 0, false, r.Err
	}
}

func (b *Boards) refresh(key string, q *reading.Question) (entry, error) {
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	default:
		return entry{}, ErrBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	ans, err := b.ask(ctx, q)
	if err == nil && ans.Status >= http.StatusInternalServerError {
		err = fmt.Errorf("an aggregator answered with the status %d: %.200s", ans.Status, ans.Body)
	}
	if err != nil {
		// Visitors get the old answer, if there is one, without another wait.
		if old, ok := b.known.GetIfPresent(key); ok {
			old.retryAt = time.Now().Add(retryAfter)
			b.known.Set(key, old)
		}
		return entry{}, err
	}
	e := entry{answer: ans, expires: time.Now().Add(ans.Holds)}
	if ans.Status == http.StatusOK {
		b.known.Set(key, e)
	}
	return e, nil
}
