package fold_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// naivePoll judges votes in the simplest code.
type naivePoll struct {
	naive
	limits   []*ruleset.Limit
	used     map[string]int64 // by naiveQuota
	shadowed map[fold.Shadowed]int
}

func newNaivePoll(rules *ruleset.Rules) *naivePoll {
	return &naivePoll{
		naive:  naive{list: rules.Lists[0], last: map[string]map[string]int64{}, dups: map[string]int{}},
		limits: rules.Limits, used: map[string]int64{}, shadowed: map[fold.Shadowed]int{},
	}
}

// vote counts a vote, and returns its reason.
func (n *naivePoll) vote(h hit.Hit) (ruleset.Reason, string) {
	v := n.list.Votes
	switch {
	case !slices.Contains(v.Options, h.Item):
		return ruleset.UnknownItem, ""
	case !v.Opens.IsZero() && h.Time < v.Opens.UnixMilli():
		return ruleset.NotOpen, ""
	case !v.Closes.IsZero() && h.Time >= v.Closes.UnixMilli():
		return ruleset.Closed, ""
	case n.duplicate(h):
		n.dups[h.Item]++
		return ruleset.Duplicate, ""
	}
	refusedBy, shadows := "", map[string]bool{}
	for _, q := range h.Quotas {
		for _, l := range n.limits {
			for _, w := range l.Windows {
				if l.Name != q.Limit || w.Per != q.Window || n.used[n.quota(q, h.Time)] < w.Max+l.Bonus[h.Channel] {
					continue
				}
				if l.Shadow {
					shadows[l.Name] = true
				} else if refusedBy == "" {
					refusedBy = l.Name
				}
			}
		}
	}
	for name := range shadows {
		n.shadowed[fold.Shadowed{List: n.list.Name, Limit: name}]++
	}
	if refusedBy != "" {
		return ruleset.OverQuota, refusedBy
	}
	for _, q := range h.Quotas {
		if !shadows[q.Limit] {
			n.used[n.quota(q, h.Time)]++
		}
	}
	n.count(h)
	return ruleset.Counted, ""
}

// quota identifies a count: the limit, the window as a calendar shows it, the key.
func (n *naivePoll) quota(q hit.Quota, at int64) string {
	t := time.UnixMilli(at).In(n.list.Location())
	window := ""
	switch q.Window {
	case "minute":
		window = t.Format("2006-01-02 15:04 -0700") // when summer time ends, 2:30 occurs twice
	case "hour":
		window = t.Format("2006-01-02 15 -0700")
	case "day":
		window = t.Format("2006-01-02")
	case "week":
		window = fmt.Sprint(t.ISOWeek())
	case "month":
		window = t.Format("2006-01")
	}
	return fmt.Sprint(q.Limit, " ", q.Window, " ", window, " ", q.Key)
}

// calendarWindows is every kind of calendar window.
var calendarWindows = []ruleset.Window{
	{Per: "minute", Calendar: true}, {Per: "hour"}, {Per: "day"}, {Per: "week"}, {Per: "month"}, {Per: "campaign"},
}

// drawPoll draws a list of votes and limits.
func drawPoll(rt *rapid.T) ruleset.Config {
	poll := &ruleset.ListConfig{
		Name: "poll", Zone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Pacific/Auckland"}).Draw(rt, "zone"),
		Votes: &ruleset.Votes{Options: []string{"a", "b", "c"}},
		Dedup: rapid.SampledFrom([]ruleset.Duration{0, 0, ruleset.DefaultDedup}).Draw(rt, "dedup"),
		// More than the test spans, so that the naive model needs no retention.
		Keep: map[calendar.Period]int{calendar.Hour: 24 * 20, calendar.Day: 20, calendar.Week: 4, calendar.Month: 2},
	}
	c := ruleset.Config{Lists: []*ruleset.ListConfig{poll}}
	for i := range rapid.IntRange(1, 3).Draw(rt, "limits") {
		l := &ruleset.Limit{Name: fmt.Sprint("limit", i), By: []ruleset.Dimension{ruleset.ByUser}, Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 0}
		for _, w := range calendarWindows {
			if w.Max = rapid.Int64Range(0, 4).Draw(rt, w.Per); w.Max > 0 && len(l.Windows) < hit.MaxQuotas/3 {
				l.Windows = append(l.Windows, w)
			}
		}
		if rapid.Bool().Draw(rt, "bonus") {
			l.Bonus = map[string]int64{"partner": rapid.Int64Range(1, 3).Draw(rt, "more")}
		}
		if len(l.Windows) > 0 {
			c.Limits = append(c.Limits, l)
		}
	}
	return c
}

