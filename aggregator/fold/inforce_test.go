package fold_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// scored is the list a with a score.
func scored(s ruleset.Score) *ruleset.ListConfig { return &ruleset.ListConfig{Name: "a", Score: s} }

var (
	sixHours   = ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(6 * time.Hour)}
	accumulate = ruleset.Score{Model: ruleset.Accumulate}
)

// addHistory adds hits of the items x and y: on a day of which no hour board is
// kept, on one of which some are, and today. It returns the time of the newest.
func (l *log) addHistory() (newest time.Time) {
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC) }
	newest = at(20, 12, 20)
	l.add(view("x", 1, at(17, 12, 20)))
	l.add(view("x", 1, at(18, 9, 10))) // its hour is dropped, and the next hour with hits is 13
	l.add(view("x", 2, at(18, 13, 40)))
	l.add(view("x", 2, at(20, 11, 5)), view("x", 2, at(20, 11, 50)))
	l.add(view("y", 3, newest))
	return newest
}

// The points of the hours 18 13:00 (3), 20 11:00 (4) and 20 12:00 (3), and of the
// days 17 (3) and 18 before 13:00 (3), each in the middle; computed with 40 digits.
func TestSeedFigures(t *testing.T) {
	t.Parallel()
	views := scored(sixHours)
	views.Weights = &ruleset.Weights{PV: 5}
	for name, tc := range map[string]struct {
		was, is *ruleset.ListConfig
		x, y    float64 // at the newest hit
	}{
		"half-life":         {scored(ruleset.Score{}), scored(sixHours), 3.652961061067261500131185324352514353624, 2.942790263006744804112467209592723061223},
		"another half-life": {scored(ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(time.Hour)}), scored(sixHours), 3.652961061067261500131185324352514353624, 2.942790263006744804112467209592723061223},
		"other weights":     {scored(sixHours), views, 9.115662977426779808311664545295146419873, 4.904650438344574673520778682654538435372},
		"accumulate":        {scored(sixHours), scored(accumulate), 1.121364433137956058337722765704547891674, 1.060660171779821286601266543157273558928},
	} {
		for _, size := range []int{1, 100} {
			t.Run(fmt.Sprint(name, " in folds of ", size), func(t *testing.T) {
				t.Parallel()
				l := newLog(t, memstore.New(1), tc.was)
				newest := l.addHistory()
				l.revision(1, l.document(tc.is))
				l.fold(size)
				rows := l.board(board.Hot, newest)
				near(t, "x", scoreOf(t, rows, "x"), tc.x)
				near(t, "y", scoreOf(t, rows, "y"), tc.y)
				if len(rows) != 2 {
					t.Errorf("the board has %d rows", len(rows))
				}
				if tc.is.Score.Model != ruleset.HalfLife || tc.is.Weights != nil {
					return
				}
				// From then on the sums go on as if the hits had been counted so, whichever
				// document accepted them.
				l.add(view("x", 9, newest.Add(time.Hour)))
				l.fold(size)
				near(t, "x an hour later", scoreOf(t, l.board(board.Hot, newest.Add(time.Hour)), "x"), 6.254418326721396997790928318804187102570)
			})
		}
	}
}

// A day board that is younger than an hour board has less than its hours, and a list
// of hour boards alone has no more than those.
func TestSeedWithoutDays(t *testing.T) {
	t.Parallel()
	const hours = 2.942790263006744804112467209592723061223 // of y
	hourly := scored(ruleset.Score{})
	hourly.Boards = []calendar.Period{calendar.Hour}
	l := newLog(t, memstore.New(1), hourly)
	newest := l.addHistory()
	l.revision(1, l.document(scored(ruleset.Score{}))) // with day boards, which are empty yet
	l.revision(2, l.document(scored(sixHours)))
	l.fold(9)
	rows := l.board(board.Hot, newest)
	near(t, "y", scoreOf(t, rows, "y"), hours)
	near(t, "x", scoreOf(t, rows, "x"), 3.652961061067261500131185324352514353624-
		3*scoring.HalfLifeWeight(0, (72*time.Hour+20*time.Minute).Milliseconds(), (6*time.Hour).Milliseconds())-
		3*scoring.HalfLifeWeight(0, (53*time.Hour+50*time.Minute).Milliseconds(), (6*time.Hour).Milliseconds()))
}

// sums returns the sets of shard 0 that have totals, beside the period boards.
func (l *log) sums() map[string]bool {
	l.t.Helper()
	have, err := l.store.Read(l.t.Context(), 0, &store.Want{Sets: true})
	if err != nil {
		l.t.Fatal(err)
	}
	sums := map[string]bool{}
	for set := range have.Sets {
		if _, _, ok := store.ParsePeriodSet(set); !ok {
			sums[set.List+" "+set.Name] = true
		}
	}
	return sums
}

