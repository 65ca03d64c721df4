package fold_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// someRules names the rules of all batches.
var someRules = hit.RulesIDOf([]byte("{}"))

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// log is the simplest log and edge: every add is one batch.
type log struct {
	t      testing.TB
	rules  *ruleset.Rules // of someRules
	others documents
	under  hit.RulesID    // of the next hits
	shown  *ruleset.Rules // by the boards
	store  store.Store
	shards int
	msgs   [][]fold.Message // by shard
	seq    uint64
	batch  map[int]uint64
}

func newLog(t testing.TB, s store.Store, lists ...*ruleset.ListConfig) *log {
	t.Helper()
	return newLogOf(t, s, ruleset.Config{Lists: lists})
}

func newLogOf(t testing.TB, s store.Store, c ruleset.Config) *log {
	t.Helper()
	rules := ruleset.MustCompile(c)
	return &log{
		t: t, rules: rules, shown: rules, others: documents{}, under: someRules,
		store: s, shards: s.Shards(), msgs: make([][]fold.Message, s.Shards()), batch: map[int]uint64{},
	}
}

func (l *log) rulesOf(_ context.Context, id hit.RulesID) (*ruleset.Rules, error) {
	if id == someRules || id.IsZero() || id == l.rules.ID() {
		return l.rules, nil
	}
	if r := l.others[id]; r != nil {
		return r, nil
	}
	return nil, errNotYet
}

// document makes other rules known and returns their name.
func (l *log) document(lists ...*ruleset.ListConfig) hit.RulesID {
	id := hit.RulesIDOf(fmt.Append(nil, len(l.others)))
	l.others[id] = ruleset.MustCompile(ruleset.Config{Lists: lists})
	return id
}

// revision puts rules in force in all shards. Boards show them then.
func (l *log) revision(number uint64, id hit.RulesID) {
	l.t.Helper()
	headers := map[string]string{hit.HeaderRevision: fmt.Sprint(number), hit.HeaderRules: id.String()}
	for shard := range l.msgs {
		l.seq++
		m := fold.Read(shard, l.seq, t0, hit.Subject(shard, hit.RulesSender), func(k string) string { return headers[k] }, nil)
		if m.Err != nil {
			l.t.Fatal(m.Err)
		}
		l.msgs[shard] = append(l.msgs[shard], m)
	}
	l.shown, _ = l.rulesOf(l.t.Context(), id)
}

// add appends hits, one batch a shard, received at the time of the last one.
func (l *log) add(hits ...hit.Hit) {
	l.t.Helper()
	byShard := map[int][]hit.Hit{}
	for _, h := range hits {
		n := hit.Shard(h.Kind, h.List, h.Item, l.shards)
		byShard[n] = append(byShard[n], h)
	}
	for shard, hits := range byShard {
		l.batch[shard]++
		l.msgs[shard] = append(l.msgs[shard], l.message(shard, "e1", l.batch[shard], 1, hits))
	}
}

// message is a message with batches from seq on.
func (l *log) message(shard int, edge string, seq, low uint64, batches ...[]hit.Hit) fold.Message {
	l.t.Helper()
	received := t0
	var body []byte
	for i, hits := range batches {
		data, err := hit.Encode(&hit.Batch{Edge: edge, Shard: shard, Seq: seq + uint64(i), Rules: l.under, Hits: hits})
		if err != nil {
			l.t.Fatal(err)
		}
		body = append(body, data...)
		for _, h := range hits {
			if at := time.UnixMilli(h.Time); at.After(received) {
				received = at
			}
		}
	}
	l.seq++
	headers := map[string]string{hit.HeaderSeq: fmt.Sprint(seq), hit.HeaderLow: fmt.Sprint(low)}
	if len(batches) > 1 {
		headers[hit.HeaderLast] = fmt.Sprint(seq + uint64(len(batches)) - 1)
	}
	m := fold.Read(shard, l.seq, received, hit.Subject(shard, edge), func(k string) string { return headers[k] }, body)
	if m.Err != nil {
		l.t.Fatal(m.Err)
	}
	return m
}

// fold applies all messages, in folds of at most size messages.
func (l *log) fold(size int) map[fold.ListReason]int {
	l.t.Helper()
	hits := map[fold.ListReason]int{}
	for _, res := range l.results(size) {
		for k, v := range res.Hits {
			hits[k] += v
		}
	}
	return hits
}

// results is fold with the results of all folds.
func (l *log) results(size int) (all []*fold.Result) {
	l.t.Helper()
	ctx := context.Background()
	f := &fold.Folder{Rules: l.rulesOf, Store: l.store}
	for shard, msgs := range l.msgs {
		state, err := l.store.Load(ctx, shard)
		if err != nil {
			l.t.Fatal(err)
		}
		for len(msgs) > 0 {
			n := min(size, len(msgs))
			res, err := f.Fold(ctx, shard, state, msgs[:n])
			if err != nil {
				l.t.Fatal(err)
			}
			if err := l.store.Commit(ctx, shard, res.Commit); err != nil {
				l.t.Fatal(err)
			}
			fold.Advance(&state, res.Commit)
			all = append(all, res)
			msgs = msgs[res.Folded:]
		}
		l.msgs[shard] = nil
	}
	return all
}

