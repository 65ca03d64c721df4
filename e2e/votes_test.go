package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
)

var voters = flag.Int("voters", 4000, "how many users vote in TestVotes, 30 times each or more")

// voteRules are a poll in which every vote of the test has an option of its own, so
// that the counts tell them apart, and one of three options.
const voteRules = `lists:
  - name: wishes
    zone: Europe/Berlin
    votes: {options: ["*"], require_user: true}
  - name: poll
    votes: {options: [red, green, blue]}
limits:
  - name: wishes
    by: [user]
    windows: [{max: 25, per: campaign}, {max: 1000, per: week}]
    when: {lists: [wishes]}
  - name: once
    by: [user]
    windows: [{max: 1, per: campaign}]
    when: {lists: [poll]}
`

const (
	maxWishes = 25 // as in voteRules
	// moreWishes is the number of votes above the limit that every user tries.
	moreWishes = 5
	// maxCalls is the number of tries of a user. While edges are killed, some calls
	// fail.
	maxCalls = 200
	// voteKills is the least number of kills.
	voteKills = 25
)

// ballots is one user's knowledge of the votes.
type ballots struct {
	mu sync.Mutex
	// wishes holds, for each option with a vote, whether the vote was accepted.
	wishes map[string]bool
	// polled and accepted are true after a vote in the poll, and after an answer that
	// accepts it.
	polled, accepted bool
	limited          int // votes that a limit refused at an edge
}

// election is many users who vote on all edges at once.
type election struct {
	t      *testing.T
	client *http.Client
	sites  []string
	users  []ballots
	failed atomic.Int64  // calls without an answer, or with 503
	again  *rate.Limiter // rate of retries after failed calls
}

// campaign makes every user vote until the limit accepts no more of that user's
// votes.
func (e *election) campaign(ctx context.Context, parallel int) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for n := range next {
				e.vote(ctx, n)
			}
		})
	}
	for n := range e.users {
		next <- n
	}
	close(next)
	wg.Wait()
}

// vote casts the votes of one user, on the edges in turns: sometimes one, sometimes
// many, and two calls at once.
func (e *election) vote(ctx context.Context, n int) {
	var calls sync.WaitGroup
	for call := 0; call < maxCalls && !e.done(n); call += 2 {
		for i := range 2 {
			calls.Go(func() { e.call(ctx, n, call+i) })
		}
		calls.Wait()
	}
}

// done reports whether a user has voted enough.
func (e *election) done(n int) bool {
	u := &e.users[n]
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.limited
	for _, accepted := range u.wishes {
		if accepted {
			known++
		}
	}
	return u.accepted && known >= maxWishes+moreWishes
}

type ticked struct {
	List   string `json:"list"`
	Option string `json:"option"`
}