// drawVote draws a vote under rules, with all the quotas that an edge would give
// it, and with some that are missing from the rules.
func drawVote(rt *rapid.T, rules *ruleset.Rules, id uint64, at time.Time) hit.Hit {
	h := hit.Hit{
		Kind: hit.Vote, List: "poll", Item: rapid.SampledFrom([]string{"a", "a", "b", "c", "none"}).Draw(rt, "item"),
		Visitor: rapid.Uint64Range(1, 3).Draw(rt, "visitor"), Time: at.UnixMilli(),
		Channel: rapid.SampledFrom([]string{"", "", "partner"}).Draw(rt, "channel"), Confirm: id,
	}
	for _, l := range rules.Limits {
		key := rapid.Uint64Range(1, 2).Draw(rt, "key")
		for _, w := range l.Windows {
			h.Quotas = append(h.Quotas, hit.Quota{Limit: l.Name, Window: w.ID(), Key: key})
		}
	}
	if rapid.IntRange(0, 4).Draw(rt, "old rules") == 0 {
		h.Quotas = append(h.Quotas, hit.Quota{Limit: "gone", Window: "day", Key: 1})
		if len(rules.Limits) > 0 {
			h.Quotas = append(h.Quotas, hit.Quota{Limit: rules.Limits[0].Name, Window: "second", Key: 1})
		}
	}
	if rapid.IntRange(0, 9).Draw(rt, "twice") == 0 {
		h.Quotas = h.Quotas[:min(len(h.Quotas), hit.MaxQuotas/2)]
		h.Quotas = append(h.Quotas, h.Quotas...)
	}
	h.Quotas = h.Quotas[:min(len(h.Quotas), hit.MaxQuotas)]
	return h
}

// once returns the quotas that a vote is charged: each once, and only those in the
// rules.
func once(h hit.Hit, rules *ruleset.Rules) hit.Hit {
	var quotas []hit.Quota
	for _, q := range h.Quotas {
		if l := rules.Limit(q.Limit); l != nil && l.Window(q.Window) != nil && !slices.Contains(quotas, q) {
			quotas = append(quotas, q)
		}
	}
	h.Quotas = quotas
	return h
}

// However votes are cut into batches and folds, the result is that of the simplest
// code.
func TestVotesAgainstNaiveModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := drawPoll(rt)
		// Around the end of summer time in Berlin, which is also a turn of the day,
		// and a week before the turn of the month.
		at := time.Date(2026, 10, 24, rapid.IntRange(0, 23).Draw(rt, "hour"), 0, 0, 0, time.UTC)
		if rapid.IntRange(0, 3).Draw(rt, "times") == 0 {
			c.Lists[0].Votes.Opens, c.Lists[0].Votes.Closes = at.Add(time.Minute), at.Add(48*time.Hour)
		}
		l := newLogOf(t, memstore.New(rapid.IntRange(1, 4).Draw(rt, "shards")), c)
		rules := l.rules
		n := newNaivePoll(rules)
		var want []fold.Verdict
		for i := range rapid.IntRange(1, 60).Draw(rt, "votes") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 59, 600, 3600, 40000}).Draw(rt, "step")) * time.Second)
			late := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 30, 700, 90000}).Draw(rt, "late")) * time.Second
			h := drawVote(rt, rules, uint64(i+1), at.Add(-late))
			l.add(h)
			reason, rule := n.vote(once(h, rules))
			want = append(want, fold.Verdict{Confirm: h.Confirm, List: "poll", Item: h.Item, Reason: reason, Limit: rule})
		}

		var got []fold.Verdict
		used, shadowed := map[string]int64{}, map[fold.Shadowed]int{}
		for _, res := range l.results(rapid.IntRange(1, 20).Draw(rt, "group")) {
			got = append(got, res.Verdicts...)
			for k, v := range res.Shadowed {
				shadowed[k] += v
			}
			keys := map[hit.UsedQuota]bool{}
			for _, u := range res.Used {
				start := time.Unix(u.Start, 0).UnixMilli()
				used[n.quota(hit.Quota{Limit: u.Limit, Window: u.Window, Key: u.Key}, start)] = u.Count
				if u.Count = 0; keys[u] {
					rt.Fatalf("%+v is told twice in one fold", u)
				}
				keys[u] = true
			}
		}
		slices.SortFunc(got, func(a, b fold.Verdict) int { return cmp.Compare(a.Confirm, b.Confirm) })
		if diff := gocmp.Diff(want, got); diff != "" {
			rt.Fatalf("verdicts (-want +got)\n%s", diff)
		}
		if diff := gocmp.Diff(n.shadowed, shadowed); diff != "" {
			rt.Fatalf("shadowed (-want +got)\n%s", diff)
		}
		usedUp := map[string]int64{}
		for _, limit := range rules.Limits {
			for _, w := range limit.Windows {
				for _, h := range n.counted {
					for key := range uint64(3) {
						name := n.quota(hit.Quota{Limit: limit.Name, Window: w.ID(), Key: key}, h.at)
						if !limit.Shadow && n.used[name] >= w.Max {
							usedUp[name] = n.used[name]
						}
					}
				}
			}
		}
		if diff := gocmp.Diff(usedUp, used); diff != "" {
			rt.Fatalf("used up (-want +got)\n%s", diff)
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
	})
}

