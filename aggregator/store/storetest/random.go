package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// testRandomCommits makes the same random commits to the store and to memstore, and
// expects the same answers to the same questions.
func testRandomCommits(t *testing.T, b Backend) {
	const maxShards = 3
	stores, models := make([]store.Store, maxShards), make([]store.Store, maxShards)
	for i := range stores {
		stores[i], models[i] = b.open(t, i+1), memstore.New(i+1)
	}
	check := 0
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.IntRange(0, maxShards-1).Draw(rt, "shards")
		check++ // each uses lists of its own, as if the store were empty
		p := newTwin(t, stores[i], models[i], check)
		for range rapid.IntRange(1, 10).Draw(rt, "commits") {
			if rapid.IntRange(0, 4).Draw(rt, "kind") == 0 {
				p.staleCommit(rt)
			} else {
				p.commit(rt)
			}
			if rapid.IntRange(0, 2).Draw(rt, "look") == 0 { // a store may cache its answers
				p.compare(rt)
			}
		}
		p.compare(rt)
	})
}

// twin is a store with its model.
type twin struct {
	t        *testing.T
	s, model store.Store
	lists    []string
	sets     []store.Set
	edges    []string
}

func newTwin(t *testing.T, s, model store.Store, check int) *twin {
	articles, polls := fmt.Sprint("articles", check), fmt.Sprint("polls", check)
	return &twin{
		t: t, s: s, model: model,
		lists: []string{articles, polls},
		sets:  []store.Set{{List: articles, Name: "all"}, {List: articles, Name: "hour:1"}, {List: articles, Name: "halflife:24h"}, {List: polls, Name: "all"}},
		edges: []string{fmt.Sprint("a", check), fmt.Sprint("b", check)},
	}
}

var (
	randomItems = func() (items []string) {
		for i := range 12 {
			items = append(items, fmt.Sprint("item-", i))
		}
		return items
	}()
	kinds        = []hit.Kind{hit.View, hit.Vote} // of the lists
	randomTerms  = []calendar.Period{calendar.Day, calendar.Week, calendar.Month, calendar.All}
	randomStarts = []int64{86400, 2 * 86400}
)

const randomKeys = 8

func (p *twin) commit(rt *rapid.T) {
	shard := rapid.IntRange(0, p.s.Shards()-1).Draw(rt, "shard")
	from := must[store.Position](p.t)(p.model.Position(p.t.Context(), shard))
	c := p.draw(rt, shard)
	c.From = from
	if err := p.model.Commit(p.t.Context(), shard, c); err != nil {
		rt.Fatal(err)
	}
	if err := p.s.Commit(p.t.Context(), shard, c); err != nil {
		rt.Fatalf("commit to shard %d: %v", shard, err)
	}
}

func (p *twin) staleCommit(rt *rapid.T) {
	shard := rapid.IntRange(0, p.s.Shards()-1).Draw(rt, "shard")
	c := p.draw(rt, shard)
	c.From = must[store.Position](p.t)(p.model.Position(p.t.Context(), shard))
	c.From.Fingerprint++
	wantConflict(p.t, p.s.Commit(p.t.Context(), shard, c))
}

