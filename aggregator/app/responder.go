package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/reading"
)

// queue is the group of aggregators in which one answers each request.
const queue = "aggregator"

// Bounds of the work for requests over NATS.
const (
	requestsAtOnce  = 64
	requestsWaiting = 4096
	bytesWaiting    = 8 << 20
	requestTimeout  = 15 * time.Second
)

// responder answers edges' requests.
type responder struct {
	app    *App
	slots  chan struct{} // one token for each request in progress
	cancel context.CancelFunc
	subs   []*nats.Subscription
	wg     sync.WaitGroup

	unanswered *faults.Repeated
}

func newResponder(a *App) *responder {
	return &responder{
		app: a, slots: make(chan struct{}, requestsAtOnce),
		unanswered: faults.NewRepeated(a.opts.Logger, slog.LevelWarn, "a request over NATS was not answered"),
	}
}

func (b *responder) subscribe(nc *nats.Conn) error {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	// Not in the group: every aggregator hears the reports of all edges.
	reports, err := nc.Subscribe(hit.SubjectApplied, func(msg *nats.Msg) {
		if w, err := readWaiting(msg.Data); err == nil {
			b.app.waiting.heard(w)
			b.app.inForce.heard(w)
		}
	})
	if err == nil {
		b.subs = append(b.subs, reports)
		err = reports.SetPendingLimits(requestsWaiting, bytesWaiting)
	}
	if err != nil {
		b.unsubscribe()
		return fmt.Errorf("subscribing to %s: %w", hit.SubjectApplied, err)
	}
	for subject, answer := range map[string]func(context.Context, []byte) (any, error){
		hit.SubjectApplied: b.applied,
		hit.SubjectQuery:   b.query,
	} {
		sub, err := nc.QueueSubscribe(subject, queue, func(msg *nats.Msg) { b.serve(ctx, msg, answer) })
		if err == nil {
			b.subs = append(b.subs, sub)
			err = sub.SetPendingLimits(requestsWaiting, bytesWaiting)
		}
		if err != nil {
			b.unsubscribe()
			return fmt.Errorf("answering requests on %s: %w", subject, err)
		}
	}
	// Requests right after the start must be answered. A broker that is away learns of
	// the subscriptions when it is back.
	if nc.IsConnected() {
		_ = nc.FlushTimeout(time.Second)
	}
	return nil
}

// unsubscribe ends the subscriptions and waits for requests in progress.
func (b *responder) unsubscribe() {
	for _, sub := range b.subs {
		_ = sub.Unsubscribe() // fails only when the connection is closed, which ends the subscription
	}
	if b.cancel != nil {
		b.cancel()
	}
	b.wg.Wait()
}

// serve answers one request concurrently with others. A failure is an answer too, so
// that an edge knows the reason at once, and not only that nobody answers.
func (b *responder) serve(ctx context.Context, msg *nats.Msg, answer func(context.Context, []byte) (any, error)) {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	b.wg.Go(func() {
		defer func() { <-b.slots }()
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		v, err := answer(ctx, msg.Data)
		if err == nil {
			err = respond(msg, v)
		} else if ctx.Err() == nil {
			_ = msg.RespondMsg(&nats.Msg{Header: hit.ErrorHeader(err)}) // else the edge's time-out tells it
		}
		b.app.metrics.answered("nats "+msg.Subject, err == nil, time.Since(began))
		if err != nil && ctx.Err() == nil {
			b.unanswered.Log("subject", msg.Subject, "error", err)
		}
	})
}

func (b *responder) applied(ctx context.Context, data []byte) (any, error) {
	w, err := readWaiting(data)
	if err != nil {
		return nil, err
	}
	shards, err := b.app.opts.Store.Applied(ctx, w.Edge)
	if err != nil {
		return nil, fmt.Errorf("reading how far edge %s is applied: %w", w.Edge, err)
	}
	return hit.Applied{Shards: shards}, nil
}

func readWaiting(data []byte) (w hit.Waiting, err error) {
	if err := json.Unmarshal(data, &w); err != nil {
		return w, fmt.Errorf("reading an edge's report: %w", err)
	}
	if !hit.ValidEdge(w.Edge) {
		return w, fmt.Errorf("%.80q is not the id of an edge", w.Edge)
	}
	return w, nil
}

func (b *responder) query(ctx context.Context, data []byte) (any, error) {
	var q reading.Question
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, fmt.Errorf("reading a question: %w", err)
	}
	if len(q.Requests) == 0 {
		return nil, errors.New("reading a question: it has no requests")
	}
	if b.app.rules.Load() == nil {
		return nil, errNoRules
	}
	return b.app.api.Answer(ctx, &q), nil
}

// respond sends v as JSON, or an answer of the reading API with its own headers.
func respond(msg *nats.Msg, v any) error {
	reply := nats.NewMsg(msg.Reply)
	if ans, ok := v.(*reading.Answer); ok {
		reply.Header, reply.Data = ans.Header(), ans.Body
		return msg.RespondMsg(reply)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	reply.Data = data
	return msg.RespondMsg(reply)
}
