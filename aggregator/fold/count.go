package fold

import (
	"math"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// count counts the pending hits in order.
func (t *tallies) count() {
	for i := range t.pending {
		p := &t.pending[i]
		t.reach(p.list, p.time)
		reason, limit := t.judge(p)
		switch reason {
		case ruleset.Duplicate:
			t.countDuplicate(p)
		case ruleset.Counted:
			t.countOne(p)
		}
		t.decide(p.list.list.Name, p.hit, reason, limit)
	}
}

// judge decides about a hit. limit is the limit that refuses it.
func (t *tallies) judge(p *pending) (reason ruleset.Reason, limit string) {
	if t.duplicate(p) {
		return ruleset.Duplicate, ""
	}
	if limit := t.overQuota(p); limit != "" {
		return ruleset.OverQuota, limit
	}
	return ruleset.Counted, ""
}

// duplicate reports whether the visitor's last counted hit of the item is less than
// the window away. It may be after a late hit.
func (t *tallies) duplicate(p *pending) bool {
	window := time.Duration(p.list.list.Dedup).Milliseconds()
	for _, i := range [...]int{p.today, p.before, p.after} {
		if last, ok := t.lastSeen(i); ok {
			if d := p.time - last; -window < d && d < window {
				return true
			}
		}
	}
	return false
}

func (t *tallies) countDuplicate(p *pending) {
	rl := p.list
	p.item.rec.Duplicates++
	p.item.changed = true
	for _, s := range p.sets {
		if rl.keeps(s) && s != rl.score {
			s.totals.Duplicates++
			s.touched = true
		}
	}
}

func (t *tallies) countOne(p *pending) {
	rl, rec := p.list, &p.item.rec
	t.charge(p)
	unique := t.values[p.today] == store.NoMemo
	if sinceMidnight := p.time - t.memos[p.today].Start*1000; t.values[p.today] < sinceMidnight {
		t.set(p.today, sinceMidnight)
	}
	p.item.changed = true
	wasPublished := rec.PublishTime()
	if rec.First == 0 || p.time < rec.First {
		rec.First = p.time
	}
	rec.Last = max(rec.Last, p.time)
	publish(rec, p.hit, p.time)
	if rec.PublishTime() != wasPublished {
		p.item.published = true
	}

	var uniques int64
	if unique {
		uniques = 1
	}
	for _, s := range p.sets {
		if !rl.keeps(s) {
			continue
		}
		c := p.item.cell(s)
		c.changed = true
		s.touched = true
		s.totals.Newest = max(s.totals.Newest, p.time)
		if s == rl.score {
			rl.addScore(c, rec, p.time, scoring.Points(*rl.keeper.Weights, 1, float64(uniques)))
			continue
		}
		c.tally.Views++
		c.tally.Uniques += uniques
		s.totals.Views++
		s.totals.Uniques += uniques
		if unique {
			s.visitors = append(s.visitors, p.hit.Visitor)
		}
	}
}

// publish updates the item's publish time from a hit. An origin may correct itself;
// a client may set the time once, and only to one before its hit.
func publish(rec *store.Item, h *hit.Hit, at int64) {
	switch h.PublishedFrom {
	case hit.FromOrigin:
	case hit.FromClient:
		if rec.PublishedFrom != hit.FromFirstHit || h.Published > at {
			return
		}
	default:
		return
	}
	if h.Published > 0 {
		rec.Published, rec.PublishedFrom = h.Published, h.PublishedFrom
	}
}

// addScore adds a counted hit with the weight inc to an item's sum.
func (rl *ruledList) addScore(c *cell, rec *store.Item, at int64, inc float64) {
	score := &rl.keeper.Score
	if score.Model == ruleset.Accumulate {
		c.tally.Score += inc * scoring.Decay(scoring.Age(at, rec.PublishTime()), score.Base, score.Gamma)
		return
	}
	h := time.Duration(score.HalfLife).Milliseconds()
	landmark := &rl.score.totals.Landmark
	if *landmark == 0 {
		*landmark = at
	}
	if k := (at - *landmark) / h; k > scoring.MaxExponent {
		for _, other := range rl.score.cells {
			other.tally.Score = math.Ldexp(other.tally.Score, -int(k))
		}
		*landmark += k * h
		rl.score.halved += int(k)
	}
	c.tally.Score += inc * scoring.HalfLifeWeight(at, *landmark, h)
}
