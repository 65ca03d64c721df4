package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/faults"
)

// Timing of a worker.
const (
	leaseTTL   = 5 * time.Second
	leaseRenew = leaseTTL / 3
	standBy    = 500 * time.Millisecond // between two checks whether the shard is free
	idleCheck  = time.Second            // between two checks of the store's position
	pace       = 50 * time.Millisecond  // least time between two commits that are not full
	backoffMin = 100 * time.Millisecond // after an error
	backoffMax = 5 * time.Second
	opTimeout  = 30 * time.Second // of one exchange with the store
	askTimeout = 3 * time.Second  // of one request to the broker; a lost connection loses its answer
	// applyTimeout bounds a fold with its commit. The fold may have to search the log,
	// which takes seconds for every few million batches, or to build new sums of scores
	// from whole boards. It is less than the time after which a worker counts as stuck.
	applyTimeout = 4 * time.Minute
)

// Reasons to load the state again that are not faults.
var (
	errLease = errors.New("another aggregator folds the shard")
	errMoved = errors.New("the store is at another position")
	errEra   = errors.New("the log must be compared with the position again")
)

// worker folds one shard.
type worker struct {
	in    *Ingest
	shard int
	label string // the shard, for metrics
	log   *slog.Logger

	cameRound atomic.Int64  // when the loop last completed, in milliseconds since the Unix epoch
	applied   atomic.Uint64 // stream sequence of the position, while the lease is held
	reached   atomic.Int64  // when the log received the last applied message, in milliseconds since the Unix epoch

	leased  time.Time      // when the lease was last granted
	known   store.Position // last position in the store that this worker knows
	gaps    gaps
	backoff time.Duration
}

func newWorker(in *Ingest, shard int) *worker {
	w := &worker{
		in: in, shard: shard,
		label: strconv.Itoa(shard),
		log:   in.Logger.With("shard", shard),
		gaps:  gaps{},
	}
	w.cameRound.Store(time.Now().UnixMilli())
	return w
}

// run follows the log while it holds the lease, until ctx is done.
func (w *worker) run(ctx context.Context) {
	defer w.release(ctx)
	for ctx.Err() == nil {
		w.cameRound.Store(time.Now().UnixMilli())
		if !w.in.usable.Load() {
			wait(ctx, backoffMin)
			continue
		}
		err := w.lease(ctx)
		if err == nil {
			err = w.follow(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errEvicts):
			wait(ctx, standBy)
		case errors.Is(err, errLease):
			w.standBy(ctx)
			wait(ctx, standBy)
		case errors.Is(err, store.ErrConflict):
			w.in.metrics.conflicts.Inc()
			w.in.reloads.Log("reason", err, "shard", w.shard)
		case errors.Is(err, errMoved), errors.Is(err, errEra), errors.Is(err, errDisconnected):
			w.in.reloads.Log("reason", err, "shard", w.shard)
		default:
			w.backoff = min(max(backoffMin, 2*w.backoff), backoffMax)
			w.in.interruptions.Log("error", err, "shard", w.shard, "retry_in", w.backoff)
			wait(ctx, w.backoff/2+rand.N(w.backoff/2))
		}
	}
}

// storeError raises the fault for an error of the store.
func (w *worker) storeError(ctx context.Context, err error) error {
	if failed(ctx, err) && !errors.Is(err, store.ErrConflict) {
		w.in.Faults.Set(faults.StoreAway, w.shard, w.storeCause(err))
	}
	return err
}

// logError raises the fault for an error of the broker.
func (w *worker) logError(ctx context.Context, err error) error {
	err = w.in.brokerError(err)
	if failed(ctx, err) && !errors.Is(err, errDisconnected) {
		w.in.Faults.Set(faults.LogAway, w.shard, w.logCause(err))
	}
	return err
}

// rulesError raises the fault for rules that the shard waits for.
func (w *worker) rulesError(ctx context.Context, err *fold.RulesError) error {
	if !w.in.Conn.IsConnected() {
		return w.logError(ctx, err)
	}
	if failed(ctx, err) {
		w.in.Faults.Set(faults.RulesMissing, w.shard, rulesCause(err))
	}
	return err
}

// lease takes or renews the lease when it is due, or gives it up when the shard
// belongs to another aggregator. A worker that cannot read the log does not renew,
// so that another aggregator may go on.
func (w *worker) lease(ctx context.Context) error {
	if !w.in.Owns(w.shard) {
		w.release(ctx)
		return errLease
	}
	if w.in.evicts.Load() {
		return errEvicts
	}
	if time.Since(w.leased) < leaseRenew {
		return nil
	}
	if !w.in.Conn.IsConnected() {
		return w.logError(ctx, nats.ErrDisconnected)
	}
	asked := time.Now()
	opCtx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	ok, err := w.in.Store.Lease(opCtx, w.shard, w.in.Owner, leaseTTL)
	if err != nil {
		return w.storeError(ctx, fmt.Errorf("taking the lease: %w", err))
	}
	if !ok {
		w.setLeased(time.Time{})
		return errLease
	}
	w.setLeased(asked)
	return nil
}