// call sends one call of a user.
func (e *election) call(ctx context.Context, n, call int) {
	u := &e.users[n]
	var votes []ticked
	for i := range []int{1, 6, 2, 6}[call%4] {
		votes = append(votes, ticked{"wishes", fmt.Sprintf("u%d-%d-%d", n, call, i)})
	}
	u.mu.Lock()
	for _, v := range votes {
		u.wishes[v.Option] = false
	}
	polls := call%4 == 1
	if polls {
		votes = append(votes, ticked{"poll", []string{"red", "green", "blue"}[n%3]})
		u.polled = true
	}
	u.mu.Unlock()

	body, err := json.Marshal(votes)
	if err != nil {
		e.t.Error(err)
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.sites[(n+call)%len(e.sites)]+"/api/votes", strings.NewReader(string(body)))
	if err != nil {
		e.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", fmt.Sprint(n))
	visitor(r, int64(n))
	status, text, err := do(e.client, r)
	if err != nil || status == http.StatusServiceUnavailable {
		e.failed.Add(1)
		if err := e.again.Wait(ctx); err != nil {
			e.t.Error(err)
		}
		return
	}
	var answer struct {
		Votes []struct {
			ticked
			Accepted bool
			Reason   string
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Votes) != len(votes) || status != http.StatusAccepted && status != http.StatusTooManyRequests {
		e.t.Errorf("%d votes are answered %d %s", len(votes), status, text)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, v := range answer.Votes {
		switch {
		case v.List == "poll":
			u.accepted = u.accepted || v.Accepted || v.Reason == "limited:once"
		case v.Accepted:
			u.wishes[v.Option] = true
		default:
			u.limited++
		}
	}
}

// result is the comparison of the counts with the users' knowledge.
type result struct {
	tried, accepted, counted, unknown int
	exact                             int // users who had as many counted as the limit allows
}

// check compares the counts of the wishes and of the poll with the users'
// knowledge; wrong is "" when they agree.
func (e *election) check(wishes, poll map[string]int) (r result, wrong string) {
	found := 0
	for n := range e.users {
		u := &e.users[n]
		accepted, counted := 0, 0
		for option, ok := range u.wishes {
			r.tried++
			if ok {
				accepted++
			}
			switch times := wishes[option]; {
			case times > 1:
				return r, fmt.Sprintf("the vote %s is counted %d times", option, times)
			case times == 1:
				counted++
				if !ok {
					r.unknown++
				}
			}
		}
		found += counted
		r.accepted += accepted
		r.counted += counted
		switch {
		case counted > maxWishes:
			return r, fmt.Sprintf("user %d has %d votes counted, more than %d", n, counted, maxWishes)
		case counted < min(maxWishes, accepted):
			return r, fmt.Sprintf("user %d has %d votes counted, and %d were accepted", n, counted, accepted)
		case counted == maxWishes:
			r.exact++
		}
	}
	if found != len(wishes) {
		return r, fmt.Sprintf("%d wishes are counted, of which nobody knows %d", len(wishes), len(wishes)-found)
	}
	voted, polled := 0, 0
	for n := range e.users {
		if e.users[n].accepted {
			voted++
		}
		if e.users[n].polled {
			polled++
		}
	}
	if sum := poll["red"] + poll["green"] + poll["blue"]; sum < voted || sum > polled {
		return r, fmt.Sprintf("%d votes of the poll are counted: of %d users who tried, %d were told that they had voted", sum, polled, voted)
	}
	return r, ""
}

// TestVotes makes many users vote on two edges at once, each more often than
// allowed, while processes of every kind are killed like kill -9. Every accepted
// vote is counted once, or was above the limit; and no user has more counted than
// allowed.
func TestVotes(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for a minute, which -short is too short for")
	}
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))

	s := stack.Start(t, stack.Options{Edges: 2, Aggregators: 2, Rules: voteRules, Site: "user {header.X-User}"})
	st := s.Store()
	eventually(t, func() string { return unshared(s.Edges) })
	victims := []*victim{
		{name: "edge 1", process: s.Edges[0]},
		{name: "edge 2", process: s.Edges[1]},
		{name: "nats-server", process: s.NATS},
		{name: "redis-server", process: s.Redis},
		{name: "aggregator 1", process: s.Aggregators[0]},
		{name: "aggregator 2", process: s.Aggregators[1]},
	}
	const parallel = 48
	e := &election{
		t: t, sites: []string{s.Edges[0].URL, s.Edges[1].URL}, users: make([]ballots, *voters), again: rate.NewLimiter(200, 1),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * parallel}},
	}
	for n := range e.users {
		e.users[n].wishes = make(map[string]bool)
	}
	began := time.Now()
	over := make(chan struct{})
	go func(over chan<- struct{}) {
		defer close(over)
		e.campaign(context.WithoutCancel(t.Context()), parallel)
	}(over)
	kills := 0
	var took time.Duration
	for took == 0 || kills < voteKills {
		select {
		case <-over:
			took, over = time.Since(began), nil
		case <-time.After(200*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second/2)))):
			killOne(t, rng, victims)
			kills++
		case <-t.Context().Done():
			return
		}
	}
	for _, v := range victims {
		if !v.Running() {
			v.Relaunch()
		}
	}
	e.client.CloseIdleConnections()

	var r result
	settled(t, s, st, func() string {
		wishes, err := storeCounts(t.Context(), st, hit.Vote, "wishes")
		if err != nil {
			return err.Error()
		}
		poll, err := storeCounts(t.Context(), st, hit.Vote, "poll")
		if err != nil {
			return err.Error()
		}
		var wrong string
		r, wrong = e.check(wishes, poll)
		return wrong
	})
	t.Logf("%d users tried %d votes in %v, with %d kills and %d calls that failed; accepted %d, counted %d (%d of them without an answer); %d users have exactly as many counted as they may",
		len(e.users), r.tried, took.Round(time.Second), kills, e.failed.Load(), r.accepted, r.counted, r.unknown, r.exact)
	if r.exact < len(e.users)*95/100 {
		t.Errorf("only %d of %d users used up their votes: that proves little", r.exact, len(e.users))
	}
	if r.accepted <= r.counted-r.unknown {
		t.Errorf("accepted %d, counted %d: no edge has accepted more than may be, which proves little", r.accepted, r.counted)
	}
}

// unshared names an edge without the secrets for votes, or is "".
func unshared(edges []*stack.Edge) string {
	for i, e := range edges {
		if m, err := e.Metrics(); err != nil || m.Sum("hotboard_edge_salt_shared") != 1 {
			return fmt.Sprintf("edge %d does not share its secrets: %v", i+1, err)
		}
	}
	return ""
}

// TestElection checks that the check finds mistakes.
func TestElection(t *testing.T) {
	t.Parallel()
	e := &election{users: make([]ballots, 2)}
	full := make(map[string]int)
	for n := range e.users {
		e.users[n] = ballots{wishes: make(map[string]bool), polled: true, accepted: n == 0}
		for i := range maxWishes + 2 {
			option := fmt.Sprintf("u%d-%d", n, i)
			e.users[n].wishes[option] = i != 0
			if i < maxWishes {
				full[option] = 1
			}
		}
	}
	poll := map[string]int{"red": 1, "green": 1}
	for name, tt := range map[string]struct {
		change func(wishes, poll map[string]int)
		ok     bool
	}{
		"as it has to be":       {func(_, _ map[string]int) {}, true},
		"who got no answer":     {func(_, poll map[string]int) { poll["red"] = 0 }, true},
		"another of the same":   {func(wishes, _ map[string]int) { delete(wishes, "u0-0"); wishes["u0-26"] = 1 }, true},
		"a vote is lost":        {func(wishes, _ map[string]int) { delete(wishes, "u0-3") }, false},
		"a vote counts twice":   {func(wishes, _ map[string]int) { wishes["u0-3"] = 2 }, false},
		"more than may be":      {func(wishes, _ map[string]int) { wishes["u1-25"] = 1 }, false},
		"a vote out of nowhere": {func(wishes, _ map[string]int) { wishes["u7-1"] = 1 }, false},
		"the poll lost one":     {func(_, poll map[string]int) { poll["red"], poll["green"] = 0, 0 }, false},
		"the poll has one more": {func(_, poll map[string]int) { poll["blue"] = 1 }, false},
	} {
		wishes, p := make(map[string]int), make(map[string]int)
		for k, v := range full {
			wishes[k] = v
		}
		for k, v := range poll {
			p[k] = v
		}
		tt.change(wishes, p)
		if _, wrong := e.check(wishes, p); (wrong == "") != tt.ok {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
