package fold_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// documents are rules by the name of their document.
type documents map[hit.RulesID]*ruleset.Rules

// naiveShard is the counting rules of one shard in the simplest code: one hit after
// the other, each judged by its own document, with a map for everything.
type naiveShard struct {
	documents documents
	rules     store.InForce
	newest    map[string]int64
	last      map[naiveMemo]int64
	used      map[naiveQuotaID]int64
	sets      map[store.Set]map[string]store.Tally
	totals    map[store.Set]store.Totals
	items     map[[2]string]int64 // duplicates, by list and item
	hits      map[fold.ListReason]int
	shadowed  map[fold.Shadowed]int
}

func newNaiveShard(d documents) *naiveShard {
	return &naiveShard{
		documents: d, newest: map[string]int64{}, last: map[naiveMemo]int64{}, used: map[naiveQuotaID]int64{},
		sets: map[store.Set]map[string]store.Tally{}, totals: map[store.Set]store.Totals{},
		items: map[[2]string]int64{}, hits: map[fold.ListReason]int{}, shadowed: map[fold.Shadowed]int{},
	}
}

// naiveMemo is the memory of a visitor of an item in a day.
type naiveMemo struct {
	kind       hit.Kind
	list, item string
	visitor    uint64
	day        int64
}

// naiveQuotaID is a count of a window, which belongs to a term of the list.
type naiveQuotaID struct {
	list string
	hit.Quota
	start, term int64
}

// revision puts rules in force.
func (n *naiveShard) revision(number uint64, id hit.RulesID) {
	if number <= n.rules.Revision {
		return
	}
	same := id == n.rules.ID
	n.rules = store.InForce{Revision: number, ID: id}
	if same {
		return
	}
	for _, l := range n.documents[id].Lists {
		for set := range n.totals {
			if p, start, ok := store.ParsePeriodSet(set); ok && set.List == l.Name && !n.kept(l, p, start) {
				n.drop(set)
			}
		}
	}
}

// kept reports whether rules in force keep a period.
func (n *naiveShard) kept(l *ruleset.List, p calendar.Period, start time.Time) bool {
	return l.Keeps(p) && aligned(l, p, start) && !start.Before(naiveOldest(l, p, n.newest[l.Name]))
}

func aligned(l *ruleset.List, p calendar.Period, start time.Time) bool {
	return p.Start(start, l.Location()).Equal(start)
}

func naiveOldest(l *ruleset.List, p calendar.Period, newest int64) time.Time {
	return p.Add(p.Start(time.UnixMilli(newest), l.Location()), -l.Keep[p], l.Location())
}

func (n *naiveShard) drop(set store.Set) {
	delete(n.sets, set)
	delete(n.totals, set)
}

func (n *naiveShard) hit(id hit.RulesID, h hit.Hit) {
	if n.rules.ID.IsZero() {
		n.rules.ID = id
	}
	list, reason := n.judge(id, h)
	n.hits[fold.ListReason{List: list, Reason: reason}]++
}

