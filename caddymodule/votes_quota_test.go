package caddymodule

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outcomes"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// Users vote on two edges at once, far more often than they may: each has exactly
// as many votes counted as the limit allows, and what an edge accepts beyond that
// the aggregator refuses.
func TestQuotasOfTwoEdges(t *testing.T) {
	log := startLog(t, 1)
	config := pollSite(`limit user {
			by user
			max 5 per day
			when list wishes
			bonus mail 2
		}`)
	edges := []*edge{startPoll(t, log, config), startPoll(t, log, config)}
	aggregator := log.countVotes(t, edges[0].rules())
	const users, tries = 100, 10 // tries on each edge
	var accepted sync.Map        // by user and edge
	var wg sync.WaitGroup
	for n := range users {
		for i, e := range edges {
			wg.Go(func() {
				ok := 0
				for try := range tries {
					body := fmt.Sprintf(`{"list":"wishes","option":"%d","channel":"%s"}`, try, []string{"web", "mail"}[n%2])
					switch w := castVote(e, body, "X-User", fmt.Sprint(n)); w.Code {
					case http.StatusAccepted:
						ok++
					case http.StatusTooManyRequests:
					default:
						t.Errorf("got %d %s", w.Code, w.Body)
					}
				}
				accepted.Store([2]int{n, i}, ok)
			})
		}
	}
	wg.Wait()
	sum := 0
	accepted.Range(func(k, v any) bool {
		user, ok := k.([2]int), v.(int)
		if most := 5 + user[0]%2*2; ok > most {
			t.Errorf("edge %d accepted %d votes of user %d, more than %d", user[1], ok, user[0], most)
		}
		sum += ok
		return true
	})
	settle(t, "the votes to be counted", func() bool {
		counted, refused := aggregator.totals()
		return counted+refused == sum
	})
	if counted, _ := aggregator.totals(); counted != users/2*(5+7) {
		t.Errorf("%d votes are counted, want %d", counted, users/2*(5+7))
	}

	// By now both edges know the outcome, and refuse by themselves.
	settle(t, "the edges to know", func() bool {
		for _, e := range edges {
			if w := castVote(e, `{"list":"wishes","option":"more"}`, "X-User", "0"); w.Code != http.StatusTooManyRequests {
				return false
			}
		}
		return true
	})
}

