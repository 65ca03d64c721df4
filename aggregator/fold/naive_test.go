package fold_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// naive is the counting rules in the simplest code: it keeps every counted hit and
// computes each number from all of them.
type naive struct {
	list    *ruleset.List
	counted []naiveHit
	last    map[string]map[string]int64 // item and visitor → day → last counted
	dups    map[string]int
}

type naiveHit struct {
	item    string
	at      int64
	unique  bool
	visitor uint64
}

// hit counts a hit, and returns its reason.
func (n *naive) hit(h hit.Hit) ruleset.Reason {
	if n.duplicate(h) {
		n.dups[h.Item]++
		return ruleset.Duplicate
	}
	n.count(h)
	return ruleset.Counted
}

func (n *naive) duplicate(h hit.Hit) bool {
	for _, at := range n.last[naiveKey(h)] {
		if d := h.Time - at; max(d, -d) < time.Duration(n.list.Dedup).Milliseconds() {
			return true
		}
	}
	return false
}

func naiveKey(h hit.Hit) string { return fmt.Sprintf("%s/%d", h.Item, h.Visitor) }

func (n *naive) count(h hit.Hit) {
	key := naiveKey(h)
	if n.last[key] == nil {
		n.last[key] = map[string]int64{}
	}
	day := time.UnixMilli(h.Time).In(n.list.Location()).Format("2006-01-02")
	before, again := n.last[key][day]
	n.last[key][day] = max(before, h.Time)
	n.counted = append(n.counted, naiveHit{h.Item, h.Time, !again, h.Visitor})
}

// board returns "item views uniques" of the hits in [from, to), ordered.
func (n *naive) board(from, to time.Time) []string {
	views, uniques := map[string]int{}, map[string]int{}
	for _, h := range n.counted {
		if h.at >= from.UnixMilli() && h.at < to.UnixMilli() {
			views[h.item]++
			if h.unique {
				uniques[h.item]++
			}
		}
	}
	var items []string
	for item := range views {
		items = append(items, item)
	}
	sort.Slice(items, func(i, j int) bool {
		a, b := items[i], items[j]
		return views[a] > views[b] || views[a] == views[b] && a > b
	})
	for i, item := range items {
		items[i] = fmt.Sprint(item, " ", views[item], " ", uniques[item])
	}
	return items
}

func (n *naive) published(item string) int64 {
	first := int64(math.MaxInt64)
	for _, h := range n.counted {
		if h.item == item {
			first = min(first, h.at)
		}
	}
	return first
}

// hot returns every item's score at now, from all of its hits.
func (n *naive) hot(now int64) map[string]float64 {
	l, scores, points := n.list, map[string]float64{}, map[string]float64{}
	first := map[string]int64{} // as known at the hit
	for _, h := range n.counted {
		inc := l.Weights.PV
		if h.unique {
			inc += l.Weights.UV
		}
		points[h.item] += inc
		if at, ok := first[h.item]; !ok || h.at < at {
			first[h.item] = h.at
		}
		switch l.Score.Model {
		case ruleset.Accumulate:
			age := max(0, float64(h.at-first[h.item])/3600e3)
			scores[h.item] += inc / math.Pow(age+l.Score.Base, l.Score.Gamma)
		case ruleset.HalfLife:
			scores[h.item] += inc * math.Pow(2, -float64(now-h.at)/float64(time.Duration(l.Score.HalfLife).Milliseconds()))
		case ruleset.Count:
			scores[h.item]++
		}
	}
	if l.Score.Model == ruleset.Gravity {
		for item, p := range points {
			scores[item] = p / math.Pow(max(0, float64(now-n.published(item))/3600e3)+l.Score.Base, l.Score.Gamma)
		}
	}
	return scores
}

func lines(rows []board.Row) []string {
	var s []string
	for _, r := range rows {
		s = append(s, fmt.Sprint(r.ID, " ", r.Views, " ", r.Uniques))
	}
	return s
}