func (n *naiveShard) judge(id hit.RulesID, h hit.Hit) (list string, reason ruleset.Reason) {
	rules := n.documents[id]
	l := rules.List(h.List)
	if l == nil {
		return "", ruleset.UnknownList
	}
	if h.Kind != l.Kind() {
		return "", ruleset.Invalid
	}
	if l.Votes != nil {
		if reason := l.CheckVote(h.Item, time.UnixMilli(h.Time)); reason != "" {
			return l.Name, reason
		}
	}
	keeper := n.documents[n.rules.ID].List(h.List)
	if keeper == nil {
		keeper = l
	}
	if was := n.newest[l.Name]; h.Time > was {
		n.newest[l.Name] = h.Time
		for set := range n.totals {
			p, start, ok := store.ParsePeriodSet(set)
			if ok && set.List == l.Name && keeper.Keeps(p) && aligned(keeper, p, start) &&
				!start.Before(naiveOldest(keeper, p, was)) && start.Before(naiveOldest(keeper, p, h.Time)) {
				n.drop(set)
			}
		}
	}
	var sets []store.Set // that keep the hit
	for _, p := range l.Boards {
		start := p.Start(time.UnixMilli(h.Time), l.Location())
		if p != calendar.All && (!keeper.Keeps(p) || !start.Before(naiveOldest(keeper, p, n.newest[l.Name]))) {
			sets = append(sets, store.PeriodSet(l.Name, p, start))
		}
	}
	sets = append(sets, store.AllSet(l.Name))

	if n.duplicate(l, h) {
		n.items[[2]string{l.Name, h.Item}]++
		for _, set := range sets {
			t := n.totals[set]
			t.Duplicates++
			n.totals[set] = t
		}
		return l.Name, ruleset.Duplicate
	}
	if !n.charge(rules, l, h) {
		return l.Name, ruleset.OverQuota
	}
	today := n.memo(l, h, 0)
	last, again := n.last[today]
	n.last[today] = max(last, h.Time)
	var unique int64
	if !again {
		unique = 1
	}
	for _, set := range sets {
		if n.sets[set] == nil {
			n.sets[set] = map[string]store.Tally{}
		}
		c, t := n.sets[set][h.Item], n.totals[set]
		n.sets[set][h.Item] = store.Tally{Views: c.Views + 1, Uniques: c.Uniques + unique}
		t.Views++
		t.Uniques += unique
		n.totals[set] = t
	}
	return l.Name, ruleset.Counted
}

// memo is the memo of the day that is some days after the hit's.
func (n *naiveShard) memo(l *ruleset.List, h hit.Hit, days int) naiveMemo {
	day := calendar.Day.Add(calendar.Day.Start(time.UnixMilli(h.Time), l.Location()), days, l.Location())
	return naiveMemo{h.Kind, h.List, h.Item, h.Visitor, day.Unix()}
}

func (n *naiveShard) duplicate(l *ruleset.List, h hit.Hit) bool {
	for days := -1; days <= 1; days++ {
		last, ok := n.last[n.memo(l, h, days)]
		if d := h.Time - last; ok && max(d, -d) < time.Duration(l.Dedup).Milliseconds() {
			return true
		}
	}
	return false
}

// charge uses up the quotas of a vote, or reports that one is full.
func (n *naiveShard) charge(rules *ruleset.Rules, l *ruleset.List, h hit.Hit) bool {
	charged := map[naiveQuotaID]string{} // the limit
	shadows, refused := map[string]bool{}, false
	for _, q := range h.Quotas {
		limit := rules.Limit(q.Limit)
		if limit == nil || !limit.AppliesToList(l.Name) || limit.Window(q.Window) == nil {
			continue
		}
		id := naiveQuotaID{list: l.Name, Quota: q}
		start, _ := limit.Window(q.Window).Period().Bounds(time.UnixMilli(h.Time), l.Location())
		switch q.Window {
		case "campaign":
		case "week", "month":
			id.start, id.term = start.Unix(), start.Unix()
		default:
			id.start, id.term = start.Unix(), calendar.Day.Start(start, l.Location()).Unix()
		}
		if n.used[id] >= limit.Max(limit.Window(q.Window), h.Channel) {
			refused = refused || !limit.Shadow
			shadows[limit.Name] = shadows[limit.Name] || limit.Shadow
		}
		charged[id] = limit.Name
	}
	for name, shadow := range shadows {
		if shadow {
			n.shadowed[fold.Shadowed{List: l.Name, Limit: name}]++
		}
	}
	if refused {
		return false
	}
	for id, name := range charged {
		if !shadows[name] {
			n.used[id]++
		}
	}
	return true
}