func (l *log) board(period string, at time.Time) []board.Row {
	l.t.Helper()
	b := board.New(l.store, func() *ruleset.Rules { return l.shown }, func() time.Time { return at })
	got, err := b.Board(context.Background(), board.Query{List: l.shown.Lists[0].Name, Period: period, Limit: board.MaxLimit})
	if err != nil {
		l.t.Fatal(err)
	}
	return got.Items
}

func view(item string, visitor uint64, at time.Time) hit.Hit {
	return hit.Hit{Kind: hit.View, List: "a", Item: item, Visitor: visitor, Time: at.UnixMilli()}
}

func scoreOf(t testing.TB, rows []board.Row, id string) float64 {
	t.Helper()
	for _, r := range rows {
		if r.ID == id {
			return r.Score
		}
	}
	t.Fatalf("%s is not on the board %+v", id, rows)
	return 0
}

func near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %.15g, want %.15g", what, got, want)
	}
}

// 3/2^1.5 at once, 1/3^1.5 an hour later (not unique), 3/8^1.5 after six hours
// from another visitor; computed with 30 digits.
func TestAccumulateFigures(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a", Score: ruleset.Score{Model: ruleset.Accumulate}})
	l.add(view("x", 1, t0), view("x", 1, t0.Add(time.Hour)), view("x", 2, t0.Add(6*time.Hour)))
	l.fold(1)
	near(t, "accumulate", scoreOf(t, l.board(board.Hot, t0.Add(100*time.Hour)), "x"), 1.38569278298217420226)
}

// Hits 0, 0.5, 600 and 700 half-lives after the first: the landmark moves twice.
// The store must carry along a second item that is hit only once, before the
// landmark moves again. Computed with 30 digits.
func TestHalfLifeFigures(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 100} {
		l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a", Score: ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(time.Hour)}})
		l.add(view("x", 1, t0), view("x", 1, t0.Add(30*time.Minute)))
		l.add(view("x", 1, t0.Add(600*time.Hour)))
		l.add(view("y", 1, t0.Add(699*time.Hour)))
		l.add(view("x", 1, t0.Add(700*time.Hour)))
		l.fold(size)
		now := t0.Add(700*time.Hour + 30*time.Minute)
		rows := l.board(board.Hot, now)
		near(t, "x", scoreOf(t, rows, "x"), 2.1213203435596425732)
		near(t, "y", scoreOf(t, rows, "y"), 1.0606601717798212866)

		l.add(view("z", 1, t0.Add(1400*time.Hour)))
		l.fold(size)
		rows = l.board(board.Hot, now.Add(700*time.Hour)) // 700 half-lives later
		near(t, "x after the landmark moved", math.Ldexp(scoreOf(t, rows, "x"), 700), 2.1213203435596425732)
		near(t, "y after the landmark moved", math.Ldexp(scoreOf(t, rows, "y"), 700), 1.0606601717798212866)
	}
}

func TestGravityOrderChangesWithoutHits(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(4), &ruleset.ListConfig{Name: "a", Weights: &ruleset.Weights{PV: 1}, Score: ruleset.Score{MinViews: 2}})
	hour := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Hour) }
	for i := range uint64(300) {
		l.add(view("old", i, hour(0)))
	}
	for i := range uint64(80) {
		l.add(view("new", i, hour(68)))
	}
	l.add(view("once", 1, hour(71))) // under the floor
	l.fold(50)
	rows := l.board(board.Hot, hour(72))
	near(t, "new", scoreOf(t, rows, "new"), 5.44331053951817355155)
	near(t, "old", scoreOf(t, rows, "old"), 0.47127421112359167851)
	if len(rows) != 2 || rows[0].ID != "new" || rows[0].Rank != 1 || rows[1].Rank != 2 {
		t.Errorf("got %+v", rows)
	}
	if rows := l.board(board.Hot, hour(100000)); rows[0].ID != "old" {
		t.Errorf("years later points decide; got %+v", rows)
	}
}