// Random hits, in random groups, over several days in several zones, some late:
// every board of every period must equal the naive one.
func TestAgainstNaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := &ruleset.ListConfig{
			Name:  "a",
			Dedup: ruleset.Duration(rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}).Draw(rt, "dedup")),
			Zone:  rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"}).Draw(rt, "zone"),
			Score: ruleset.Score{Model: rapid.SampledFrom([]ruleset.Model{ruleset.Gravity, ruleset.Accumulate, ruleset.HalfLife, ruleset.Count}).Draw(rt, "model")},
			// More than the test spans, so that the naive model needs no retention.
			Keep: map[calendar.Period]int{calendar.Hour: 24 * 20, calendar.Day: 20, calendar.Week: 4, calendar.Month: 2},
		}
		if list.Score.Model == ruleset.HalfLife {
			// Short enough that the landmark moves.
			list.Score.HalfLife = ruleset.Duration(rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, 24 * time.Hour}).Draw(rt, "halflife"))
		}
		l := newLog(t, memstore.New(rapid.IntRange(1, 4).Draw(rt, "shards")), list)
		n := &naive{list: l.rules.Lists[0], last: map[string]map[string]int64{}, dups: map[string]int{}}

		// Around the end of summer time in Berlin, which is also a turn of the day.
		at := time.Date(2026, 10, 24, rapid.IntRange(0, 23).Draw(rt, "hour"), 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 60).Draw(rt, "hits") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 59, 600, 3600, 40000}).Draw(rt, "step")) * time.Second)
			late := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 30, 700, 90000}).Draw(rt, "late")) * time.Second
			h := view(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "item"), rapid.Uint64Range(1, 3).Draw(rt, "visitor"), at.Add(-late))
			l.add(h)
			n.hit(h)
		}
		hits := l.fold(rapid.IntRange(1, 20).Draw(rt, "group"))
		dups := 0
		for _, d := range n.dups {
			dups += d
		}
		if hits[fold.ListReason{List: "a", Reason: ruleset.Counted}] != len(n.counted) || hits[fold.ListReason{List: "a", Reason: ruleset.Duplicate}] != dups {
			rt.Fatalf("outcomes %v, want %d counted and %d duplicates", hits, len(n.counted), dups)
		}
		for _, p := range calendar.Periods {
			for _, h := range n.counted {
				start := p.Start(time.UnixMilli(h.at), n.list.Location())
				end := p.Add(start, 1, n.list.Location())
				if p == calendar.All {
					end = at.Add(time.Hour)
				}
				if got, want := lines(l.board(string(p), time.UnixMilli(h.at))), n.board(start, end); !slices.Equal(got, want) {
					rt.Fatalf("%s from %s: got %v, want %v", p, start, got, want)
				}
			}
		}
		now := at.Add(90 * time.Minute)
		want := n.hot(now.UnixMilli())
		rows := l.board(board.Hot, now)
		if len(rows) != len(want) {
			rt.Fatalf("%d items are hot, want %d", len(rows), len(want))
		}
		for i, r := range rows {
			if math.Abs(r.Score-want[r.ID]) > 1e-9*max(1, want[r.ID]) {
				rt.Fatalf("%s scores %.15g, want %.15g", r.ID, r.Score, want[r.ID])
			}
			if i > 0 && rows[i-1].Score < r.Score {
				rt.Fatalf("not in order: %+v", rows)
			}
		}
	})
}

// However the log is cut into folds, every score is the same to the last bit.
func TestGroupingDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, model := range []ruleset.Model{ruleset.Accumulate, ruleset.HalfLife} {
		var first []board.Row
		for _, size := range []int{1, 3, 1000} {
			l := newLog(t, memstore.New(2), &ruleset.ListConfig{Name: "a", Score: ruleset.Score{Model: model}})
			at := t0
			for i := range 500 {
				at = at.Add(time.Duration(i*i%977) * time.Minute)
				l.add(view(fmt.Sprint("item", i%7), uint64(i%11), at))
			}
			l.fold(size)
			rows := l.board(board.Hot, at)
			if first == nil {
				first = rows
			}
			for i := range rows {
				if rows[i].ID != first[i].ID || rows[i].Score != first[i].Score {
					t.Errorf("%s in folds of %d: got %+v, want %+v", model, size, rows[i], first[i])
				}
			}
		}
	}
}
