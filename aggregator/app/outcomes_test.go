package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/ruleset"
)

// poll is rules with a list of votes, in which everybody has two.
func poll() *ruleset.Rules {
	limit := func(name string, shadow bool, most int64) *ruleset.Limit {
		return &ruleset.Limit{Name: name, By: []ruleset.Dimension{ruleset.ByUser}, Shadow: shadow,
			Windows: []ruleset.Window{{Max: most, Per: "campaign"}}}
	}
	return ruleset.MustCompile(ruleset.Config{
		Lists:  []*ruleset.ListConfig{{Name: "poll", Votes: &ruleset.Votes{Options: []string{"a", "b", "c"}}}},
		Limits: []*ruleset.Limit{limit("two", false, 2), limit("one", true, 1)},
	})
}

func TestEdgesHearWhatBecameOfVotes(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = poll() })
	f.edge.Rules = poll().ID()
	heard := make(chan *nats.Msg, 1000)
	if _, err := f.nc.ChanSubscribe(hit.SubjectOutcomes, heard); err != nil {
		t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	vote := func(option string, key, confirm uint64) hit.Hit {
		return hit.Hit{Kind: hit.Vote, List: "poll", Item: option, Visitor: key, Time: time.Now().UnixMilli(), Confirm: confirm, Quotas: []hit.Quota{
			{Limit: "two", Window: "campaign", Key: key}, {Limit: "one", Window: "campaign", Key: key},
		}}
	}
	f.edge.Send(vote("a", 1, 0), vote("a", 2, 0), vote("a", 3, 0), vote("b", 3, 0)) // nobody asks for these verdicts
	f.edge.Send(vote("b", 4, 10), vote("c", 4, 11), vote("c", 4, 12), vote("none", 4, 13), vote("c", 5, 14))

	votes, used := map[uint64]hit.VoteOutcome{}, map[uint64]hit.UsedQuota{}
	brokertest.Eventually(t, func() string {
		for len(heard) > 0 {
			var said hit.Outcomes
			if err := json.Unmarshal((<-heard).Data, &said); err != nil {
				t.Fatal(err)
			}
			for _, v := range said.Votes {
				votes[v.Confirm] = v
			}
			for _, u := range said.Used {
				used[u.Key] = u
			}
		}
		if len(votes) < 5 || len(used) < 2 {
			return fmt.Sprintf("heard %+v, %+v", votes, used)
		}
		return ""
	})
	want := map[uint64]hit.VoteOutcome{
		10: {Confirm: 10, Reason: "counted", Score: 2, Rank: 2},
		11: {Confirm: 11, Reason: "counted", Score: 2, Rank: 2},
		12: {Confirm: 12, Reason: "over_quota", Limit: "two", Score: 2, Rank: 2},
		13: {Confirm: 13, Reason: "unknown_item"},
		14: {Confirm: 14, Reason: "counted", Score: 2, Rank: 2},
	}
	if diff := cmp.Diff(want, votes); diff != "" {
		t.Errorf("votes (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[uint64]hit.UsedQuota{
		3: {List: "poll", Limit: "two", Window: "campaign", Key: 3, Count: 2},
		4: {List: "poll", Limit: "two", Window: "campaign", Key: 4, Count: 2},
	}, used, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("used up (-want +got)\n%s", diff)
	}
	_, metrics := f.get("/metrics")
	for _, line := range []string{
		`hotboard_hits_total{list="poll",reason="counted"} 7`, `hotboard_hits_total{list="poll",reason="over_quota"} 1`,
		`hotboard_hits_total{list="poll",reason="unknown_item"} 1`, `hotboard_shadowed_total{list="poll",rule="one"} 3`,
		`hotboard_outcomes_total{result="published"} `,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
	// A list of votes ranks by their number.
	var b board.Board
	if _, body := f.get("/hot?list=poll&explain=1"); json.Unmarshal([]byte(body), &b) != nil || len(b.Items) != 3 ||
		b.Items[0].ID != "a" || b.Items[0].Score != 3 || b.Items[0].Explain.Formula != "votes" {
		t.Errorf("/hot is %s", body)
	}
	var item board.Item
	if _, body := f.get("/api/items/poll/c"); json.Unmarshal([]byte(body), &item) != nil || item.Views != 2 || item.Boards["all"].Rank != 2 || item.Boards["hot"].Ahead != "a" {
		t.Errorf("item c is %s", body)
	}
}

// unheard is an outcomes that never publishes, with the number of dropped reports.
func unheard(t *testing.T) (_ *outcomes, dropped func() int) {
	o := Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	rules := poll()
	boards := board.New(memstore.New(1), func() *ruleset.Rules { return rules }, time.Now)
	reg := prometheus.NewRegistry()
	return newOutcomes(boards, &o, newMetrics(reg)), func() (n int) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "hotboard_outcomes_total" && m.GetLabel()[0].GetValue() == "dropped" {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
		return n
	}
}

// Reports that cannot be published in time are dropped and counted; counting does
// not wait.
func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	o, dropped := unheard(t)
	o.committed(&fold.Result{}) // takes no room
	large := &fold.Result{Verdicts: make([]fold.Verdict, outcomesWaiting/2), Used: make([]hit.UsedQuota, outcomesWaiting/2)}
	o.committed(large)
	if n := dropped(); n != 0 {
		t.Errorf("%d dropped while there was room", n)
	}
	o.committed(&fold.Result{Used: make([]hit.UsedQuota, 7)})
	if n := dropped(); n != 7 {
		t.Errorf("%d dropped, want 7", n)
	}

	o, dropped = unheard(t)
	for range foldsWaiting + 3 {
		o.committed(&fold.Result{Used: make([]hit.UsedQuota, 2)})
	}
	if n := dropped(); n != 6 {
		t.Errorf("%d dropped, want 6", n)
	}
	if n := o.waiting.Load(); n != 2*foldsWaiting {
		t.Errorf("%d are said to wait, want %d", n, 2*foldsWaiting)
	}
}