// compare expects the counts of a shard of a store to be the naive ones.
func (n *naiveShard) compare(rt *rapid.T, s store.Store, shard int) {
	state, err := s.Load(context.Background(), shard)
	if err != nil {
		rt.Fatal(err)
	}
	if state.Rules != n.rules {
		rt.Fatalf("in force is %+v, want %+v", state.Rules, n.rules)
	}
	w := &store.Want{Sets: true, Whole: slices.Collect(maps.Keys(n.sets)), Items: map[string][]string{}}
	for key := range n.items {
		w.Items[key[0]] = append(w.Items[key[0]], key[1])
	}
	have, err := s.Read(context.Background(), shard, w)
	if err != nil {
		rt.Fatal(err)
	}
	for set, totals := range have.Sets {
		if _, _, period := store.ParsePeriodSet(set); !period && set != store.AllSet(set.List) {
			continue // sums of scores
		}
		want := n.totals[set]
		want.Newest = totals.Newest
		if totals != want {
			rt.Fatalf("%v has the totals %+v, want %+v", set, totals, want)
		}
	}
	for set, want := range n.sets {
		got := map[string]store.Tally{}
		for _, e := range have.Whole[set] {
			got[e.Item] = e.Tally
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			rt.Fatalf("%v (-want +got)\n%s", set, diff)
		}
		if _, ok := have.Sets[set]; !ok {
			rt.Fatalf("%v has no totals", set)
		}
	}
	for list, items := range w.Items {
		for i, item := range items {
			if got, want := have.Items[list][i].Duplicates, n.items[[2]string{list, item}]; got != want {
				rt.Fatalf("%s of %s has %d duplicates, want %d", item, list, got, want)
			}
		}
	}
}

// drawDocument draws rules of the lists a (views), b (views or votes) and poll
// (votes), some of which may be missing.
func drawDocument(rt *rapid.T) ruleset.Config {
	var c ruleset.Config
	for _, name := range []string{"a", "b", "poll"} {
		if rapid.IntRange(0, 4).Draw(rt, "missing") == 0 {
			continue
		}
		l := &ruleset.ListConfig{
			Name:    name,
			Zone:    rapid.SampledFrom([]string{"UTC", "UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"}).Draw(rt, "zone"),
			Dedup:   ruleset.Duration(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(rt, "dedup")),
			Weights: &ruleset.Weights{PV: rapid.SampledFrom([]float64{1, 3}).Draw(rt, "pv"), UV: rapid.SampledFrom([]float64{0, 2}).Draw(rt, "uv")},
			Score:   ruleset.Score{Model: rapid.SampledFrom([]ruleset.Model{ruleset.Gravity, ruleset.Accumulate, ruleset.HalfLife, ruleset.HalfLife, ruleset.Count}).Draw(rt, "model")},
			Keep:    map[calendar.Period]int{},
		}
		switch l.Score.Model {
		case ruleset.HalfLife: // short enough that the landmark moves
			l.Score.HalfLife = ruleset.Duration(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(rt, "half-life"))
		case ruleset.Accumulate:
			l.Score.Base = rapid.SampledFrom([]float64{1, 2}).Draw(rt, "base")
		}
		for _, p := range calendar.Periods {
			if p == calendar.All || rapid.IntRange(0, 4).Draw(rt, "no "+string(p)) != 0 {
				l.Boards = append(l.Boards, p)
			}
		}
		for _, p := range l.Boards {
			if p != calendar.All && rapid.Bool().Draw(rt, "keep") {
				l.Keep[p] = rapid.IntRange(1, 30).Draw(rt, "kept")
			}
		}
		if name == "poll" || name == "b" && rapid.IntRange(0, 3).Draw(rt, "votes") == 0 {
			l.Votes = &ruleset.Votes{Options: rapid.SampledFrom([][]string{{"a", "b"}, {"a", "b", "c"}}).Draw(rt, "options")}
			if rapid.IntRange(0, 3).Draw(rt, "times") == 0 {
				l.Votes.Opens, l.Votes.Closes = changesBegin.Add(time.Hour), changesBegin.Add(50*time.Hour)
			}
		}
		c.Lists = append(c.Lists, l)
	}
	for i := range rapid.IntRange(0, 2).Draw(rt, "limits") {
		l := &ruleset.Limit{Name: fmt.Sprint("limit", i), By: []ruleset.Dimension{ruleset.ByUser}, Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 0}
		for _, w := range calendarWindows {
			if w.Max = rapid.Int64Range(-2, 3).Draw(rt, string(w.Per)); w.Max > 0 {
				l.Windows = append(l.Windows, w)
			}
		}
		if len(l.Windows) > 0 {
			c.Limits = append(c.Limits, l)
		}
	}
	return c
}

// changesBegin is before the end of summer time in Berlin.
var changesBegin = time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)

