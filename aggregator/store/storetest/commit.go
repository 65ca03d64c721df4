package storetest

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// counting is a set that counts hits, scored one that has scores.
var counting, scored = store.Set{List: "articles", Name: "day:20261120T000000Z"}, store.Set{List: "articles", Name: "halflife:1h"}

func testEmpty(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	state := must[store.State](t)(s.Load(ctx, 1))
	equal(t, "state", state, store.State{Edges: map[string]uint64{}})
	equal(t, "position", must[store.Position](t)(s.Position(ctx, 0)), store.Position{})
	equal(t, "edges", must[map[int]uint64](t)(s.Applied(ctx, "edge")), map[int]uint64{})
	have := must[*store.Have](t)(s.Read(ctx, 0, &store.Want{
		Memos:  []store.Memo{{List: "articles", Term: calendar.Day, Key: 1}},
		Items:  map[string][]string{"articles": {"a"}},
		Scores: map[store.Set][]string{scored: {"a", "b"}},
		Totals: []store.Set{scored},
	}))
	equal(t, "read", have, &store.Have{
		Whole:  map[store.Set][]store.Entry{},
		Memos:  []int64{store.NoMemo},
		Items:  map[string][]store.Item{"articles": {{}}},
		Scores: map[store.Set][]store.Tally{scored: {{}, {}}},
		Totals: []store.Totals{{}},
	})
	have = must[*store.Have](t)(s.Read(ctx, 0, &store.Want{}))
	equal(t, "read of nothing", len(have.Memos)+len(have.Items)+len(have.Scores)+len(have.Totals), 0)

	top := must[[][]store.Entry](t)(s.Top(ctx, scored, 10))
	equal(t, "shards of the top", len(top), 2)
	equal(t, "top", len(top[0])+len(top[1]), 0)
	equal(t, "above", must[[]int64](t)(s.Above(ctx, scored, [][]float64{{0, 0}})), []int64{0})
	equal(t, "next", must[[][]*store.Entry](t)(s.Next(ctx, scored, [][]float64{{0, 0}})), [][]*store.Entry{{nil, nil}})
	equal(t, "above nothing", len(must[[]int64](t)(s.Above(ctx, scored, nil))), 0)
	equal(t, "next of nothing", len(must[[][]*store.Entry](t)(s.Next(ctx, scored, nil))), 0)
	equal(t, "size", must[int64](t)(s.Size(ctx, scored)), int64(0))
	equal(t, "scores", must[[]*store.Tally](t)(s.Scores(ctx, hit.View, scored, []string{"a", "b"})), []*store.Tally{nil, nil})
	equal(t, "scores of nothing", len(must[[]*store.Tally](t)(s.Scores(ctx, hit.View, scored, nil))), 0)
	equal(t, "items", must[[]*store.Item](t)(s.Items(ctx, hit.View, "articles", []string{"a"})), []*store.Item{nil})
	equal(t, "items of nothing", len(must[[]*store.Item](t)(s.Items(ctx, hit.View, "articles", nil))), 0)
	equal(t, "totals", must[[][]store.Totals](t)(s.Totals(ctx, []store.Set{scored})), [][]store.Totals{{{}, {}}})
	equal(t, "totals of nothing", len(must[[][]store.Totals](t)(s.Totals(ctx, nil))), 0)
	equal(t, "visitors", must[int64](t)(s.Visitors(ctx, scored)), int64(0))
	equal(t, "losses", len(must[[]store.Loss](t)(s.Losses(ctx))), 0)
	equal(t, "acknowledged", len(must[[]store.Loss](t)(s.Acknowledge(ctx))), 0)
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
}