// No message is larger than the limit for messages of hits.
func TestOutcomesFitIntoAMessage(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 64)
	votes, used := make([]hit.VoteOutcome, outcomesAtOnce), make([]hit.UsedQuota, outcomesAtOnce)
	for i := range votes {
		votes[i] = hit.VoteOutcome{Confirm: math.MaxUint64, Reason: "limited_somewhere", Limit: name[:32], Score: -math.MaxFloat64, Rank: math.MaxInt64}
		used[i] = hit.UsedQuota{List: name, Limit: name[:32], Window: "campaign", Start: math.MinInt32, Key: math.MaxUint64, Count: math.MaxUint32}
	}
	for _, v := range []*hit.Outcomes{{Votes: votes}, {Used: used}} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > hit.MaxBatchBytes {
			t.Errorf("%d bytes", len(data))
		}
	}
}

// Items are ranked once however many votes they have, only up to a limit, and not
// at all under load.
func TestHowManyItemsAreRanked(t *testing.T) {
	t.Parallel()
	o, _ := unheard(t)
	var verdicts []fold.Verdict
	for i := range 2 * ranksAtOnce {
		for range 3 {
			verdicts = append(verdicts, fold.Verdict{List: "poll", Item: fmt.Sprint("option", i), Reason: ruleset.Counted})
		}
	}
	verdicts = append(verdicts, fold.Verdict{Item: "x", Reason: ruleset.Invalid})
	if n := len(o.standings(t.Context(), verdicts)); n != ranksAtOnce {
		t.Errorf("%d items are asked for, want %d", n, ranksAtOnce)
	}
	o.waiting.Store(outcomesWaiting)
	if n := len(o.standings(t.Context(), verdicts)); n != 0 {
		t.Errorf("%d items are asked for, though it is behind", n)
	}
}
