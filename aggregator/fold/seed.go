package fold

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// seeds are sums of scores that are estimated from the kept hour and day boards.
// Each hit of a period counts as if it came in the middle of the period; the
// current period ends with its newest hit. Hits that no hour board has are on the
// board of their day, in the middle of the part of the day before its first hour
// board. Hits older than the day boards are left out.
type seeds struct {
	*reader
	list   *ruleset.List
	totals store.Totals // of the sums
	sums   map[string]float64
	// published has the publish times of the items in sums, for accumulate.
	published map[string]int64
}

// seed estimates the sums of a list from those of sets that are boards of old, which
// is nil if the rules before lacked the list. It holds one board at a time in
// memory, and the views of one day.
func seed(r *reader, sets map[store.Set]store.Totals, old, l *ruleset.List) (*seeds, error) {
	newest := sets[store.AllSet(l.Name)].Newest
	s := &seeds{
		reader: r, list: l, totals: store.Totals{Newest: newest},
		sums: map[string]float64{}, published: map[string]int64{},
	}
	if l.Score.Model == ruleset.HalfLife {
		s.totals.Landmark = newest
	}
	zone := cmp.Or(old, l)
	days := map[time.Time]*day{}
	for set, totals := range sets {
		p, start, ok := store.ParsePeriodSet(set)
		if !ok || set.List != l.Name || p != calendar.Hour && p != calendar.Day || !begins(p, start, zone) {
			continue
		}
		b := &keptBoard{set: set, start: start, end: p.Add(start, 1, zone.Location())}
		if b.end.UnixMilli() > newest {
			b.end = time.UnixMilli(totals.Newest)
		}
		of := calendar.Day.Start(start, zone.Location())
		if days[of] == nil {
			days[of] = &day{}
		}
		if p == calendar.Day {
			days[of].whole = b
		} else {
			days[of].hours = append(days[of].hours, b)
		}
	}
	// In the order of time: additions of floats in another one may give other bits.
	for _, start := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		if err := s.addDay(days[start]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// begins reports whether a period of the list begins at start.
func begins(p calendar.Period, start time.Time, l *ruleset.List) bool {
	return p.Start(start, l.Location()).Equal(start)
}

// day holds the kept boards of a day.
type day struct {
	whole *keptBoard // may be nil
	hours []*keptBoard
}

// keptBoard is the board of an hour or day with the span of its hits.
type keptBoard struct {
	set        store.Set
	start, end time.Time
}

func (s *seeds) addDay(d *day) error {
	slices.SortFunc(d.hours, func(a, b *keptBoard) int { return a.start.Compare(b.start) })
	counted := map[string]store.Tally{} // by the hours, of this day
	for _, h := range d.hours {
		entries, err := s.read(h)
		if err != nil {
			return err
		}
		for _, e := range entries {
			s.add(e.Item, e.Tally, h)
			if d.whole != nil {
				c := counted[e.Item]
				counted[e.Item] = store.Tally{Views: c.Views + e.Views, Uniques: c.Uniques + e.Uniques}
			}
		}
	}
	if d.whole == nil {
		return nil
	}
	if len(d.hours) > 0 {
		d.whole.end = d.hours[0].start
	}
	entries, err := s.read(d.whole)
	if err != nil {
		return err
	}
	for _, e := range entries {
		c := counted[e.Item]
		// A day board that began after an hour board may have less.
		if rest := (store.Tally{Views: max(0, e.Views-c.Views), Uniques: max(0, e.Uniques-c.Uniques)}); rest != (store.Tally{}) {
			s.add(e.Item, rest, d.whole)
		}
	}
	return nil
}

// read returns a board, and makes the publish times of its items known.
func (s *seeds) read(b *keptBoard) ([]store.Entry, error) {
	have, err := s.reader.read(&store.Want{Whole: []store.Set{b.set}})
	if err != nil {
		return nil, err
	}
	if s.list.Score.Model != ruleset.Accumulate {
		return have.Whole[b.set], nil
	}
	var items []string
	for _, e := range have.Whole[b.set] {
		if _, ok := s.published[e.Item]; !ok {
			items = append(items, e.Item)
		}
	}
	recs, err := s.reader.read(&store.Want{Items: map[string][]string{s.list.Name: items}})
	if err != nil {
		return nil, err
	}
	for i, rec := range recs.Items[s.list.Name] {
		s.published[items[i]] = rec.PublishTime()
	}
	return have.Whole[b.set], nil
}

// add adds hits of an item in the middle of a board's span.
func (s *seeds) add(item string, t store.Tally, b *keptBoard) {
	at := (b.start.UnixMilli() + b.end.UnixMilli()) / 2
	weight := 0.0
	switch score := &s.list.Score; score.Model {
	case ruleset.Accumulate:
		weight = scoring.Decay(scoring.Age(at, s.published[item]), score.Base, score.Gamma)
	case ruleset.HalfLife:
		weight = scoring.HalfLifeWeight(at, s.totals.Landmark, time.Duration(score.HalfLife).Milliseconds())
	}
	s.sums[item] += scoring.Points(*s.list.Weights, float64(t.Views), float64(t.Uniques)) * weight
}

func (s *seeds) tallies() map[string]store.Tally {
	tallies := make(map[string]store.Tally, len(s.sums))
	for item, sum := range s.sums {
		tallies[item] = store.Tally{Score: sum}
	}
	return tallies
}