// Two edges send the votes of one key in any order: a window never counts more than
// it allows, and refuses none while it has room.
func TestTwoEdgesShareAQuota(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const most, more = 3, 2
		span := rapid.SampledFrom(calendarWindows).Draw(rt, "window")
		span.Max = most
		c := ruleset.Config{
			Lists: []*ruleset.ListConfig{{Name: "poll", Zone: rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "America/New_York"}).Draw(rt, "zone"),
				Votes: &ruleset.Votes{Options: []string{"*"}}}},
			Limits: []*ruleset.Limit{{Name: "most", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{span}, Bonus: map[string]int64{"partner": more}}},
		}
		l := newLogOf(t, memstore.New(2), c)
		shard := hit.Shard(hit.Vote, "poll", "", 2)
		n := newNaivePoll(l.rules)
		var edges [2][]hit.Hit
		votes := map[uint64]hit.Hit{}
		for i := range edges {
			at := time.Date(2026, 10, 31, 22, 58, 0, 0, time.UTC)
			for range rapid.IntRange(1, 20).Draw(rt, "votes") {
				at = at.Add(time.Duration(rapid.SampledFrom([]int{1, 20, 1000, 30000}).Draw(rt, "step")) * time.Second)
				id := uint64(len(votes) + 1)
				h := hit.Hit{Kind: hit.Vote, List: "poll", Item: fmt.Sprint("option", id%3), Visitor: id, Time: at.UnixMilli(), Confirm: id,
					Channel: rapid.SampledFrom([]string{"", "partner"}).Draw(rt, "channel"),
					Quotas:  []hit.Quota{{Limit: "most", Window: span.ID(), Key: rapid.Uint64Range(1, 2).Draw(rt, "key")}}}
				edges[i], votes[id] = append(edges[i], h), h
			}
		}
		for seq := [2]uint64{}; len(edges[0])+len(edges[1]) > 0; {
			i := rapid.IntRange(0, 1).Draw(rt, "edge")
			if len(edges[i]) == 0 {
				i = 1 - i
			}
			size := rapid.IntRange(1, len(edges[i])).Draw(rt, "batch")
			seq[i]++
			l.msgs[shard] = append(l.msgs[shard], l.message(shard, fmt.Sprint("e", i), seq[i], 1, edges[i][:size]))
			edges[i] = edges[i][size:]
		}
		counted, plain := map[string]int64{}, map[string]int64{}
		for _, res := range l.results(rapid.IntRange(1, 5).Draw(rt, "group")) {
			for _, v := range res.Verdicts {
				h := votes[v.Confirm]
				key := n.quota(h.Quotas[0], h.Time)
				room := int64(most)
				if h.Channel == "partner" {
					room += more
				}
				switch {
				case v.Reason == ruleset.Counted && counted[key] < room:
					counted[key]++
					if h.Channel == "" {
						plain[key]++
					}
				case v.Reason == ruleset.OverQuota && counted[key] >= room:
				default:
					rt.Fatalf("%s is %s with %d of %d counted", key, v.Reason, counted[key], room)
				}
				delete(votes, v.Confirm)
			}
		}
		if len(votes) > 0 {
			rt.Fatalf("nothing became of %d votes", len(votes))
		}
		for key, n := range counted {
			if n > most+more || plain[key] > most {
				rt.Fatalf("%s: %d counted, %d of them without a bonus", key, n, plain[key])
			}
		}
	})
}

func poll(options ...string) *ruleset.ListConfig {
	return &ruleset.ListConfig{Name: "poll", Votes: &ruleset.Votes{Options: options}}
}

func vote(item string, visitor uint64, at time.Time, quotas ...hit.Quota) hit.Hit {
	return hit.Hit{Kind: hit.Vote, List: "poll", Item: item, Visitor: visitor, Time: at.UnixMilli(), Quotas: quotas}
}

