// Package simulation runs the delivery protocol of edge, log and store against
// seeded faults. The edge's [outbox.Sender], the aggregator's [fold.Folder] and
// the commit rule are the real ones; the disk of the edge, the log and the
// network between them are modelled here, so that a hundred thousand histories
// fit into a test run.
package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const keep = time.Minute // of the edges

var (
	ctx   = context.Background()
	epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// design is what may be taken out of the protocol, to see that the simulation
// notices.
type design struct {
	noPositionCheck, noProducerSequence, noResend, noMemos bool
	// forgetful is a log with a short retention, and stores that come back
	// empty: hits may be lost then, but only with a report.
	forgetful bool
}

// world is one history.
type world struct {
	design
	rng   *rand.Rand
	now   time.Time
	rules *ruleset.Ruleset

	edges []*edge
	log   *logModel
	// late are messages that the sender has given up on, and that the network
	// still has.
	late  []fold.Message
	store *memstore.Store
	snaps []snapshot
	aggs  []*aggregator

	lost map[batchID]bool // reported as lost
	// The last time that the log, or the store, lost something.
	logHurt, storeHurt time.Time
	faults             map[string]int
}

type batchID struct {
	edge string
	seq  uint64
}

type snapshot struct {
	at   time.Time
	data *memstore.Snapshot
}

// edge is one spool directory and the process that works on it.
type edge struct {
	id        string
	spool     map[uint64]*hit.Batch // on disk
	low, last uint64
	sender    *outbox.Sender
	accepted  []hit.Hit // that were acknowledged to a visitor; each is of an item of its own
	batchOf   map[string]uint64
}

// logModel is the stream.
type logModel struct {
	msgs []fold.Message // ascending by Seq
	next uint64
}

func (l *logModel) append(m fold.Message, now time.Time) {
	m.Seq, m.Received = l.next, now
	m.Data = fmt.Appendf(nil, "%s %d %d", m.Edge, m.BatchSeq, m.LastSeq)
	l.next++
	l.msgs = append(l.msgs, m)
}

func (l *logModel) after(seq uint64, n int) []fold.Message {
	for i, m := range l.msgs {
		if m.Seq > seq {
			return l.msgs[i:min(i+n, len(l.msgs))]
		}
	}
	return nil
}

// has says whether a position is one of this log, as the ingest verifies it.
func (l *logModel) has(p store.Position) bool {
	if p.Seq == 0 || len(l.msgs) > 0 && p.Seq < l.msgs[0].Seq {
		return true // never began, or no longer kept
	}
	for _, m := range l.msgs {
		if m.Seq == p.Seq {
			return fold.Fingerprint(m.Subject, m.Received, m.Data) == p.Fingerprint
		}
	}
	return len(l.msgs) == 0 && p.Seq < l.next // all expired
}

// aggregator is one process that folds.
type aggregator struct {
	loaded bool
	state  store.State
	ready  *fold.Result // computed, not yet committed
}

func newWorld(seed uint64, d design) *world {
	w := &world{
		design: d,
		rng:    rand.New(rand.NewPCG(seed, 1)),
		now:    epoch,
		rules:  rules(),
		log:    &logModel{next: 1},
		store:  memstore.New(1),
		aggs:   []*aggregator{{}, {}},
		lost:   map[batchID]bool{},
		faults: map[string]int{},
	}
	if err := w.rules.Provision(); err != nil {
		panic(err)
	}
	for i := range 2 {
		e := &edge{id: fmt.Sprint("edge", i), spool: map[uint64]*hit.Batch{}, low: 1, batchOf: map[string]uint64{}}
		w.start(e)
		w.edges = append(w.edges, e)
	}
	w.snap()
	return w
}

// start is a process that opens the spool.
func (w *world) start(e *edge) {
	t := outbox.Timing{Keep: keep}
	if w.noResend {
		t.Resend, t.ResendMax = 1000*time.Hour, 1000*time.Hour
	}
	e.sender = outbox.NewSender(e.low, e.last, t)
}

// accept is a hit that a visitor is told is counted: it is on disk.
func (w *world) accept(e *edge) {
	e.last++
	b := &hit.Batch{Edge: e.id, Seq: e.last}
	for i := range 1 + w.rng.IntN(2) {
		item := fmt.Sprintf("%s-%d-%d", e.id, e.last, i)
		h := hit.Hit{Kind: hit.View, List: "a", Item: item, Visitor: 1, Time: w.now.UnixMilli()}
		if w.rng.IntN(2) == 0 {
			w.makeVote(&h)
		}
		b.Hits = append(b.Hits, h)
		e.accepted = append(e.accepted, h)
		e.batchOf[item] = e.last
	}
	e.spool[e.last] = b
	e.sender.Committed(e.last)
}

// publish sends what the sender wants sent. The network may lose the message,
// or its acknowledgement, or hold the message back.
func (w *world) publish(e *edge, faulty bool) {
	s, ok := e.sender.Next()
	if !ok {
		return
	}
	// A message has as many batches as fit, which is another number each time.
	s.Last = min(s.Last, s.Seq+w.rng.Uint64N(4))
	if !e.sender.Take(s.Last) {
		panic("a sender that is not retired does not send")
	}
	m := fold.Message{Subject: hit.Subject(0, e.id), Edge: e.id, BatchSeq: s.Seq, LastSeq: s.Last, Low: s.Low}
	for seq := s.Seq; seq <= s.Last; seq++ {
		if e.spool[seq] == nil {
			panic(fmt.Sprintf("batch %d of %s is sent, but the spool begins at %d", seq, e.id, e.low))
		}
		m.Batches = append(m.Batches, e.spool[seq])
	}
	fate := 0
	if faulty {
		fate = w.rng.IntN(6)
	}
	switch fate {
	case 1: // the message is lost
		e.sender.Failed(s.Seq)
	case 2: // the acknowledgement is lost
		w.log.append(m, w.now)
		e.sender.Failed(s.Seq)
	case 3: // the message is late
		w.late = append(w.late, m)
		e.sender.Failed(s.Seq)
	default:
		w.log.append(m, w.now)
		e.sender.Acked(s.Seq, w.now)
	}
}

// poll asks how far the counts are, and trims the spool.
func (w *world) poll(e *edge) {
	applied, err := w.store.Producer(ctx, e.id)
	if err != nil {
		panic(err)
	}
	if !w.noProducerSequence {
		e.sender.Applied(applied[0], w.now)
	}
	for low := e.sender.Trim(w.now); e.low < low; e.low++ {
		delete(e.spool, e.low)
	}
}

// fold is one step of an aggregator: load, compute, or commit. Between two
// steps anything may happen.
func (w *world) fold(a *aggregator, faulty bool) {
	switch {
	case !a.loaded:
		w.load(a)
	case a.ready == nil:
		w.compute(a)
	default:
		w.commit(a, faulty)
	}
}

func (w *world) load(a *aggregator) {
	state, err := w.store.Load(ctx, 0)
	if err != nil {
		panic(err)
	}
	if !w.log.has(state.Position) {
		rewind := fold.Rewind(state.Position)
		if w.store.Commit(ctx, 0, rewind) != nil {
			return
		}
		fold.Advance(&state, rewind)
	}
	a.state, a.loaded, a.ready = state, true, nil
}

func (w *world) compute(a *aggregator) {
	msgs := w.log.after(a.state.Position.Seq, 1+w.rng.IntN(4))
	if len(msgs) == 0 {
		// The idle check: has the store been taken back?
		if p, err := w.store.Position(ctx, 0); err != nil || p != a.state.Position {
			a.loaded = false
		}
		return
	}
	if w.noProducerSequence {
		msgs = append([]fold.Message(nil), msgs...)
		for i := range msgs {
			m := &msgs[i]
			m.Edge, m.BatchSeq, m.LastSeq, m.Low = fmt.Sprint("message", m.Seq, m.Received), 1, uint64(len(m.Batches)), 1
			m.Batches = slices.Clone(m.Batches)
			for j, b := range m.Batches {
				anonymous := *b
				anonymous.Seq = uint64(j + 1)
				m.Batches[j] = &anonymous
			}
		}
	}
	f := &fold.Folder{Rules: w.rules, Store: w.store, First: w.first}
	res, err := f.Fold(ctx, 0, a.state, msgs)
	if errors.Is(err, store.ErrConflict) {
		a.loaded = false
		return
	}
	if err != nil {
		panic(err)
	}
	a.ready = res
}

func (w *world) first(_ context.Context, _ int, edge string, next uint64) (batch, at uint64, err error) {
	for _, m := range w.log.msgs {
		if seq := max(m.BatchSeq, next); m.Edge == edge && m.LastSeq >= seq && (batch == 0 || seq < batch) {
			batch, at = seq, m.Seq
		}
	}
	if batch == 0 { // the log was hurt since the message was read
		return next, 0, nil
	}
	return batch, at, nil
}

func (w *world) commit(a *aggregator, faulty bool) {
	c := a.ready.Commit
	if w.noPositionCheck {
		if p, err := w.store.Position(ctx, 0); err == nil {
			moved := *c
			moved.From = p
			c = &moved
		}
	}
	if w.noMemos {
		forgotten := *c
		forgotten.Memos = nil
		c = &forgotten
	}
	fate := 0
	if faulty {
		fate = w.rng.IntN(8)
	}
	if fate == 1 { // the request is lost
		a.loaded = false
		return
	}
	if err := w.store.Commit(ctx, 0, c); err != nil {
		a.loaded = false
		return
	}
	for _, g := range a.ready.Lost {
		for seq := g.From; seq <= g.To; seq++ {
			w.lost[batchID{g.Edge, seq}] = true
		}
	}
	fold.Advance(&a.state, c)
	a.ready = nil
	if fate == 2 { // the reply is lost
		a.loaded = false
	}
}

func (w *world) snap() {
	w.snaps = append(w.snaps, snapshot{w.now, w.store.Snapshot()})
	if len(w.snaps) > 8 {
		w.snaps = w.snaps[1:]
	}
}