func testState(t *testing.T, b Backend) {
	s, ctx := b.open(t, 3), t.Context()
	// The highest values: neither may lose bits in a signed or a floating number.
	first := store.Position{Seq: 1 << 62, Fingerprint: math.MaxUint64, Version: math.MaxUint64 - 1}
	err := s.Commit(ctx, 1, &store.Commit{To: first, Edges: map[string]uint64{"a": 1, "b": math.MaxUint64}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "state", must[store.State](t)(s.Load(ctx, 1)),
		store.State{Position: first, Edges: map[string]uint64{"a": 1, "b": math.MaxUint64}})

	second := store.Position{Seq: 1<<62 + 1, Fingerprint: 1}
	if err := s.Commit(ctx, 1, &store.Commit{From: first, To: second, Edges: map[string]uint64{"a": 2}}); err != nil {
		t.Fatal(err)
	}
	equal(t, "position", must[store.Position](t)(s.Position(ctx, 1)), second)
	equal(t, "state after a second commit", must[store.State](t)(s.Load(ctx, 1)),
		store.State{Position: second, Edges: map[string]uint64{"a": 2, "b": math.MaxUint64}})

	if err := s.Commit(ctx, 2, &store.Commit{To: first, Edges: map[string]uint64{"a": 7}}); err != nil {
		t.Fatal(err)
	}
	equal(t, "an edge's sequences", must[map[int]uint64](t)(s.Applied(ctx, "a")), map[int]uint64{1: 2, 2: 7})

	// Reading a log again from its beginning takes the position back, but not the
	// counts.
	if err := s.Commit(ctx, 1, &store.Commit{From: second}); err != nil {
		t.Fatal(err)
	}
	equal(t, "state after going back", must[store.State](t)(s.Load(ctx, 1)),
		store.State{Edges: map[string]uint64{"a": 2, "b": math.MaxUint64}})
	if err := s.Commit(ctx, 1, &store.Commit{To: first}); err != nil {
		t.Fatal(err)
	}
}

func inForce(revision uint64, document string) store.InForce {
	return store.InForce{Revision: revision, ID: hit.RulesIDOf([]byte(document))}
}

func testInForce(t *testing.T, b Backend) {
	s, ctx := b.open(t, 3), t.Context()
	all := make([]store.InForce, 3)
	check := func() {
		t.Helper()
		equal(t, "in force", must[[]store.InForce](t)(s.InForce(ctx)), all)
		for shard, r := range all {
			equal(t, "loaded", must[store.State](t)(s.Load(ctx, shard)).Rules, r)
		}
	}
	check()
	one, two := newWriter(t, s, 1), newWriter(t, s, 2)
	for _, step := range []struct {
		*writer
		rules store.InForce
	}{
		{one, inForce(0, "first")}, // the document of the first hits has no revision yet
		{one, inForce(1, "first")},
		{two, inForce(math.MaxUint64, "second")},
		{one, inForce(7, "third")},
	} {
		step.commit(store.Commit{Rules: &step.rules})
		all[step.shard] = step.rules
		check()
		step.commit(store.Commit{Edges: map[string]uint64{"edge": 1}}) // leaves them as they are
		check()
	}
	// Reading the log again from its beginning leaves the rules, like the counts.
	if err := s.Commit(ctx, 1, &store.Commit{From: one.at}); err != nil {
		t.Fatal(err)
	}
	check()
	// A refused commit changes nothing.
	wantConflict(t, s.Commit(ctx, 1, &store.Commit{From: one.at, Rules: &store.InForce{Revision: 9}}))
	check()
	if b.Reopen != nil {
		s = b.Reopen(t, s)
		t.Cleanup(func() { _ = s.Close() })
		check()
	}
}

func testConflict(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	w.scores(scored, map[string]float64{"a": 1})
	w.scores(scored, map[string]float64{"a": 2})
	here := w.at
	for _, from := range []store.Position{
		{},
		{Seq: here.Seq - 1, Fingerprint: here.Fingerprint, Version: here.Version},
		{Seq: here.Seq + 1, Fingerprint: here.Fingerprint, Version: here.Version},
		{Seq: here.Seq, Fingerprint: here.Fingerprint + 1, Version: here.Version},
		{Seq: here.Seq, Fingerprint: here.Fingerprint, Version: here.Version + 1},
	} {
		c := everything(store.Position{Seq: 99, Fingerprint: 99}, 5)
		c.From = from
		wantConflict(t, s.Commit(ctx, 0, c))
	}
	equal(t, "state", must[store.State](t)(s.Load(ctx, 0)), store.State{Position: here, Edges: map[string]uint64{}})
	nothingOf(t, w, everything(store.Position{}, 5))
	equal(t, "score", w.read(store.Want{Scores: map[store.Set][]string{scored: {"a"}}}).Scores[scored], []store.Tally{{Score: 2}})
	w.scores(scored, map[string]float64{"a": 3}) // a conflict leaves the shard usable
}

// everything is a commit that writes every kind of value, in sets of its own.
func everything(to store.Position, value int64) *store.Commit {
	set := store.Set{List: "everything", Name: "set"}
	return &store.Commit{
		To:       to,
		Edges:    map[string]uint64{"everything": uint64(value)},
		Rules:    &store.InForce{Revision: uint64(value), ID: hit.RulesIDOf([]byte("everything"))},
		Losses:   []store.Loss{{Edge: "everything", From: 1, To: uint64(value), Batches: uint64(value)}},
		Memos:    []store.MemoValue{{Memo: everyMemo(1), Value: uint32(value)}},
		Items:    map[string]map[string]store.Item{"everything": {"item": {First: value, Last: value}}},
		Scores:   map[store.Set]map[string]store.Tally{set: {"item": {Score: float64(value), Uniques: value}}},
		Totals:   map[store.Set]store.Totals{set: {Views: value}},
		Visitors: map[store.Set][]uint64{set: {uint64(value)}},
	}
}

func everyMemo(key uint64) store.Memo {
	return store.Memo{List: "everything", Term: calendar.Day, Start: 86400, Key: key}
}

// nothingOf fails if the shard has any of the values of everything.
func nothingOf(t testing.TB, w *writer, c *store.Commit) {
	t.Helper()
	set := store.Set{List: "everything", Name: "set"}
	have := w.read(store.Want{
		Memos:  []store.Memo{c.Memos[0].Memo},
		Items:  map[string][]string{"everything": {"item"}},
		Scores: map[store.Set][]string{set: {"item"}},
		Totals: []store.Set{set},
	})
	equal(t, "a commit that was refused", have, &store.Have{
		Whole:    map[store.Set][]store.Entry{},
		Position: w.at,
		Memos:    []int64{store.NoMemo},
		Items:    map[string][]store.Item{"everything": {{}}},
		Scores:   map[store.Set][]store.Tally{set: {{}}},
		Totals:   []store.Totals{{}},
	})
	equal(t, "its visitors", must[int64](t)(w.s.Visitors(t.Context(), set)), int64(0))
	equal(t, "its losses", len(must[[]store.Loss](t)(w.s.Losses(t.Context()))), 0)
	equal(t, "its rules", must[[]store.InForce](t)(w.s.InForce(t.Context()))[w.shard], store.InForce{})
	equal(t, "its edge", must[map[int]uint64](t)(w.s.Applied(t.Context(), "everything")), map[int]uint64{})
}

func testConcurrentCommitters(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	const committers, rounds = 4, 25
	stores := make([]store.Store, committers)
	for i := range stores {
		stores[i] = s
		if b.Share != nil && i > 0 {
			stores[i] = b.Share(t, s)
			t.Cleanup(func() { _ = stores[i].Close() }) // the test ends with it
		}
	}
	var at store.Position
	for round := range rounds {
		errs := make([]error, committers)
		var wg sync.WaitGroup
		for i := range committers {
			wg.Go(func() {
				c := everything(store.Position{Seq: uint64(round + 1), Fingerprint: uint64(i)}, int64(i))
				c.From = at
				errs[i] = stores[i].Commit(ctx, 0, c)
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				if winner >= 0 {
					t.Fatalf("round %d: %d and %d both committed", round, winner, i)
				}
				winner = i
				continue
			}
			wantConflict(t, err)
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody committed", round)
		}
		at = store.Position{Seq: uint64(round + 1), Fingerprint: uint64(winner)}
		equal(t, "state", must[store.State](t)(s.Load(ctx, 0)),
			store.State{Position: at, Edges: map[string]uint64{"everything": uint64(winner)}, Rules: inForce(uint64(winner), "everything")})
		set := store.Set{List: "everything", Name: "set"}
		have := must[*store.Have](t)(s.Read(ctx, 0, &store.Want{
			Memos:  []store.Memo{everyMemo(1)},
			Scores: map[store.Set][]string{set: {"item"}},
		}))
		equal(t, "memo", have.Memos, []int64{int64(winner)})
		equal(t, "score", have.Scores[set], []store.Tally{{Score: float64(winner), Uniques: int64(winner)}})
	}
}

func testAllOrNothing(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	w.scores(scored, map[string]float64{"a": 1})
	for _, bad := range []func(*store.Commit){
		func(c *store.Commit) { c.Scores[scored] = map[string]store.Tally{"a": {Score: math.NaN()}} },
		func(c *store.Commit) { c.Scores[scored] = map[string]store.Tally{"a": {Score: math.Inf(1)}} },
		func(c *store.Commit) { c.Scores[scored] = map[string]store.Tally{"a": {Score: math.Inf(-1)}} },
		func(c *store.Commit) { c.Scores[scored] = map[string]store.Tally{"a": {Views: 1}} },
		func(c *store.Commit) { c.Scores[counting] = map[string]store.Tally{"a": {Score: 1}} },
		func(c *store.Commit) { c.Scale = map[store.Set]int{counting: -1} },
		func(c *store.Commit) { c.Memos = append(c.Memos, store.MemoValue{Memo: store.Memo{List: "l"}}) },
		func(c *store.Commit) {
			c.Memos = append(c.Memos, store.MemoValue{Memo: store.Memo{List: "l", Term: calendar.Hour}})
		},
	} {
		c := everything(store.Position{Seq: 2, Fingerprint: 2}, 5)
		c.From = w.at
		bad(c)
		if err := s.Commit(ctx, 0, c); err == nil {
			t.Fatal("a commit that cannot be written was accepted")
		}
		nothingOf(t, w, c)
	}
	equal(t, "score", w.read(store.Want{Scores: map[store.Set][]string{scored: {"a"}}}).Scores[scored], []store.Tally{{Score: 1}})
}

func testAbsoluteValues(t *testing.T, b Backend) {
	s := b.open(t, 1)
	w := newWriter(t, s, 0)
	memo := store.Memo{List: "articles", Term: calendar.Week, Start: 86400, Key: 42}
	want := store.Want{
		Memos: []store.Memo{memo}, Items: map[string][]string{"articles": {"a", "b"}},
		Scores: map[store.Set][]string{scored: {"a", "b"}}, Totals: []store.Set{scored},
	}
	for _, c := range []store.Commit{
		{
			Memos: []store.MemoValue{{Memo: memo, Value: 5}},
			Items: map[string]map[string]store.Item{"articles": {
				"a": {First: 1, Last: 2, Published: 3, PublishedFrom: hit.FromClient, Duplicates: 4}, "b": {First: 9},
			}},
			Scores: map[store.Set]map[string]store.Tally{scored: {"a": {Score: 10, Uniques: 5}, "b": {Score: -3, Uniques: 1}}},
			Totals: map[store.Set]store.Totals{scored: {Views: 1, Uniques: 2, Duplicates: 3, Newest: 4, Landmark: 5}},
		},
		{
			Memos:  []store.MemoValue{{Memo: memo, Value: 1}}, // the higher value must not win by itself
			Items:  map[string]map[string]store.Item{"articles": {"a": {First: -1, Last: math.MaxInt64, Published: math.MinInt64}}},
			Scores: map[store.Set]map[string]store.Tally{scored: {"a": {Score: 3, Uniques: 0}}},
			Totals: map[store.Set]store.Totals{scored: {Newest: math.MaxInt64, Landmark: math.MinInt64}},
		},
		{
			Items:  map[string]map[string]store.Item{"articles": {"b": {}}},
			Scores: map[store.Set]map[string]store.Tally{scored: {"a": {Score: 0, Uniques: 1 << 60}, "b": {}}},
			Totals: map[store.Set]store.Totals{scored: {}},
		},
	} {
		w.commit(c)
		have := w.read(want)
		if len(c.Memos) > 0 {
			equal(t, "memo", have.Memos[0], int64(c.Memos[0].Value))
		}
		for i, item := range []string{"a", "b"} {
			if rec, ok := c.Items["articles"][item]; ok {
				equal(t, "item "+item, have.Items["articles"][i], rec)
			}
			if tally, ok := c.Scores[scored][item]; ok {
				equal(t, "score of "+item, have.Scores[scored][i], tally)
			}
		}
		equal(t, "totals", have.Totals[0], c.Totals[scored])
	}
	// A score of 0 is still an entry, and a record of zeros is still a record.
	equal(t, "size", must[int64](t)(s.Size(t.Context(), scored)), int64(2))
	equal(t, "scores", must[[]*store.Tally](t)(s.Scores(t.Context(), hit.View, scored, []string{"b", "a"})),
		[]*store.Tally{{}, {Uniques: 1 << 60}})
	equal(t, "items", must[[]*store.Item](t)(s.Items(t.Context(), hit.View, "articles", []string{"b", "x"})), []*store.Item{{}, nil})
}

func testReadOrder(t *testing.T, b Backend) {
	s := b.open(t, 1)
	w := newWriter(t, s, 0)
	c := store.Commit{Items: map[string]map[string]store.Item{"articles": {}}, Scores: map[store.Set]map[string]store.Tally{scored: {}}}
	var want store.Want
	var asked []string
	for i := range 300 {
		item := fmt.Sprint("item", i)
		c.Items["articles"][item] = store.Item{First: int64(i) + 1}
		c.Scores[scored][item] = store.Tally{Score: float64(i) + 1, Uniques: int64(i)}
		memo := store.Memo{List: "articles", Term: calendar.Day, Start: int64(i%3) * 86400, Key: uint64(i)}
		c.Memos = append(c.Memos, store.MemoValue{Memo: memo, Value: uint32(i)})
		// Backwards, each twice, with strangers in between.
		asked = append([]string{item, "stranger", item}, asked...)
		stranger := memo
		stranger.Key += 1e6
		want.Memos = append([]store.Memo{memo, stranger, memo}, want.Memos...)
	}
	w.commit(c)
	want.Items = map[string][]string{"articles": asked}
	want.Scores = map[store.Set][]string{scored: asked}
	have := w.read(want)
	for i, item := range asked {
		equal(t, item, have.Items["articles"][i], c.Items["articles"][item])
		equal(t, item, have.Scores[scored][i], c.Scores[scored][item])
		value := int64(store.NoMemo)
		if item != "stranger" {
			value = int64(want.Memos[i].Key)
		}
		equal(t, "memo of "+item, have.Memos[i], value)
	}
}

func testShardsAreApart(t *testing.T, b Backend) {
	const shards = 4
	s, ctx := b.open(t, shards), t.Context()
	all := map[string]store.Tally{}
	for shard := range shards {
		c := everything(store.Position{Seq: uint64(shard) + 10}, int64(shard))
		item := itemIn("articles", shard, shards, 0)
		tally := store.Tally{Score: float64(shard), Uniques: int64(shard)}
		all[item] = tally
		c.Scores[scored] = map[string]store.Tally{item: tally}
		c.Items["articles"] = map[string]store.Item{item: {First: int64(shard) + 1}}
		c.Totals[scored] = store.Totals{Views: int64(shard)}
		if err := s.Commit(ctx, shard, c); err != nil {
			t.Fatal(err)
		}
	}
	for shard := range shards {
		w := writer{t: t, s: s, shard: shard, at: store.Position{Seq: uint64(shard) + 10}}
		have := w.read(store.Want{
			Memos:  []store.Memo{everyMemo(1)},
			Scores: map[store.Set][]string{{List: "everything", Name: "set"}: {"item"}},
		})
		equal(t, "memo", have.Memos, []int64{int64(shard)})
		equal(t, "score", have.Scores[store.Set{List: "everything", Name: "set"}][0].Score, float64(shard))
	}
	var items []string
	for item := range maps.Keys(all) {
		items = append(items, item, "stranger")
	}
	tallies := must[[]*store.Tally](t)(s.Scores(ctx, hit.View, scored, items))
	records := must[[]*store.Item](t)(s.Items(ctx, hit.View, "articles", items))
	for i, item := range items {
		if item == "stranger" {
			equal(t, item, tallies[i], (*store.Tally)(nil))
			equal(t, item, records[i], (*store.Item)(nil))
			continue
		}
		equal(t, item, *tallies[i], all[item])
		equal(t, item, records[i].First, all[item].Uniques+1)
	}
	equal(t, "totals", must[[][]store.Totals](t)(s.Totals(ctx, []store.Set{{List: "x"}, scored}))[1],
		[]store.Totals{{}, {Views: 1}, {Views: 2}, {Views: 3}})
	equal(t, "size", must[int64](t)(s.Size(ctx, scored)), int64(shards))
}

// testShardOfVotes looks for the options of a list of votes in the list's shard,
// and not in those of the options of a list of views.
func testShardOfVotes(t *testing.T, b Backend) {
	const shards, list = 4, "poll"
	s, ctx := b.open(t, shards), t.Context()
	own := hit.Shard(hit.Vote, list, "", shards)
	set := store.Set{List: list, Name: "all"}
	options := make([]string, shards) // as views, one in each shard
	c := store.Commit{Items: map[string]map[string]store.Item{list: {}}, Scores: map[store.Set]map[string]store.Tally{set: {}}}
	for i := range options {
		options[i] = itemIn(list, i, shards, 0)
		c.Items[list][options[i]] = store.Item{First: int64(i) + 1}
		c.Scores[set][options[i]] = store.Tally{Views: int64(i)}
	}
	newWriter(t, s, own).commit(c)
	for _, kind := range []hit.Kind{hit.Vote, hit.View} {
		tallies := must[[]*store.Tally](t)(s.Scores(ctx, kind, set, options))
		records := must[[]*store.Item](t)(s.Items(ctx, kind, list, options))
		for i := range options {
			there := kind == hit.Vote || i == own
			equal(t, "tally", tallies[i] != nil && tallies[i].Views == int64(i), there)
			equal(t, "record", records[i] != nil && records[i].First == int64(i)+1, there)
		}
	}
}

func testUnknownShard(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	for _, shard := range []int{-1, 2} {
		if _, err := s.Load(ctx, shard); err == nil {
			t.Errorf("shard %d was loaded", shard)
		}
		if _, err := s.Read(ctx, shard, &store.Want{}); err == nil {
			t.Errorf("shard %d was read", shard)
		}
		if err := s.Commit(ctx, shard, &store.Commit{}); err == nil {
			t.Errorf("shard %d was written", shard)
		}
	}
	if _, err := s.Above(ctx, scored, [][]float64{{0, 0}, {0}}); err == nil {
		t.Error("one bound was taken for two shards")
	}
	if _, err := s.Next(ctx, scored, [][]float64{{0, 0, 0}}); err == nil {
		t.Error("three bounds were taken for two shards")
	}
}