// Sums stay, without new hits, until the revision after the one that replaced them,
// and begin anew when their settings come back.
func TestSumsThereAndBack(t *testing.T) {
	t.Parallel()
	const six, acc = "a halflife:6h0m0s:1:2", "a accumulate:2:1.5:1:2"
	l := newLog(t, memstore.New(1), scored(sixHours))
	gravity, summed, back := l.document(scored(ruleset.Score{})), l.document(scored(accumulate)), l.document(scored(sixHours))
	l.add(view("old", 1, t0.AddDate(0, 0, -50))) // older than the day boards
	newest := l.addHistory()
	step := func(what string, number uint64, id hit.RulesID, want map[string]bool) {
		t.Helper()
		if number > 0 {
			l.revision(number, id)
		}
		l.fold(100)
		want["a all"] = true
		if diff := gocmp.Diff(want, l.sums()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	step("at first", 0, hit.RulesID{}, map[string]bool{six: true})
	step("gravity", 3, gravity, map[string]bool{six: true})
	step("a message again", 3, summed, map[string]bool{six: true})
	step("an older message", 2, summed, map[string]bool{six: true})
	step("the same rules", 4, gravity, map[string]bool{six: true})
	l.add(view("x", 9, newest.Add(time.Minute)))
	step("back at once", 5, back, map[string]bool{six: true})
	// With the hit in between, in the middle between 12:00 and 12:21.
	if rows := l.board(board.Hot, newest); len(rows) != 2 {
		t.Errorf("the board has %d rows; some are of the sums of before", len(rows))
	}
	near(t, "x", scoreOf(t, l.board(board.Hot, newest.Add(time.Minute)), "x"), 6.585892973422405815474971360439106670195)
	step("accumulate", 6, summed, map[string]bool{six: true, acc: true})
	step("gravity again", 7, gravity, map[string]bool{acc: true})
	step("the last one", 8, l.document(&ruleset.ListConfig{Name: "b", Score: sixHours}), map[string]bool{acc: true}) // the list is no more
	step("and again", 9, back, map[string]bool{six: true})
}

// Hits of a list count from its first hit on, and its sums are those of its boards
// when it comes into force. A list without hits has nothing.
func TestAddedList(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "b"})
	id := l.document(scored(sixHours), &ruleset.ListConfig{Name: "b"}, &ruleset.ListConfig{Name: "empty", Score: sixHours})
	l.add(hit.Hit{Kind: hit.View, List: "b", Item: "x", Visitor: 1, Time: t0.UnixMilli()})
	l.under = id
	newest := l.addHistory()
	l.revision(1, id)
	l.fold(3)
	rows := l.board(board.Hot, newest)
	near(t, "x", scoreOf(t, rows, "x"), 3.652961061067261500131185324352514353624)
	near(t, "y", scoreOf(t, rows, "y"), 2.942790263006744804112467209592723061223)
	if diff := gocmp.Diff(map[string]bool{"a all": true, "b all": true, "a halflife:6h0m0s:1:2": true}, l.sums()); diff != "" {
		t.Errorf("sets (-want +got)\n%s", diff)
	}
}

// What the new rules do not keep goes when they come into force: boards, periods
// that are too old, and days of another zone. Other lists stay as they are.
func TestPeriodsOfANewRevision(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a"}, &ruleset.ListConfig{Name: "b"})
	hours := func(p calendar.Period) (n int) {
		t.Helper()
		have, err := l.store.Read(t.Context(), 0, &store.Want{Sets: true})
		if err != nil {
			t.Fatal(err)
		}
		for set := range have.Sets {
			if q, _, ok := store.ParsePeriodSet(set); ok && q == p && set.List == "a" {
				n++
			}
		}
		return n
	}
	l.addHistory()
	l.add(hit.Hit{Kind: hit.View, List: "b", Item: "x", Visitor: 1, Time: t0.UnixMilli()})
	for number, tc := range []struct {
		is                     *ruleset.ListConfig
		hours, days, weeks, at int
	}{
		{is: &ruleset.ListConfig{Name: "a"}, hours: 3, days: 3, weeks: 1},
		{is: &ruleset.ListConfig{Name: "a", Keep: map[calendar.Period]int{calendar.Hour: 1}}, hours: 2, days: 3, weeks: 1},
		{is: &ruleset.ListConfig{Name: "a", Boards: []calendar.Period{calendar.Hour, calendar.Day}}, hours: 2, days: 3},
		{is: &ruleset.ListConfig{Name: "a", Zone: "Europe/Berlin"}, hours: 2},
		{is: &ruleset.ListConfig{Name: "other"}, hours: 2},
		{is: &ruleset.ListConfig{Name: "a", Zone: "Asia/Kolkata"}},
	} {
		l.revision(uint64(number+1), l.document(tc.is))
		l.fold(9)
		if got, want := [3]int{hours(calendar.Hour), hours(calendar.Day), hours(calendar.Week)}, [3]int{tc.hours, tc.days, tc.weeks}; got != want {
			t.Errorf("after revision %d there are %v hours, days and weeks, want %v", number+1, got, want)
		}
	}
	size, err := l.store.Size(t.Context(), store.PeriodSet("b", calendar.Hour, t0))
	if err != nil || size != 1 {
		t.Errorf("the hour of another list has %d items, %v", size, err)
	}
}