// setLeased records when the lease was last granted; the zero time when it is not
// held.
func (w *worker) setLeased(at time.Time) {
	switch {
	case w.leased.IsZero() && !at.IsZero():
		w.in.metrics.owned.Inc()
	case !w.leased.IsZero() && at.IsZero():
		w.in.metrics.owned.Dec()
	}
	w.leased = at
}

// standBy forgets what only the holder of the lease can know.
func (w *worker) standBy(ctx context.Context) {
	if w.known.Seq > 0 {
		// A store that was emptied has forgotten the lease too, and its next holder does
		// not know the old position.
		opCtx, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		if now, err := w.in.Store.Position(opCtx, w.shard); err == nil {
			w.compare(now)
		}
	}
	for _, k := range []faults.Kind{faults.StoreAway, faults.LogAway, faults.RulesMissing, faults.Gap, faults.NewerEdge} {
		w.in.Faults.Clear(k, w.shard)
	}
	w.known = store.Position{}
	w.applied.Store(0)
	w.gaps = gaps{}
	w.in.metrics.position.DeleteLabelValues(w.label)
	w.in.metrics.gaps.DeleteLabelValues(w.label)
}

// release lets another aggregator go on at once instead of after the lease expires.
func (w *worker) release(ctx context.Context) {
	if w.leased.IsZero() {
		return
	}
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := w.in.Store.Release(opCtx, w.shard, w.in.Owner); err != nil {
		w.log.Warn("giving up the lease failed; it expires by itself", "error", err)
	}
	w.setLeased(time.Time{})
}

// follow reads the log from the store's position, and folds. It returns the reason
// to load the state again.
func (w *worker) follow(ctx context.Context) error {
	era := w.in.era.Load()
	state, err := w.load(ctx)
	if err != nil {
		return err
	}
	askCtx, cancel := context.WithTimeout(ctx, askTimeout)
	s, err := openSession(askCtx, w.in.Conn, w.in.js, w.shard, state.Position.Seq+1)
	cancel()
	if err != nil {
		return w.logError(ctx, err)
	}
	defer s.close()

	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	var last time.Time // of the last commit
	var idle bool      // whether the last look found no messages
	for {
		w.cameRound.Store(time.Now().UnixMilli())
		msgs, err := collect(ctx, s, last.Add(pace), tick.C)
		if err != nil {
			return w.logError(ctx, err)
		}
		// After the messages arrived: they may belong to another aggregator, or to
		// another log.
		if err := w.lease(ctx); err != nil {
			return err
		}
		if w.in.era.Load() != era {
			return errEra
		}
		if len(msgs) == 0 {
			if err := w.idle(ctx, state.Position); err != nil {
				return err
			}
			if idle { // twice, because the first messages may take their time
				w.in.Faults.Clear(faults.RulesMissing, w.shard)
			}
			idle = true
			continue
		}
		idle = false
		for len(msgs) > 0 {
			folded, err := w.apply(ctx, &state, msgs)
			if err != nil {
				return err
			}
			if state.Position.Seq == 0 { // the fold needs the log from its beginning
				return errMoved
			}
			msgs = msgs[folded:]
		}
		last = time.Now()
	}
}

// load returns the shard's state after comparing it with the log. If the log is
// another one, it starts again from the beginning.
func (w *worker) load(ctx context.Context) (store.State, error) {
	opCtx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	state, err := w.in.Store.Load(opCtx, w.shard)
	if err != nil {
		return state, w.storeError(ctx, fmt.Errorf("loading the state: %w", err))
	}
	w.compare(state.Position)
	w.at(state.Position)

	askCtx, cancelAsk := context.WithTimeout(ctx, askTimeout)
	defer cancelAsk()
	if state.Position == (store.Position{}) {
		if err := w.begin(askCtx, &state); err != nil {
			return state, err
		}
	}
	replaced, err := verify(askCtx, w.in.js, state.Position)
	if err != nil {
		return state, w.logError(ctx, err)
	}
	if replaced != "" {
		w.in.Faults.Event(faults.LogReplaced, w.shard, replaced+"; reading the log from its beginning")
		w.in.metrics.rewinds.Inc()
		c := fold.Rewind(state.Position)
		if err := w.in.Store.Commit(opCtx, w.shard, c); err != nil {
			return state, w.storeError(ctx, fmt.Errorf("rewinding: %w", err))
		}
		fold.Advance(&state, c)
		w.at(state.Position)
	}
	return state, nil
}