func TestPublishTime(t *testing.T) {
	t.Parallel()
	const (
		first, client, origin = hit.FromFirstHit, hit.FromClient, hit.FromOrigin
	)
	at := func(h int) int64 { return t0.Add(time.Duration(h) * time.Hour).UnixMilli() }
	type say struct {
		from hit.Source
		when int
	}
	for name, tc := range map[string]struct {
		says []say // each a hit, an hour after the other, from hour 0 on
		want int64
		from hit.Source
	}{
		"first hit stands in":                {[]say{{first, 0}}, at(0), first},
		"a client is believed":               {[]say{{client, -5}}, at(-5), client},
		"but not about the future":           {[]say{{client, 3}}, at(0), first},
		"and only once":                      {[]say{{client, -5}, {client, -500}}, at(-5), client},
		"the origin knows better":            {[]say{{client, -5}, {origin, -2}}, at(-2), origin},
		"a client does not":                  {[]say{{origin, -2}, {client, -5}}, at(-2), origin},
		"the origin may correct itself":      {[]say{{origin, -2}, {origin, -7}}, at(-7), origin},
		"the origin may announce the future": {[]say{{origin, 9}}, at(9), origin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(1)
			l := newLog(t, s, &ruleset.ListConfig{Name: "a"})
			for i, say := range tc.says {
				h := view("x", 1, t0.Add(time.Duration(i)*time.Hour))
				if say.from != first {
					h.Published, h.PublishedFrom = at(say.when), say.from
				}
				l.add(h)
			}
			l.fold(1)
			items, err := s.Items(t.Context(), hit.View, "a", []string{"x"})
			if err != nil || items[0] == nil {
				t.Fatal(items, err)
			}
			if got := items[0]; got.PublishTime() != tc.want || got.PublishedFrom != tc.from {
				t.Errorf("got %s from %d, want %s from %d", time.UnixMilli(got.PublishTime()).UTC(), got.PublishedFrom, time.UnixMilli(tc.want).UTC(), tc.from)
			}
			indexed, err := s.Scores(t.Context(), hit.View, store.PublishedSet("a"), []string{"x"})
			if err != nil || indexed[0] == nil || int64(indexed[0].Score) != tc.want {
				t.Errorf("the index of publish times has %v, %v", indexed[0], err)
			}
		})
	}
}

func TestHitsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a"})
	bad := view("x", 1, t0)
	bad.Item = "a\x00b"
	other := view("x", 1, t0)
	other.List = "gone"
	late := view("x", 7, t0)
	late.Time = 0
	ahead := view("x", 2, t0)
	l.add(bad, other, late, view("x", 1, t0), view("x", 1, t0.Add(time.Minute)), ahead)
	l.msgs[0][0].Received = t0.Add(-time.Hour) // by the broker's clock, all of them lie in the future
	got := l.fold(10)
	want := map[fold.ListReason]int{
		{Reason: ruleset.Invalid}:              2,
		{Reason: ruleset.UnknownList}:          1,
		{List: "a", Reason: ruleset.Counted}:   2,
		{List: "a", Reason: ruleset.Duplicate}: 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	items, err := l.store.Items(t.Context(), hit.View, "a", []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	if limit := t0.Add(-time.Hour + fold.MaxAhead).UnixMilli(); items[0].Last != limit {
		t.Errorf("the hit's time is %d, want it held back to %d", items[0].Last, limit)
	}
}

func TestOldPeriodsAreDropped(t *testing.T) {
	t.Parallel()
	s := memstore.New(1)
	l := newLog(t, s, &ruleset.ListConfig{Name: "a", Boards: []calendar.Period{calendar.Hour, calendar.Day, calendar.All}, Keep: map[calendar.Period]int{calendar.Hour: 2, calendar.Day: 1}})
	size := func(p calendar.Period, at time.Time) int64 {
		t.Helper()
		n, err := s.Size(t.Context(), store.PeriodSet("a", p, p.Start(at, time.UTC)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for h := range 5 {
		l.add(view("x", uint64(h), t0.Add(time.Duration(h)*time.Hour)))
		l.fold(1)
	}
	for h, want := range []int64{0, 0, 1, 1, 1} {
		if got := size(calendar.Hour, t0.Add(time.Duration(h)*time.Hour)); got != want {
			t.Errorf("hour %d has %d items, want %d", h, got, want)
		}
	}
	// A late hit counts where it is kept, and in all.
	l.add(view("late", 1, t0), view("late", 2, t0.Add(2*time.Hour)))
	l.fold(1)
	if got := size(calendar.Hour, t0); got != 0 {
		t.Errorf("a late hit brought an old hour back")
	}
	if got := size(calendar.Hour, t0.Add(2*time.Hour)); got != 2 {
		t.Errorf("a late hit is missing in an hour that is kept")
	}
	near(t, "all", scoreOf(t, l.board("all", t0), "late"), 2)
	// A jump over years drops all kept periods, in one fold with hits on both sides of
	// it.
	l.add(view("x", 9, t0.Add(5*time.Hour)), view("x", 10, t0.Add(20000*time.Hour)))
	l.fold(1)
	for h := range 6 {
		if got := size(calendar.Hour, t0.Add(time.Duration(h)*time.Hour)); got != 0 {
			t.Errorf("hour %d still has %d items", h, got)
		}
	}
	if got := size(calendar.Day, t0); got != 0 {
		t.Errorf("the first day still has %d items", got)
	}
	totals, err := s.Totals(t.Context(), []store.Set{store.PeriodSet("a", calendar.Hour, t0.Add(4*time.Hour))})
	if err != nil || totals[0][0] != (store.Totals{}) {
		t.Errorf("totals of a dropped hour: %v, %v", totals, err)
	}
}