// Rules in force decide what is kept and which sums there are, for hits of any
// document; the document of a hit decides the rest.
func TestEachHitByItsOwnDocument(t *testing.T) {
	t.Parallel()
	strict := scored(sixHours)
	strict.Dedup, strict.Weights = ruleset.Duration(24*time.Hour), &ruleset.Weights{PV: 7}
	l := newLog(t, memstore.New(1), scored(sixHours))
	id := l.document(strict)
	l.add(view("x", 1, t0))
	l.add(view("x", 1, t0.Add(time.Hour)))
	l.under = id
	l.add(view("x", 1, t0.Add(2*time.Hour))) // a duplicate by these rules alone
	l.add(view("y", 1, t0.Add(2*time.Hour))) // of 3 points by the rules in force
	l.under = someRules
	l.add(view("x", 1, t0.Add(3*time.Hour)))
	got := l.fold(100)
	want := map[fold.ListReason]int{{List: "a", Reason: ruleset.Counted}: 4, {List: "a", Reason: ruleset.Duplicate}: 1}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("hits (-want +got)\n%s", diff)
	}
	near(t, "y", scoreOf(t, l.board(board.Hot, t0.Add(2*time.Hour)), "y"), 3)
}

// The first hits of a shard put their rules in force, also those of batches of
// version 1, which name none.
func TestFirstHitsPutTheirRulesInForce(t *testing.T) {
	t.Parallel()
	for _, version := range []uint8{1, hit.Version} {
		l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a"})
		want := store.InForce{ID: someRules}
		for range 2 {
			l.add(view("x", 1, t0))
			if b := l.msgs[0][len(l.msgs[0])-1].Batches[0]; version == 1 {
				b.Version, b.Rules = 1, hit.RulesID{}
				want.ID = l.rules.ID()
			}
			l.fold(1)
			if got, err := l.store.InForce(t.Context()); err != nil || got[0] != want {
				t.Errorf("in force is %+v, want %+v, %v", got, want, err)
			}
		}
	}
}

// Messages wait for the rules that they need, and those before them do not.
func TestMissingRules(t *testing.T) {
	t.Parallel()
	l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a"})
	unknown := hit.RulesIDOf([]byte("unknown"))
	l.add(view("x", 1, t0))
	l.under = unknown
	l.add(view("x", 2, t0))
	l.add() // no hits, so it needs no rules
	l.under = someRules
	l.add(view("x", 3, t0))
	l.revision(1, unknown)
	f := &fold.Folder{Rules: l.rulesOf, Store: l.store}
	var state store.State
	advance := func(wantFolded int) {
		t.Helper()
		res, err := f.Fold(t.Context(), 0, state, l.msgs[0])
		if err != nil {
			t.Fatal(err)
		}
		if res.Folded != wantFolded {
			t.Fatalf("%d messages were folded, want %d", res.Folded, wantFolded)
		}
		if err := l.store.Commit(t.Context(), 0, res.Commit); err != nil {
			t.Fatal(err)
		}
		fold.Advance(&state, res.Commit)
		l.msgs[0] = l.msgs[0][wantFolded:]
	}
	waits := func(edge string, seq uint64) {
		t.Helper()
		var missing *fold.RulesError
		res, err := f.Fold(t.Context(), 0, state, l.msgs[0])
		if !errors.As(err, &missing) || missing.ID != unknown || missing.Edge != edge || missing.Seq != seq || !errors.Is(err, errNotYet) {
			t.Fatalf("the fold returned %+v, %v", res, err)
		}
	}
	advance(1)
	waits("e1", 2)
	f.Rules = func(_ context.Context, id hit.RulesID) (*ruleset.Rules, error) { return l.rules, nil }
	advance(2)
	f.Rules = l.rulesOf
	waits("", 4)
	f.Rules = func(_ context.Context, id hit.RulesID) (*ruleset.Rules, error) { return l.rules, nil }
	advance(1)
	if want := (store.InForce{Revision: 1, ID: unknown}); state.Rules != want {
		t.Errorf("in force is %+v, want %+v", state.Rules, want)
	}
}

// A list of views that has the name of a poll finds its items in other shards.
func TestNameOfAPoll(t *testing.T) {
	t.Parallel()
	const shards = 3
	l := newLog(t, memstore.New(shards), &ruleset.ListConfig{Name: "a"})
	poll := l.document(&ruleset.ListConfig{Name: "a", Votes: &ruleset.Votes{Options: []string{"*"}}})
	shard := (hit.Shard(hit.Vote, "a", "", shards) + 1) % shards // of no votes
	item := ""
	for i := 0; hit.Shard(hit.View, "a", item, shards) != shard; i++ {
		item = strconv.Itoa(i)
	}
	vote := view(item, 1, t0)
	vote.Kind = hit.Vote
	l.add(view(item, 1, t0))
	l.under = poll
	l.msgs[shard] = append(l.msgs[shard], l.message(shard, "e2", 1, 1, []hit.Hit{vote}))
	want := map[fold.ListReason]int{{List: "a", Reason: ruleset.Counted}: 1, {Reason: ruleset.Invalid}: 1}
	if diff := gocmp.Diff(want, l.fold(100)); diff != "" {
		t.Errorf("hits (-want +got)\n%s", diff)
	}
}
