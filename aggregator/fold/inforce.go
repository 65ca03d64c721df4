package fold

import (
	"context"
	"fmt"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// putInForce folds a message that puts a revision of the rules in force. Sums of
// scores that the new rules define, and the old ones do not, begin with those of
// the kept boards. Sums and periods that the new rules do not keep are dropped,
// except the sums of the old rules: readers use them until all shards have the new
// ones. They are dropped with the next revision.
func (f *Folder) putInForce(ctx context.Context, shard int, state store.State, m *Message) (*Result, error) {
	res := newResult(state.Position, []Message{*m})
	c := res.Commit
	c.Rules = &store.InForce{Revision: m.Revision, ID: m.Rules}
	if m.Rules == state.Rules.ID {
		return res, nil
	}
	is, err := f.Rules(ctx, m.Rules)
	if err != nil {
		return nil, &RulesError{ID: m.Rules, Seq: m.Seq, Err: err}
	}
	was := &ruleset.Rules{}
	if !state.Rules.ID.IsZero() {
		if was, err = f.Rules(ctx, state.Rules.ID); err != nil {
			return nil, &RulesError{ID: state.Rules.ID, Err: err}
		}
	}
	r := &reader{ctx: ctx, folder: f, shard: shard, at: state.Position}
	have, err := r.read(&store.Want{Sets: true})
	if err != nil {
		return nil, err
	}
	c.Scores, c.Totals = map[store.Set]map[string]store.Tally{}, map[store.Set]store.Totals{}
	for _, l := range is.Lists {
		old := was.List(l.Name)
		c.Drop = append(c.Drop, notKept(have.Sets, old, l)...)
		set, ok := scoring.ScoreSet(l)
		if !ok || old != nil && set == scoreSet(old) {
			continue
		}
		c.Drop = append(c.Drop, set) // the sums of an earlier revision may still be there
		s, err := seed(r, have.Sets, old, l)
		if err != nil {
			return nil, err
		}
		if len(s.sums) > 0 {
			c.Scores[set], c.Totals[set] = s.tallies(), s.totals
		}
	}
	return res, nil
}

// scoreSet is [scoring.ScoreSet], or the zero Set for a list without one.
func scoreSet(l *ruleset.List) store.Set {
	set, _ := scoring.ScoreSet(l)
	return set
}

// notKept returns those of sets that a list does not keep: periods of boards that
// it does not have, that are too old, or that begin by the clock of another zone,
// and sums with parameters other than its own and those of old, which may be nil.
func notKept(sets map[store.Set]store.Totals, old, l *ruleset.List) (drop []store.Set) {
	kept := oldest(l, l.Starts(sets[store.AllSet(l.Name)].Newest))
	for set := range sets {
		if set.List != l.Name || set == store.AllSet(l.Name) {
			continue
		}
		p, start, ok := store.ParsePeriodSet(set)
		if !ok {
			if set != scoreSet(l) && (old == nil || set != scoreSet(old)) {
				drop = append(drop, set)
			}
			continue
		}
		from, ok := kept[p]
		if !ok || start.Before(from) || !begins(p, start, l) {
			drop = append(drop, set)
		}
	}
	return drop
}

// reader reads the store at one position.
type reader struct {
	ctx    context.Context
	folder *Folder
	shard  int
	at     store.Position
}

func (r *reader) read(want *store.Want) (*store.Have, error) {
	have, err := r.folder.Store.Read(r.ctx, r.shard, want)
	if err != nil {
		return nil, fmt.Errorf("reading the counts of shard %d: %w", r.shard, err)
	}
	return have, samePosition(have, r.at)
}