func (p *twin) draw(rt *rapid.T, shard int) *store.Commit {
	c := &store.Commit{
		To:       store.Position{Seq: rapid.Uint64Range(1, 1<<62).Draw(rt, "seq"), Fingerprint: rapid.Uint64().Draw(rt, "fingerprint")},
		Edges:    rapid.MapOfN(rapid.SampledFrom(p.edges), rapid.Uint64Min(1), 0, 2).Draw(rt, "edges"),
		Items:    map[string]map[string]store.Item{},
		Scores:   map[store.Set]map[string]store.Tally{},
		Totals:   map[store.Set]store.Totals{},
		Visitors: map[store.Set][]uint64{},
		Scale:    map[store.Set]int{},
	}
	if rapid.IntRange(0, 2).Draw(rt, "rules") == 0 {
		c.Rules = &store.InForce{Revision: rapid.Uint64().Draw(rt, "revision"), ID: hit.RulesID{rapid.Byte().Draw(rt, "document")}}
	}
	memos := rapid.MapOfN(rapid.Custom(func(rt *rapid.T) store.Memo {
		list := rapid.IntRange(0, len(p.lists)-1).Draw(rt, "list")
		return store.Memo{
			List: p.lists[list], Kind: kinds[list], Term: rapid.SampledFrom(randomTerms).Draw(rt, "term"),
			Start: rapid.SampledFrom(randomStarts).Draw(rt, "start"), Key: rapid.Uint64Max(randomKeys-1).Draw(rt, "key"),
		}
	}), rapid.Uint32(), 0, 20).Draw(rt, "memos")
	for m, v := range memos {
		c.Memos = append(c.Memos, store.MemoValue{Memo: m, Value: v})
	}
	for _, list := range p.lists {
		c.Items[list] = rapid.MapOfN(p.itemsIn(list, shard), rapid.Custom(func(rt *rapid.T) store.Item {
			return store.Item{
				First: rapid.Int64().Draw(rt, "first"), Last: rapid.Int64().Draw(rt, "last"), Published: rapid.Int64().Draw(rt, "published"),
				PublishedFrom: hit.Source(rapid.IntRange(0, 2).Draw(rt, "source")), Duplicates: rapid.Int64Min(0).Draw(rt, "duplicates"),
			}
		}), 0, 4).Draw(rt, "items")
	}
	finite := rapid.Float64().Filter(func(f float64) bool {
		return !math.IsInf(f, 0) && !math.IsNaN(f) && (f == 0 || math.Abs(f) > 1e-100) && !math.Signbit(f)
	})
	for _, set := range p.sets {
		if rapid.Bool().Draw(rt, "write "+set.Name) {
			c.Scores[set] = rapid.MapOfN(p.itemsIn(set.List, shard), rapid.Custom(func(rt *rapid.T) store.Tally {
				uniques := rapid.Int64Range(0, 3).Draw(rt, "uniques")
				if set.Counts() {
					return store.Tally{Views: rapid.Int64Range(0, 1<<53).Draw(rt, "views"), Uniques: uniques}
				}
				return store.Tally{Score: finite.Draw(rt, "score"), Uniques: uniques}
			}), 0, 6).Draw(rt, "scores")
			c.Totals[set] = store.Totals{
				Views: rapid.Int64().Draw(rt, "views"), Uniques: rapid.Int64().Draw(rt, "uniques"), Duplicates: rapid.Int64().Draw(rt, "duplicates"),
				Newest: rapid.Int64().Draw(rt, "newest"), Landmark: rapid.Int64().Draw(rt, "landmark"),
			}
			c.Visitors[set] = rapid.SliceOfN(rapid.Uint64Max(100), 0, 10).Draw(rt, "visitors")
		}
		switch rapid.IntRange(0, 9).Draw(rt, "what else") {
		case 0:
			c.Drop = append(c.Drop, set)
		case 1:
			if !set.Counts() {
				c.Scale[set] = -rapid.IntRange(1, 40).Draw(rt, "exponent")
			}
		}
	}
	return c
}

func (p *twin) itemsIn(list string, shard int) *rapid.Generator[string] {
	return rapid.SampledFrom(randomItems).Filter(func(item string) bool { return hit.Shard(hit.View, list, item, p.s.Shards()) == shard })
}

// compare sends both stores every query.
func (p *twin) compare(rt *rapid.T) {
	ctx := p.t.Context()
	want := store.Want{Items: map[string][]string{}, Scores: map[store.Set][]string{}, Totals: p.sets, Whole: p.sets, Sets: true}
	for i, list := range p.lists {
		want.Items[list] = randomItems
		for _, term := range randomTerms {
			for _, start := range randomStarts {
				for key := range uint64(randomKeys) {
					want.Memos = append(want.Memos, store.Memo{List: list, Kind: kinds[i], Term: term, Start: start, Key: key})
				}
			}
		}
	}
	for _, set := range p.sets {
		want.Scores[set] = randomItems
	}
	ask := func(s store.Store) (answers []any) {
		add := func(v any, err error) {
			if err != nil {
				rt.Fatal(err)
			}
			answers = append(answers, v)
		}
		bounds := [][]float64{make([]float64, s.Shards()), make([]float64, s.Shards())}
		for shard := range s.Shards() {
			state, err := s.Load(ctx, shard)
			add(state, err)
			have, err := s.Read(ctx, shard, &want)
			for _, entries := range have.Whole {
				slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Item, b.Item) })
			}
			add(have, err)
			bounds[0][shard], bounds[1][shard] = float64(shard)*1e10, float64(-shard)
		}
		inForce, err := s.InForce(ctx)
		add(inForce, err)
		for _, edge := range append(p.edges, "stranger") {
			seqs, err := s.Applied(ctx, edge)
			add(seqs, err)
		}
		for _, set := range p.sets {
			top, err := s.Top(ctx, set, 5)
			add(top, err)
			above, err := s.Above(ctx, set, bounds)
			add(above, err)
			next, err := s.Next(ctx, set, bounds)
			add(next, err)
			size, err := s.Size(ctx, set)
			add(size, err)
			scores, err := s.Scores(ctx, hit.View, set, randomItems)
			add(scores, err)
			visitors, err := s.Visitors(ctx, set) // so few that every estimate is exact
			add(visitors, err)
		}
		for _, list := range p.lists {
			items, err := s.Items(ctx, hit.View, list, randomItems)
			add(items, err)
		}
		totals, err := s.Totals(ctx, p.sets)
		add(totals, err)
		return answers
	}
	if diff := cmp.Diff(ask(p.model), ask(p.s), cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("the store differs from the model (-model +store):\n%s", diff)
	}
}
