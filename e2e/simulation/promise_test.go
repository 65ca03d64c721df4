package simulation

import (
	"fmt"
	"slices"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// The limits of votes for one key in a minute, and in all.
const (
	inMinute   = 2
	inCampaign = 7
	voters     = 3
)

// newRules has a list of views and one of votes.
func newRules() *ruleset.Rules {
	return ruleset.MustCompile(ruleset.Config{
		Lists:  []*ruleset.ListConfig{{Name: "a"}, {Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}}},
		Limits: limits(),
	})
}

// limitName is the name of the limit of votes.
const limitName = "most"

func limits() []*ruleset.Limit {
	return []*ruleset.Limit{{Name: limitName, By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{
		{Max: inMinute, Per: "minute", Calendar: true}, {Max: inCampaign, Per: "campaign"},
	}}}
}

// makeVote turns a hit into a vote. The edges refuse none, as if none knew the
// votes on the others.
func (w *world) makeVote(h *hit.Hit) {
	h.Kind, h.List = hit.Vote, "poll"
	key := w.rng.Uint64N(voters)
	for _, window := range w.rules.Limits[0].Windows {
		h.Quotas = append(h.Quotas, hit.Quota{Limit: limitName, Window: window.ID(), Key: key})
	}
}

// wrong describes a broken promise, or is "".
func (w *world) wrong() string {
	used, counted := map[quota]int{}, map[string]int64{}
	losses, err := w.store.Losses(ctx)
	if err != nil {
		panic(err)
	}
	var refused []hit.Hit
	for _, e := range w.edges {
		for _, h := range e.accepted {
			tallies, err := w.store.Scores(ctx, h.Kind, store.AllSet(h.List), []string{h.Item})
			if err != nil {
				panic(err)
			}
			n := int64(0)
			if tallies[0] != nil {
				n = tallies[0].Views
			}
			seq := e.batchOf[h.Item]
			// Nobody acknowledges losses here.
			reported := slices.ContainsFunc(losses, func(l store.Loss) bool { return l.Edge == e.id && l.From <= seq && seq <= l.To })
			switch {
			case n > 1:
				return fmt.Sprintf("double: %s was counted %d times", h.Item, n)
			case n == 1:
				counted[h.List]++
				for _, q := range quotas(&h) {
					used[q]++
				}
			case reported && w.forgetful, e.gone && seq > e.promised:
			case h.Kind == hit.Vote && !reported:
				refused = append(refused, h)
			default:
				return fmt.Sprintf("lost: %s was not counted (reported: %v)", h.Item, reported)
			}
		}
	}
	for list, of := range counted {
		totals, err := w.store.Totals(ctx, []store.Set{store.AllSet(list)})
		if err != nil {
			panic(err)
		}
		if n := totals[0][0].Views; n != of {
			return fmt.Sprintf("total: list %s has %d, its items %d", list, n, of)
		}
	}
	for q, n := range used {
		if n > q.most() {
			return fmt.Sprintf("over: %d votes of %+v were counted, at most %d are", n, q, q.most())
		}
	}
	for _, h := range refused {
		full := false
		for _, q := range quotas(&h) {
			full = full || used[q] == q.most()
		}
		if !full {
			return fmt.Sprintf("lost: vote %s was not counted, though there was room", h.Item)
		}
	}
	return ""
}

// quota is a count with a maximum.
type quota struct {
	list   string
	key    uint64
	minute int64 // since the Unix epoch; -1 for the whole campaign
}

func (q quota) most() int {
	if q.minute < 0 {
		return inCampaign
	}
	return inMinute
}

func quotas(h *hit.Hit) []quota {
	if len(h.Quotas) == 0 {
		return nil
	}
	return []quota{{h.List, h.Quotas[0].Key, h.Time / 60_000}, {h.List, h.Quotas[0].Key, -1}}
}