func drawHit(rt *rapid.T, rules *ruleset.Rules, at time.Time) hit.Hit {
	h := hit.Hit{
		Kind: hit.View, List: rapid.SampledFrom([]string{"a", "a", "b", "poll"}).Draw(rt, "list"),
		Item:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "item"),
		Visitor: rapid.Uint64Range(1, 3).Draw(rt, "visitor"), Time: at.UnixMilli(),
	}
	if l := rules.List(h.List); l != nil && l.Votes != nil {
		h.Kind = hit.Vote
		for _, limit := range rules.Limits {
			key := rapid.Uint64Range(1, 2).Draw(rt, "key")
			for _, w := range limit.Windows {
				h.Quotas = append(h.Quotas, hit.Quota{Limit: limit.Name, Window: w.ID(), Key: key})
			}
		}
		h.Quotas = h.Quotas[:min(len(h.Quotas), hit.MaxQuotas)]
	} else if rapid.Bool().Draw(rt, "published") {
		h.Published, h.PublishedFrom = h.Time-rapid.Int64Range(0, 1e8).Draw(rt, "age"), hit.FromClient
	}
	return h
}

// Rules change at random, and edges and shards learn of it in any order: each hit is
// judged by its own document, and the store does not depend on how the messages are
// grouped, on kills, on a second aggregator, or on when the broker has a document.
func TestChangesOfRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		docs := documents{}
		var ids []hit.RulesID
		for i := range rapid.IntRange(1, 4).Draw(rt, "documents") {
			id := hit.RulesIDOf(fmt.Append(nil, i))
			docs[id] = ruleset.MustCompile(drawDocument(rt))
			ids = append(ids, id)
		}
		shards := rapid.IntRange(1, 3).Draw(rt, "shards")
		naive := make([]*naiveShard, shards)
		for i := range naive {
			naive[i] = newNaiveShard(docs)
		}
		msgs := make([][]fold.Message, shards)
		seqs := map[string]uint64{}
		at, revision := changesBegin, uint64(0)
		for i := range rapid.IntRange(1, 60).Draw(rt, "messages") {
			seq := uint64(i + 1)
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 59, 600, 3600, 40000}).Draw(rt, "step")) * time.Second)
			if rapid.IntRange(0, 5).Draw(rt, "revision") == 0 {
				shard, id := rapid.IntRange(0, shards-1).Draw(rt, "shard"), rapid.SampledFrom(ids).Draw(rt, "document")
				revision += rapid.SampledFrom([]uint64{0, 1, 1, 2}).Draw(rt, "by") // 0: published twice
				if revision == 0 {
					continue
				}
				headers := map[string]string{hit.HeaderRevision: fmt.Sprint(revision), hit.HeaderRules: id.String()}
				m := fold.Read(shard, seq, at, hit.Subject(shard, hit.RulesSender), func(k string) string { return headers[k] }, nil)
				if m.Err != nil {
					rt.Fatal(m.Err)
				}
				msgs[shard] = append(msgs[shard], m)
				naive[shard].revision(revision, id)
				continue
			}
			id := rapid.SampledFrom(ids).Draw(rt, "document")
			late := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 30, 700, 90000}).Draw(rt, "late")) * time.Second
			first := drawHit(rt, docs[id], at.Add(-late))
			shard := hit.Shard(first.Kind, first.List, first.Item, shards)
			b := &hit.Batch{Edge: rapid.SampledFrom([]string{"e1", "e2"}).Draw(rt, "edge"), Shard: shard, Rules: id}
			for h := first; ; h = drawHit(rt, docs[id], at) {
				if hit.Shard(h.Kind, h.List, h.Item, shards) == shard {
					b.Hits = append(b.Hits, h)
					naive[shard].hit(id, h)
				}
				if rapid.Bool().Draw(rt, "last") {
					break
				}
			}
			lane := fmt.Sprint(b.Edge, shard)
			seqs[lane]++
			b.Seq = seqs[lane]
			data, err := hit.Encode(b)
			if err != nil {
				rt.Fatal(err)
			}
			headers := map[string]string{hit.HeaderSeq: fmt.Sprint(b.Seq), hit.HeaderLow: "1"}
			m := fold.Read(shard, seq, at, hit.Subject(shard, b.Edge), func(k string) string { return headers[k] }, data)
			if m.Err != nil {
				rt.Fatal(m.Err)
			}
			msgs[shard] = append(msgs[shard], m)
		}

		var first *memstore.Snapshot
		for _, run := range []string{"one by one", "all at once", "at random"} {
			s := memstore.New(shards)
			total := newNaiveShard(nil) // only its verdicts
			for shard, log := range msgs {
				foldAll(rt, run, &folding{docs: docs, store: s, shard: shard, log: log, total: total})
			}
			got := s.Snapshot()
			if first == nil {
				first = got
				want := newNaiveShard(nil)
				for shard, n := range naive {
					n.compare(rt, s, shard)
					addUp(want, n.hits, n.shadowed)
				}
				if diff := gocmp.Diff(want.hits, total.hits) + gocmp.Diff(want.shadowed, total.shadowed); diff != "" {
					rt.Fatalf("verdicts (-want +got)\n%s", diff)
				}
			} else if !reflect.DeepEqual(first, got) {
				for shard, n := range naive {
					n.compare(rt, s, shard)
				}
				rt.Fatalf("folding %s gives another store", run)
			}
		}
	})
}

