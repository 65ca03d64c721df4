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

// How a worker behaves in time.
const (
	leaseTTL   = 5 * time.Second
	leaseRenew = leaseTTL / 3
	standBy    = 500 * time.Millisecond // between two looks whether the shard is there to be taken
	idleCheck  = time.Second            // between two looks whether the store is still where it was
	pace       = 50 * time.Millisecond  // least time from one commit to the next, unless there is a full one to make
	backoffMin = 100 * time.Millisecond // after an error
	backoffMax = 5 * time.Second
	opTimeout  = 30 * time.Second // of one exchange with the store
	askTimeout = 3 * time.Second  // of one question to the broker; its answer is lost when the connection is
	// applyTimeout bounds a fold with its commit. The fold may have to search the
	// log, which takes seconds for every few million batches.
	applyTimeout = 2 * time.Minute
)

// Reasons to load the state again that are no fault.
var (
	errLease = errors.New("another aggregator folds the shard")
	errMoved = errors.New("the store is at another position")
	errEra   = errors.New("the log has to be compared with the position again")
)

// worker folds one shard.
type worker struct {
	in    *Ingest
	shard int
	label string // the shard, for metrics
	log   *slog.Logger

	cameRound atomic.Int64  // when the loop last turned, in milliseconds since the Unix epoch
	applied   atomic.Uint64 // stream sequence of the position, while the lease is held
	reached   atomic.Int64  // when the log got the last message that was applied, in milliseconds since the Unix epoch

	leased  time.Time      // when the lease was last granted
	known   store.Position // last position that the store was known to have, by this worker
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

// run follows the log whenever it has the lease, until ctx is done.
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

// storeError notes that the store did not do what it was asked.
func (w *worker) storeError(ctx context.Context, err error) error {
	if away(ctx, err) && !errors.Is(err, store.ErrConflict) {
		w.in.Faults.Set(faults.StoreAway, w.shard, w.storeCause(err))
	}
	return err
}

// logError notes that the broker did not do what it was asked.
func (w *worker) logError(ctx context.Context, err error) error {
	err = w.in.brokerError(err)
	if away(ctx, err) && !errors.Is(err, errDisconnected) {
		w.in.Faults.Set(faults.LogAway, w.shard, w.logCause(err))
	}
	return err
}

// lease gets or renews the lease, if it is time to, or gives it up when the shard
// is another aggregator's. One that cannot read the log renews nothing, so that
// another one may go on.
func (w *worker) lease(ctx context.Context) error {
	if !w.in.owns(w.shard) {
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

// setLeased notes when the lease was last granted; the zero time when it is not held.
func (w *worker) setLeased(at time.Time) {
	switch {
	case w.leased.IsZero() && !at.IsZero():
		w.in.metrics.owned.Inc()
	case !w.leased.IsZero() && at.IsZero():
		w.in.metrics.owned.Dec()
	}
	w.leased = at
}

// standBy forgets what only the one who folds the shard can know.
func (w *worker) standBy(ctx context.Context) {
	if w.known.Seq > 0 {
		// A store that was emptied has forgotten the lease too: who takes it now does
		// not know how far the shard was.
		opCtx, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		if now, err := w.in.Store.Position(opCtx, w.shard); err == nil {
			w.compare(now)
		}
	}
	for _, k := range []faults.Kind{faults.StoreAway, faults.LogAway, faults.Gap, faults.NewerEdge} {
		w.in.Faults.Clear(k, w.shard)
	}
	w.known = store.Position{}
	w.applied.Store(0)
	w.gaps = gaps{}
	w.in.metrics.position.DeleteLabelValues(w.label)
	w.in.metrics.gaps.DeleteLabelValues(w.label)
}

// release lets another aggregator go on at once instead of after the lease's
// end.
func (w *worker) release(ctx context.Context) {
	if w.leased.IsZero() {
		return
	}
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := w.in.Store.Release(opCtx, w.shard, w.in.Owner); err != nil {
		w.log.Warn("giving up the lease; it ends by itself", "error", err)
	}
	w.setLeased(time.Time{})
}

// follow reads the log from where the store stands, and folds. It ends with the
// reason to begin again from loading the state.
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
	for {
		w.cameRound.Store(time.Now().UnixMilli())
		msgs, hits, err := collect(ctx, s, last.Add(pace), tick.C)
		if err != nil {
			return w.logError(ctx, err)
		}
		// Asked after the messages came: they may be for another aggregator, or of
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
			continue
		}
		if err := w.apply(ctx, &state, msgs, hits); err != nil {
			return err
		}
		last = time.Now()
		if state.Position.Seq == 0 { // the fold wants to read the log from its beginning
			return errMoved
		}
	}
}

// load returns the shard's state after comparing it with the log. A log that is
// not the one that was read is read from its beginning.
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

// compare notices a store that went back.
func (w *worker) compare(now store.Position) {
	if now.Seq < w.known.Seq {
		w.in.Faults.Event(faults.StoreBehind, w.shard, fmt.Sprintf(
			"the store is at message %d, it was at %d: it was emptied or restored from an older copy; counting on from there",
			now.Seq, w.known.Seq))
	}
}

// at notes where the store is known to stand.
func (w *worker) at(pos store.Position) {
	w.known = pos
	w.applied.Store(pos.Seq)
	if pos.Seq == 0 {
		w.reached.Store(0)
	}
	w.in.metrics.position.WithLabelValues(w.label).Set(float64(pos.Seq))
}

// idle is what a worker does when there is nothing to read: a store that was
// emptied or went back would otherwise stay so until the next hit.
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

// fine notes that the shard was folded as far as the log goes, or a commit went through.
func (w *worker) fine() {
	w.backoff = 0
	w.in.Faults.Clear(faults.StoreAway, w.shard)
	w.in.Faults.Clear(faults.LogAway, w.shard)
}

// apply folds messages and commits the outcome. It goes through with it also
// when ctx ends.
func (w *worker) apply(ctx context.Context, state *store.State, msgs []fold.Message, hits int) error {
	began := time.Now()
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTimeout)
	defer cancel()
	res, err := w.in.folder().Fold(opCtx, w.shard, *state, msgs)
	if errors.Is(err, fold.ErrLog) {
		return w.logError(ctx, err)
	}
	if err != nil {
		return w.storeError(ctx, err)
	}
	var poisoned []*fold.Message
	for _, i := range res.Poisoned {
		first, err := setAside(opCtx, w.in.js, w.shard, &msgs[i])
		if err != nil {
			return w.logError(ctx, err)
		}
		if first {
			poisoned = append(poisoned, &msgs[i])
		}
	}
	if err := w.in.Store.Commit(opCtx, w.shard, res.Commit); err != nil {
		return w.storeError(ctx, fmt.Errorf("committing: %w", err))
	}
	fold.Advance(state, res.Commit)
	w.at(state.Position)
	w.reached.Store(msgs[len(msgs)-1].Received.UnixMilli())
	w.fine()
	w.in.metrics.committed(msgs, hits, res, time.Since(began))
	if w.in.Committed != nil {
		w.in.Committed(res)
	}
	w.tell(opCtx, res, poisoned, state)
	return nil
}

// tell says what a commit has brought to light.
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
		w.log.Warn("the log holds batches that were counted before the store went back; reading it from its beginning")
	}
	w.gaps.update(res.Held, state.Producers, time.Now())
	w.showGaps()
}

func (w *worker) showGaps() {
	now := time.Now()
	for _, edge := range w.gaps.forget(now) {
		w.log.Warn("waiting no longer for batches that an edge has not sent", "edge", edge)
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