// compare raises a fault when the store went back.
func (w *worker) compare(now store.Position) {
	if now.Seq < w.known.Seq {
		w.in.Faults.Event(faults.StoreBehind, w.shard, fmt.Sprintf(
			"the store is at message %d, it was at %d: it was emptied or restored from an older copy; counting on from there",
			now.Seq, w.known.Seq))
	}
}

// at records the known position of the store.
func (w *worker) at(pos store.Position) {
	w.known = pos
	w.applied.Store(pos.Seq)
	if pos.Seq == 0 {
		w.reached.Store(0)
	}
	w.in.metrics.position.WithLabelValues(w.label).Set(float64(pos.Seq))
}

// idle checks the store while there is nothing to read. Otherwise a store that was
// emptied or went back would go unnoticed until the next hit.
func (w *worker) idle(ctx context.Context, pos store.Position) error {
	opCtx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	now, err := w.in.Store.Position(opCtx, w.shard)
	if err != nil {
		return w.storeError(ctx, fmt.Errorf("reading the position: %w", err))
	}
	if now != pos {
		return errMoved
	}
	w.fine()
	w.showGaps()
	return nil
}

// fine clears faults after the shard was folded to the end of the log, or after a
// commit.
func (w *worker) fine() {
	w.backoff = 0
	w.in.Faults.Clear(faults.StoreAway, w.shard)
	w.in.Faults.Clear(faults.LogAway, w.shard)
}

// apply folds the first of msgs, commits the result and returns how many it folded.
// It finishes both even when ctx ends.
func (w *worker) apply(ctx context.Context, state *store.State, msgs []fold.Message) (folded int, err error) {
	began := time.Now()
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTimeout)
	defer cancel()
	res, err := w.in.folder().Fold(opCtx, w.shard, *state, msgs)
	var missing *fold.RulesError
	switch {
	case errors.As(err, &missing):
		return 0, w.rulesError(ctx, missing)
	case errors.Is(err, fold.ErrLog):
		return 0, w.logError(ctx, err)
	case err != nil:
		return 0, w.storeError(ctx, err)
	}
	msgs = msgs[:res.Folded]
	var poisoned []*fold.Message
	for _, i := range res.Poisoned {
		first, err := setAside(opCtx, w.in.js, w.shard, &msgs[i])
		if err != nil {
			return 0, w.logError(ctx, err)
		}
		if first {
			poisoned = append(poisoned, &msgs[i])
		}
	}
	if err := w.in.Store.Commit(opCtx, w.shard, res.Commit); err != nil {
		return 0, w.storeError(ctx, fmt.Errorf("committing: %w", err))
	}
	fold.Advance(state, res.Commit)
	w.at(state.Position)
	w.reached.Store(msgs[len(msgs)-1].Received.UnixMilli())
	w.fine()
	w.in.Faults.Clear(faults.RulesMissing, w.shard)
	w.in.metrics.committed(msgs, res, time.Since(began))
	if w.in.Committed != nil {
		w.in.Committed(res)
	}
	w.tell(opCtx, res, poisoned, state)
	return res.Folded, nil
}

// tell reports the findings of a committed fold.
func (w *worker) tell(ctx context.Context, res *fold.Result, poisoned []*fold.Message, state *store.State) {
	for _, m := range poisoned {
		w.in.Faults.Event(faults.Poisoned, w.shard, fmt.Sprintf(
			"message %d on %.120s cannot be read and was set aside: %v", m.Seq, m.Subject, m.Err))
	}
	for _, g := range res.Lost {
		w.in.Faults.Event(faults.BatchesLost, w.shard, fmt.Sprintf(
			"batches %d to %d of edge %s are neither in the log nor at the edge any more", g.From, g.To, g.Edge))
	}
	if len(res.Lost) > 0 {
		w.in.ShowLosses(ctx)
	}
	if res.Rewind {
		w.in.metrics.rewinds.Inc()
		w.log.Warn("the store went back, and the log has batches that it counted before; reading the log from its beginning")
	}
	w.gaps.update(res.Held, state.Edges, time.Now())
	w.showGaps()
}

func (w *worker) showGaps() {
	now := time.Now()
	for _, edge := range w.gaps.forget(now) {
		w.log.Warn("no longer waiting for missing batches of an edge", "edge", edge)
	}
	w.in.metrics.gaps.WithLabelValues(w.label).Set(float64(len(w.gaps)))
	if message := w.gaps.outstanding(now); message != "" {
		w.in.Faults.Set(faults.Gap, w.shard, message)
	} else {
		w.in.Faults.Clear(faults.Gap, w.shard)
	}
	if message := w.gaps.newer(); message != "" {
		w.in.Faults.Set(faults.NewerEdge, w.shard, message)
	} else {
		w.in.Faults.Clear(faults.NewerEdge, w.shard)
	}
}
