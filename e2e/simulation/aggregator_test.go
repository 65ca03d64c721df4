package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// aggregator is one process that folds.
type aggregator struct {
	loaded   bool
	state    store.State
	ready    *fold.Result // computed, but not yet committed
	relook   bool         // the connection was lost: load the state again after the commit
	upgraded bool
}

// fold is one step of an aggregator: load, compute, or commit. Anything may happen
// between two steps.
func (w *world) fold(a *aggregator, faulty bool) {
	switch {
	case w.away > 0:
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
	known := w.log.has(state.Position)
	if w.noFingerprint {
		known = state.Position.Seq < w.log.next
	}
	if !known {
		rewind := fold.Rewind(state.Position)
		w.unversion(rewind)
		if w.store.Commit(ctx, 0, rewind) != nil {
			return
		}
		fold.Advance(&state, rewind)
	}
	*a = aggregator{loaded: true, state: state, upgraded: a.upgraded}
}

func (w *world) unversion(c *store.Commit) {
	if w.noVersion {
		c.To.Version = 0
	}
}

func (w *world) compute(a *aggregator) {
	msgs := w.log.after(a.state.Position.Seq, 1+w.rng.IntN(4))
	if len(msgs) == 0 {
		// The idle check: did the store go back?
		if w.position() != a.state.Position {
			a.loaded = false
		}
		return
	}
	f := &fold.Folder{Rules: w.document, Store: w.store, First: func(_ context.Context, _ int, edge string, next uint64) (fold.InLog, error) {
		k := w.log.first(edge, next)
		if a.upgraded {
			k.Version = 0
		}
		return k, nil
	}}
	if w.unnamedReads {
		f.Store = unnamed{w.store, a.state.Position}
	}
	res, err := f.Fold(ctx, 0, a.state, w.read(a, msgs))
	if errors.Is(err, store.ErrConflict) {
		a.loaded = false
		return
	}
	if errors.Is(err, errUnread) {
		return // the shard waits
	}
	if err != nil {
		panic(err)
	}
	w.unversion(res.Commit)
	a.ready = res
}

// read returns messages as an aggregator reads them: an upgraded one can read every
// batch.
func (w *world) read(a *aggregator, msgs []fold.Message) []fold.Message {
	skip := w.skipUnread && w.changes.unread > 0
	if !w.noNumbers && !w.upgrades && !skip {
		return msgs
	}
	msgs = slices.Clone(msgs)
	for i := range msgs {
		m := &msgs[i]
		m.Batches = slices.Clone(m.Batches)
		for j, b := range m.Batches {
			switch {
			case w.noNumbers:
				m.Batches[j] = &hit.Batch{Seq: uint64(j + 1), Rules: b.Rules, Hits: b.Hits}
			case a.upgraded:
				m.Batches[j] = &hit.Batch{Version: hit.Version, Edge: b.Edge, Seq: b.Seq, Rules: b.Rules, Hits: b.Hits}
			case skip, w.setAsideNewer && fold.Newer(b) != 0:
				m.Batches[j] = nil
			}
		}
		if w.noNumbers {
			m.Edge, m.BatchSeq, m.LastSeq, m.Low = fmt.Sprint("message", m.Seq, m.Received), 1, uint64(len(m.Batches)), 1
		}
	}
	return msgs
}

// unnamed is a store whose reads omit their position.
type unnamed struct {
	store.Store
	at store.Position
}

func (u unnamed) Read(ctx context.Context, shard int, want *store.Want) (*store.Have, error) {
	have, err := u.Store.Read(ctx, shard, want)
	have.Position = u.at
	return have, err
}

func (w *world) commit(a *aggregator, faulty bool) {
	c := a.ready.Commit
	if w.noPositionCheck {
		moved := *c
		moved.From = w.position()
		c = &moved
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
	fold.Advance(&a.state, c)
	a.ready = nil
	if fate == 2 || a.relook { // the reply is lost
		a.loaded = false
	}
}
