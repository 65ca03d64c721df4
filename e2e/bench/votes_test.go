package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Votes of one poll: 50 options, 300,000 users.
const (
	options = 50
	voters  = 300000
)

// pollRules has three calendar windows for every vote.
func pollRules(t testing.TB) *ruleset.Rules {
	t.Helper()
	return ruleset.MustCompile(ruleset.Config{
		Lists: []*ruleset.ListConfig{{Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}}},
		Limits: []*ruleset.Limit{{Name: "user", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{
			{Max: 1, Per: "hour"}, {Max: 2, Per: "day"}, {Max: 5, Per: "campaign"},
		}}},
	})
}

// ballot makes n votes over a day that ends at end, and returns how many of them
// their quotas admit.
func ballot(n int, end time.Time) (votes []hit.Hit, counted int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	windows := theRules.Limits[0].Windows
	type quota struct {
		window string
		start  int64
		key    uint64
	}
	used := map[quota]int64{}
	votes = make([]hit.Hit, n)
	for i := range votes {
		at := end.Add(-24*time.Hour + time.Duration(i)*24*time.Hour/time.Duration(n))
		user := uint64(rng.IntN(voters)) * 0x9e3779b97f4a7c15
		votes[i] = hit.Hit{Kind: hit.Vote, List: "poll", Item: fmt.Sprint("option-", rng.IntN(options)), Visitor: user, Time: at.UnixMilli()}
		room := true
		for w := range windows {
			votes[i].Quotas = append(votes[i].Quotas, hit.Quota{Limit: "user", Window: windows[w].ID(), Key: user})
			start, _ := windows[w].Period().Bounds(at, time.UTC)
			room = room && used[quota{windows[w].ID(), start.Unix(), user}] < windows[w].Max
		}
		for w := range windows {
			if start, _ := windows[w].Period().Bounds(at, time.UTC); room {
				used[quota{windows[w].ID(), start.Unix(), user}]++
			}
		}
		if room {
			counted++
		}
	}
	return votes, counted
}

// applyVotes counts n votes into a store, and prints the rate.
func applyVotes(t *testing.T, what string, s store.Store, n int, goal string) {
	t.Helper()
	nc := connect(t)
	ensure(t, nc, s.Shards())
	votes, counted := ballot(n, time.Now())
	seqs := publish(t, nc, votes, s.Shards())
	runtime.GC()
	took := applied(t, nc, s, seqs)
	stats, err := board.New(s, func() *ruleset.Rules { return theRules }, time.Now).Stats(t.Context(), "poll", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if got := stats.Periods[calendar.All].Views; got != counted {
		t.Fatalf("%d votes are counted, their quotas let %d of %d through", got, counted, n)
	}
	row(what, fmt.Sprintf("%.0f votes/s", float64(n)/took.Seconds()), fmt.Sprintf("%d of %d counted", counted, n), "-", goal)
}

// Votes of one poll, and so of one shard, from the log into redis-server, each with
// three quotas.
func TestApplyVotesRedis(t *testing.T) {
	wanted(t)
	theRules = pollRules(t)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: services.StartRedis(t).URL(), Shards: 16, Prefix: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	applyVotes(t, "apply votes with 3 quotas, log to redis-server", s, 600_000, ">= 8000/s")
}

// The same into SQLite.
func TestApplyVotesSQLite(t *testing.T) {
	wanted(t)
	theRules = pollRules(t)
	s, err := sqlitestore.Open(t.Context(), sqlitestore.Options{Path: filepath.Join(t.TempDir(), "hotboard.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	applyVotes(t, "apply votes with 3 quotas, log to SQLite", s, 200_000, ">= 8000/s")
}