// An edge refuses a key that an aggregator reported as used up, whatever it saw itself.
func TestUsedQuotasAreLearned(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit user {
			by user
			max 5 per week
			when list colours
		}`))
	castVote(e, `{"list":"colours","option":"red"}`, "X-User", "ann")
	h := log.next(t)
	q := h.Quotas[0]
	w := e.rules().Limit("user").Window(q.Window)
	start, _ := w.Period().Bounds(time.UnixMilli(h.Time), e.rules().List("colours").Location())
	log.say(t, hit.Outcomes{Used: []hit.UsedQuota{{List: "colours", Limit: q.Limit, Window: q.Window, Start: start.Unix(), Key: q.Key, Count: 5}}})
	settle(t, "the edge to refuse", func() bool {
		w := castVote(e, `{"list":"colours","option":"blue"}`, "X-User", "ann")
		return w.Code == http.StatusTooManyRequests && votesReply(t, w).Error.Code == "limited:user"
	})
	if w := castVote(e, `{"list":"colours","option":"blue"}`, "X-User", "bob"); w.Code != http.StatusAccepted {
		t.Errorf("another user: %d %s", w.Code, w.Body)
	}
}

func TestConfirmedVotes(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit user {
			by user
			max 2 per day
			max 3 per week
			when list colours
		}`, "confirm 10s"))
	aggregator := log.countVotes(t, e.rules())
	const red = `{"list":"colours","option":"red"}`

	w := castVote(e, red, "X-User", "ann")
	a := votesReply(t, w)
	if w.Code != http.StatusOK || !a.OK || a.Votes[0] != (voteResult{List: "colours", Option: "red", Accepted: true, Verdict: "counted", Score: 1, Rank: 1}) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	w = castVote(e, `[`+red+`,{"list":"wishes","option":"peace"},`+red+`]`, "X-User", "ann")
	a = votesReply(t, w)
	if w.Code != http.StatusOK || a.OK || a.Votes[0].Score != 2 || a.Votes[1].Verdict != "counted" || a.Votes[1].Score != 1 ||
		a.Votes[2].Accepted || a.Votes[2].Verdict != "" || a.Votes[2].Reason != "limited:user" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}

	t.Run("over quota", func(t *testing.T) {
		// Another edge has used up the quota, and this one does not know.
		aggregator.mu.Lock()
		aggregator.silent = true
		aggregator.mu.Unlock()
		other := startPoll(t, log, pollSite(`limit user {
			by user
			max 2 per day
			max 3 per week
			when list colours
		}`))
		for range 2 {
			if w := castVote(other, red, "X-User", "bob"); w.Code != http.StatusAccepted {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		settle(t, "the votes to be counted", func() bool { n, _ := aggregator.totals(); return n == 5 })
		aggregator.mu.Lock()
		aggregator.silent = false
		aggregator.mu.Unlock()
		before := counted("colours", ruleset.OverQuota)
		w := castVote(e, red, "X-User", "bob")
		a := votesReply(t, w)
		v := a.Votes[0]
		if w.Code != http.StatusOK || !v.Accepted || v.Verdict != "over_quota" || v.Score != 0 || v.RetryAfter < 1 || v.RetryAfter > 25*60*60 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if n := counted("colours", ruleset.OverQuota) - before; n != 1 {
			t.Errorf("the metric rose by %d", n)
		}
		if w := castVote(e, red, "X-User", "bob"); w.Code != http.StatusTooManyRequests {
			t.Errorf("got %d %s after the edge was told", w.Code, w.Body)
		}
	})
	t.Run("pending", func(t *testing.T) {
		aggregator.mu.Lock()
		aggregator.silent = true
		aggregator.mu.Unlock()
		slow := startPoll(t, log, pollSite("", "confirm 1ms"))
		w := castVote(slow, red)
		if a := votesReply(t, w); w.Code != http.StatusAccepted || !a.OK || a.Votes[0].Verdict != "pending" || !a.Votes[0].Accepted {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		noneWaits(t, slow)
	})
	t.Run("too many wait", func(t *testing.T) {
		waiting := e.app.rt.Load().outcomes.Await(make([]hit.Hit, outcomes.MaxAwaited))
		defer waiting.End()
		w := castVote(e, `{"list":"wishes","option":"peace"}`)
		if a := votesReply(t, w); w.Code != http.StatusAccepted || a.Votes[0].Verdict != "pending" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
	t.Run("the visitor goes", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		w := httptest.NewRecorder()
		e.ServeHTTP(w, fetch(http.MethodPost, "/api/votes", `{"list":"wishes","option":"peace"}`).WithContext(ctx))
		noneWaits(t, e)
	})
}

// noneWaits fails if votes of an edge still wait for their outcomes: then there is
// no room for as many as may wait.
func noneWaits(t *testing.T, e *edge) {
	t.Helper()
	all := e.app.rt.Load().outcomes.Await(make([]hit.Hit, outcomes.MaxAwaited))
	if all == nil {
		t.Fatal("votes still wait")
	}
	all.End()
}

// An edge refuses a vote while another edge could not compute its quota.
func TestVotesWithoutSharedSecrets(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit user {
			by visitor
			max 2 per week
			when list wishes
		}`))
	port, dir := log.server.Addr().(*net.TCPAddr).Port, log.server.StoreDir()
	stop := func() {
		log.server.Shutdown()
		log.server.WaitForShutdown()
	}
	stop()
	now := clock.Now().AddDate(0, 0, 100)
	defer clock.Set(func() time.Time { return now })()

	const wish, red = `{"list":"wishes","option":"peace"}`, `{"list":"colours","option":"red"}`
	spooled := func() uint64 { return e.app.rt.Load().outbox.Stats().SpooledHits }
	before := counted("wishes", ruleset.Unavailable)
	w := castVote(e, wish)
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w) != "unavailable" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
	}
	if n := counted("wishes", ruleset.Unavailable) - before; n != 1 {
		t.Errorf("the metric rose by %d", n)
	}
	if w := castVote(e, `[`+red+`,`+wish+`]`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one of two without a secret: %d %s", w.Code, w.Body)
	}
	if w := castVote(e, red, "X-User", "ann"); w.Code != http.StatusAccepted {
		t.Errorf("a user's vote, for which the lasting secret is enough: %d %s", w.Code, w.Body)
	}
	if w := castVote(e, red); w.Code != http.StatusAccepted {
		t.Errorf("a vote without quotas: %d %s", w.Code, w.Body)
	}
	if n := spooled(); n != 2 {
		t.Errorf("%d votes are on disk, want 2", n)
	}

	log.server = startNATS(t, port, dir)
	settle(t, "the secrets", func() bool { return shares(e) })
	if w := castVote(e, wish); w.Code != http.StatusAccepted {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	stop() // the edge remembers known keys
	if w := castVote(e, wish); w.Code != http.StatusAccepted {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if n := spooled(); n != 4 {
		t.Errorf("%d votes are on disk, want 4", n)
	}
}

// A reload that adds a poll has its secrets kept, and its votes confirmed.
func TestReloadAddsAPoll(t *testing.T) {
	log := startLog(t, 1)
	c := runCaddy(t, liveSite("reloads", natsBroker(log.url)))
	config := strings.NewReplacer("http:// {", "http:// {\n bind unix/SOCKET", "NATS", natsBroker(log.url)).Replace(pollSite(`limit user {
			by user
			max 2 per month
		}`, "confirm 10s"))
	if err := c.load(config); err != nil {
		t.Fatal(err)
	}
	log.countVotes(t, c.edge().rules())
	cast := func(option string) (int, string) {
		w := castVote(c.edge(), `{"list":"colours","option":"`+option+`"}`, "X-User", "ann")
		return w.Code, w.Body.String()
	}
	settle(t, "a vote to be counted", func() bool {
		status, body := cast("red")
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("got %d %s", status, body)
		}
		return status == http.StatusOK && strings.Contains(body, `"verdict":"counted"`)
	})
	if err := c.load(config + "\n# again"); err != nil {
		t.Fatal(err)
	}
	if status, body := cast("blue"); status != http.StatusOK || !strings.Contains(body, `"verdict":"counted"`) {
		t.Errorf("after another reload: %d %s", status, body)
	}
	if status, body := cast("red"); status != http.StatusTooManyRequests {
		t.Errorf("the reload forgot what was used up: %d %s", status, body)
	}
}

// Votes are on disk when they are answered, and arrive after the broker, and the
// edge, were away.
func TestVotesSurvive(t *testing.T) {
	log := startLog(t, 1)
	config := strings.ReplaceAll(pollSite(`limit user {
			by user
			max 2 per day
			when list wishes
		}`), "DIR", t.TempDir())
	e := startPoll(t, log, config)
	log.server.Shutdown()
	log.server.WaitForShutdown()
	want := make(map[string]bool)
	for i := range 20 {
		option := fmt.Sprint(i)
		if w := castVote(e, `{"list":"wishes","option":"`+option+`"}`, "X-User", option); w.Code != http.StatusAccepted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		want[option] = true
	}
	if err := e.app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	again := startLog(t, 1)
	startEdge(t, again, config)
	for len(want) > 0 {
		h := again.next(t)
		if !want[h.Item] {
			t.Errorf("hit %+v came twice, or out of nowhere", h)
		}
		delete(want, h.Item)
	}
}