// A vote's own time, as clamped by the broker's, decides whether its poll is open.
func TestWhenAPollIsOpen(t *testing.T) {
	t.Parallel()
	l := poll("a")
	l.Votes.Opens, l.Votes.Closes = t0, t0.Add(time.Hour)
	for name, tc := range map[string]struct {
		at, received time.Duration
		want         ruleset.Reason
	}{
		"a moment before":                  {-time.Millisecond, 0, ruleset.NotOpen},
		"at the moment":                    {0, 0, ruleset.Counted},
		"a moment before the end":          {time.Hour - time.Millisecond, time.Hour, ruleset.Counted},
		"at the end":                       {time.Hour, time.Hour, ruleset.Closed},
		"before the end, and days late":    {time.Hour - time.Millisecond, 100 * time.Hour, ruleset.Counted},
		"an edge whose clock is ahead":     {30 * time.Minute, -time.Minute, ruleset.NotOpen},
		"one that is far ahead, but after": {2 * time.Hour, 30 * time.Minute, ruleset.Counted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "poll", Votes: l.Votes})
			log.add(vote("a", 1, t0.Add(tc.at)))
			log.msgs[0][0].Received = t0.Add(tc.received)
			if got := log.fold(1); got[fold.ListReason{List: "poll", Reason: tc.want}] != 1 {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

// A hit of another kind than its list counts is in another shard than the list.
func TestVotesAndViewsDoNotMix(t *testing.T) {
	t.Parallel()
	log := newLog(t, memstore.New(1), poll("x"), &ruleset.ListConfig{Name: "a"})
	viewOfPoll, voteForPage := view("x", 1, t0), vote("x", 1, t0)
	viewOfPoll.List, voteForPage.List = "poll", "a"
	log.add(viewOfPoll, voteForPage, view("x", 1, t0), vote("x", 1, t0))
	want := map[fold.ListReason]int{
		{Reason: ruleset.Invalid}: 2, {List: "a", Reason: ruleset.Counted}: 1, {List: "poll", Reason: ruleset.Counted}: 1,
	}
	if diff := gocmp.Diff(want, log.fold(1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Votes belong to the shard of their list, not to the shard of their option;
// elsewhere they are not counted.
func TestMisplacedVotes(t *testing.T) {
	t.Parallel()
	const shards = 4
	log := newLog(t, memstore.New(shards), poll("*"))
	home := hit.Shard(hit.Vote, "poll", "", shards)
	var votes []hit.Hit
	for i := range 20 {
		votes = append(votes, vote(fmt.Sprint("option", i), 1, t0))
	}
	for shard := range shards {
		log.msgs[shard] = append(log.msgs[shard], log.message(shard, "e1", 1, 1, votes))
	}
	want := map[fold.ListReason]int{{List: "poll", Reason: ruleset.Counted}: 20, {Reason: ruleset.Invalid}: 20 * (shards - 1)}
	if diff := gocmp.Diff(want, log.fold(1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	items, err := log.store.Items(t.Context(), hit.Vote, "poll", []string{"option0", "option19"})
	if err != nil || items[0] == nil || items[1] == nil {
		t.Errorf("options are not found in shard %d: %v, %v", home, items, err)
	}
}

// Only hits that ask for a verdict get one, for every reason.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	log := newLogOf(t, memstore.New(1), ruleset.Config{
		Lists:  []*ruleset.ListConfig{poll("a")},
		Limits: []*ruleset.Limit{{Name: "once", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{{Max: 1, Per: "campaign"}}}},
	})
	asked := func(id uint64, change func(*hit.Hit)) hit.Hit {
		h := vote("a", id, t0, hit.Quota{Limit: "once", Window: "campaign", Key: 7})
		h.Confirm = id
		if change != nil {
			change(&h)
		}
		return h
	}
	log.add(
		vote("a", 9, t0),
		asked(1, nil), asked(2, nil),
		asked(3, func(h *hit.Hit) { h.List = "gone" }),
		asked(4, func(h *hit.Hit) { h.Item = "b" }),
		asked(5, func(h *hit.Hit) { h.Kind = hit.View }),
		vote("a", 10, t0, hit.Quota{Limit: "once", Window: "campaign", Key: 7}),
	)
	res := log.results(1)[0]
	want := []fold.Verdict{ // hits without a list are judged first
		{Confirm: 3, Item: "a", Reason: ruleset.UnknownList},
		{Confirm: 4, List: "poll", Item: "b", Reason: ruleset.UnknownItem},
		{Confirm: 5, Item: "a", Reason: ruleset.Invalid},
		{Confirm: 1, List: "poll", Item: "a", Reason: ruleset.Counted},
		{Confirm: 2, List: "poll", Item: "a", Reason: ruleset.OverQuota, Limit: "once"},
	}
	if diff := gocmp.Diff(want, res.Verdicts); diff != "" {
		t.Errorf("verdicts (-want +got)\n%s", diff)
	}
	used := []hit.UsedQuota{{List: "poll", Limit: "once", Window: "campaign", Key: 7, Count: 1}}
	if diff := gocmp.Diff(used, res.Used); diff != "" {
		t.Errorf("used up (-want +got)\n%s", diff)
	}
}
