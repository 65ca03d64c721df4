package fold

import (
	"math"

	"github.com/hotboard/hotboard/aggregator/store"
)

// write puts the changed values into the commit.
func (t *tallies) write(c *store.Commit) {
	c.Items = map[string]map[string]store.Item{}
	c.Scores = map[store.Set]map[string]store.Tally{}
	c.Totals = map[store.Set]store.Totals{}
	c.Visitors = map[store.Set][]uint64{}
	c.Scale = map[store.Set]int{}
	c.Memos = make([]store.MemoValue, 0, len(t.memos))
	for i, m := range t.memos {
		if t.changed != nil && t.changed[i] {
			c.Memos = append(c.Memos, store.MemoValue{Memo: m, Value: uint32(min(t.values[i], math.MaxUint32))})
		}
	}
	for name, lw := range t.lists {
		c.Items[name] = make(map[string]store.Item, len(lw.items))
		published := map[string]store.Tally{}
		for id, iw := range lw.items {
			if iw.changed {
				c.Items[name][id] = iw.rec
			}
			if iw.published {
				published[id] = store.Tally{Score: float64(iw.rec.PublishTime())}
			}
		}
		if len(published) > 0 {
			c.Scores[store.PublishedSet(name)] = published
		}
		c.Drop = append(c.Drop, lw.drop...)
	}
	for set, s := range t.sets {
		if !s.touched {
			continue
		}
		if s.halved > 0 {
			c.Scale[set] = -s.halved
		}
		c.Totals[set] = s.totals
		if len(s.visitors) > 0 {
			c.Visitors[set] = s.visitors
		}
		values := make(map[string]store.Tally, len(s.cells))
		for i, cell := range s.cells {
			if cell.changed {
				values[s.want[i]] = cell.tally
			}
		}
		if len(values) > 0 {
			c.Scores[set] = values
		}
	}
}