func addUp(to *naiveShard, hits map[fold.ListReason]int, shadowed map[fold.Shadowed]int) {
	for k, v := range hits {
		to.hits[k] += v
	}
	for k, v := range shadowed {
		to.shadowed[k] += v
	}
}

// folding folds the messages of one shard.
type folding struct {
	docs  documents
	store *memstore.Store
	shard int
	log   []fold.Message
	total *naiveShard
}

var errNotYet = errors.New("not in the broker yet")

// foldAll folds the whole log of a shard, in some way.
func foldAll(rt *rapid.T, how string, f *folding) {
	ctx := context.Background()
	var states [2]store.State // of two aggregators
	draw := func(most int, what string) int {
		if how != "at random" {
			return 0
		}
		return rapid.IntRange(0, most).Draw(rt, what)
	}
	missing := draw(3, "missing") // requests for documents that fail
	folder := &fold.Folder{Store: f.store, Rules: func(_ context.Context, id hit.RulesID) (*ruleset.Rules, error) {
		if missing > 0 {
			missing--
			return nil, errNotYet
		}
		return f.docs[id], nil
	}}
	for {
		now, err := f.store.Load(ctx, f.shard)
		if err != nil {
			rt.Fatal(err)
		}
		left := f.log[slices.IndexFunc(append(f.log, fold.Message{Seq: 1 << 60}), func(m fold.Message) bool { return m.Seq > now.Position.Seq }):]
		if len(left) == 0 {
			return
		}
		if draw(3, "other aggregator") == 0 {
			slices.Reverse(states[:])
		}
		state := &states[0]
		if draw(3, "load") == 0 || state.Edges == nil {
			*state = now
		}
		size := len(left)
		switch how {
		case "one by one":
			size = 1
		case "at random":
			size = rapid.IntRange(1, len(left)).Draw(rt, "size")
		}
		// A state that another aggregator has overtaken reads from its own position.
		from := slices.IndexFunc(f.log, func(m fold.Message) bool { return m.Seq > state.Position.Seq })
		part := f.log[from:min(from+size, len(f.log))]
		res, err := folder.Fold(ctx, f.shard, *state, part)
		if errors.Is(err, errNotYet) {
			continue
		}
		if errors.Is(err, store.ErrConflict) {
			*state = store.State{}
			continue
		}
		if err != nil {
			rt.Fatal(err)
		}
		if res.Folded < 1 || res.Folded > len(part) {
			rt.Fatalf("%d of %d messages were folded", res.Folded, len(part))
		}
		if draw(5, "killed") == 1 { // before the commit
			*state = store.State{}
			continue
		}
		res.Commit.To.Version = 0 // random otherwise
		if err := f.store.Commit(ctx, f.shard, res.Commit); errors.Is(err, store.ErrConflict) {
			*state = store.State{}
			continue
		} else if err != nil {
			rt.Fatal(err)
		}
		fold.Advance(state, res.Commit)
		addUp(f.total, res.Hits, res.Shadowed)
	}
}
