package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// changes are the rules of an installation whose operators change them all the
// time, at some edges first and at others later or never.
type changes struct {
	// rng is apart from the world's, so that a history is the same with and without
	// changes in everything else.
	rng       *rand.Rand
	rules     map[hit.RulesID]*ruleset.Rules
	documents []hit.RulesID
	revisions []hit.RulesID // revision n is the n-th
	unread    int           // for so many more steps nobody can read a document
}

func newChanges(seed uint64) *changes {
	c := &changes{rng: rand.New(rand.NewPCG(seed, 2)), rules: map[hit.RulesID]*ruleset.Rules{}}
	c.add(newRules())
	c.revisions = append(c.revisions, c.documents[0])
	return c
}

func (c *changes) add(r *ruleset.Rules) {
	id := hit.RulesIDOf(fmt.Append(nil, len(c.documents)))
	c.rules[id] = r
	c.documents = append(c.documents, id)
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// randomRules has some of four lists, each with settings of its own. The limit of
// votes is always the same, or absent: the promise about quotas is for one limit.
func (c *changes) randomRules() *ruleset.Rules {
	var config ruleset.Config
	for _, name := range []string{"a", "b", "poll", "prize"} {
		if c.rng.IntN(4) == 0 {
			continue
		}
		l := &ruleset.ListConfig{
			Name:    name,
			Dedup:   pick(c.rng, 0, ruleset.DefaultDedup, 3*ruleset.DefaultDedup),
			Weights: pick(c.rng, nil, &ruleset.Weights{PV: 2, UV: 0.5}),
			Boards:  pick(c.rng, nil, []calendar.Period{calendar.Hour}, []calendar.Period{calendar.Day, calendar.All}),
			Score: pick(c.rng, ruleset.Score{}, ruleset.Score{Model: ruleset.Accumulate}, ruleset.Score{Model: ruleset.Accumulate, Base: 3},
				ruleset.Score{Model: ruleset.HalfLife}, ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(1e9 * 600)}),
		}
		if name == "poll" || name == "prize" {
			l.Votes = &ruleset.Votes{Options: []string{"*"}}
		} else {
			l.Zone = pick(c.rng, "", "Asia/Kolkata", "America/New_York")
		}
		config.Lists = append(config.Lists, l)
	}
	if c.rng.IntN(3) > 0 {
		config.Limits = limits()
	}
	return ruleset.MustCompile(config)
}

// change lets one thing happen to the rules.
func (w *world) change() {
	c := w.changes
	c.unread = max(0, c.unread-1)
	switch c.rng.IntN(40) {
	case 0: // an operator writes rules, and somebody loads them, or nobody does yet
		c.add(c.randomRules())
	case 1, 2, 3: // an edge loads some rules, new or old, known to others or not
		w.edges[c.rng.IntN(len(w.edges))].rules = pick(c.rng, c.documents...)
		w.faults["edge reloaded"]++
	case 4: // a revision
		c.revisions = append(c.revisions, pick(c.rng, c.documents...))
		w.faults["revision"]++
	case 5, 6: // an aggregator puts one in force, perhaps again, perhaps late
		w.announce(1 + c.rng.IntN(len(c.revisions)))
	case 7:
		c.unread = c.rng.IntN(20)
		w.faults["documents cannot be read"]++
	}
}

// announce appends the message that puts a revision in force.
func (w *world) announce(n int) {
	w.log.append(fold.Message{Subject: hit.Subject(0, hit.RulesSender), Revision: uint64(n), Rules: w.changes.revisions[n-1]}, w.now)
}

var errUnread = errors.New("the broker does not answer")

// document returns the rules that an aggregator folds by.
func (w *world) document(_ context.Context, id hit.RulesID) (*ruleset.Rules, error) {
	if w.changes == nil {
		return w.rules, nil
	}
	if w.onlyOwnRules {
		id = w.changes.revisions[len(w.changes.revisions)-1]
	}
	if w.changes.unread > 0 && !w.skipUnread {
		return nil, errUnread
	}
	return w.changes.rules[id], nil
}

// rulesOf returns the rules of an edge.
func (w *world) rulesOf(e *edge) *ruleset.Rules {
	if w.changes == nil {
		return w.rules
	}
	return w.changes.rules[e.rules]
}

// acceptUnder makes a hit one of a list of the edge's rules. It returns false if
// they have none of its kind.
func (w *world) acceptUnder(e *edge, h *hit.Hit) bool {
	r := w.rulesOf(e)
	var lists []*ruleset.List
	for _, l := range r.Lists {
		if l.Kind() == h.Kind {
			lists = append(lists, l)
		}
	}
	if len(lists) == 0 {
		return false
	}
	h.List = pick(w.changes.rng, lists...).Name
	if r.Limit(limitName) == nil {
		h.Quotas = nil
	}
	return true
}

// The order in which edges and aggregators learn of rules never matters: no
// accepted hit is lost, none is counted twice, and no quota is exceeded.
func TestChangesOfRulesLoseNothing(t *testing.T) {
	if n, example := simulate(t, *seeds, design{changingRules: true}); n > 0 {
		t.Errorf("%d histories are wrong, for example %s", n, example)
	}
}

// The same log gives the same counts, to the last bit, across any change of rules
// and however ingest groups the messages. The counts are also those of the
// aggregators that folded it, if neither log nor store ever went back.
func TestSameLogSameCounts(t *testing.T) {
	for seed := range uint64(*seeds) {
		undamaged := seed%2 == 0
		w := newWorld(seed, design{changingRules: true, oneVersion: true, undamaged: undamaged})
		for range steps {
			w.step()
		}
		if !w.settle() {
			t.Fatalf("-seed %d: stuck", seed)
		}
		first := w.replay(t)
		if !reflect.DeepEqual(first, w.replay(t)) {
			t.Errorf("-seed %d: two readings of a log give two results", seed)
		}
		if undamaged && !reflect.DeepEqual(first, content(t, w.store)) {
			t.Errorf("-seed %d: the log gives other counts than those that were counted", seed)
		}
	}
}

// replay folds the whole log into an empty store, in groups of random size.
func (w *world) replay(t *testing.T) *memstore.Snapshot {
	t.Helper()
	s := memstore.New(1)
	f := &fold.Folder{Rules: w.document, Store: s, First: func(_ context.Context, _ int, edge string, next uint64) (fold.InLog, error) {
		return w.log.first(edge, next), nil
	}}
	state, err := s.Load(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for {
		msgs := w.log.after(state.Position.Seq, 1+w.changes.rng.IntN(20))
		if len(msgs) == 0 {
			return content(t, s)
		}
		res, err := f.Fold(ctx, 0, state, msgs)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(ctx, 0, res.Commit); err != nil {
			t.Fatal(err)
		}
		fold.Advance(&state, res.Commit)
	}
}

// content returns what a store holds, without the random version of its position.
func content(t *testing.T, s *memstore.Store) *memstore.Snapshot {
	t.Helper()
	p, err := s.Position(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	to := p
	to.Version = 0
	if err := s.Commit(ctx, 0, &store.Commit{From: p, To: to}); err != nil {
		t.Fatal(err)
	}
	return s.Snapshot()
}
