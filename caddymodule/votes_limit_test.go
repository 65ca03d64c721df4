package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

func TestLimitedVotes(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit three {
			by user
			max 3 per day
			when list wishes
		}
		limit once {
			by user
			max 1 per campaign
			when list colours
		}
		limit quick {
			by user
			max 1 per minute burst 2
			when list members
		}
		limit watched {
			by user
			max 1 per day
			when list wishes
			shadow
		}`))
	wish := func(user string, n int) *httptest.ResponseRecorder {
		votes := make([]string, n)
		for i := range votes {
			votes[i] = fmt.Sprintf(`{"list":"wishes","option":"%s-%d"}`, user, i)
		}
		body := votes[0]
		if n > 1 {
			body = "[" + strings.Join(votes, ",") + "]"
		}
		return castVote(e, body, "X-User", user)
	}
	headers := func(t *testing.T, w *httptest.ResponseRecorder, limit, remaining string) {
		t.Helper()
		h := w.Header()
		if h.Get("RateLimit-Limit") != limit || h.Get("RateLimit-Remaining") != remaining {
			t.Errorf("headers %v, want a limit of %s with %s left", h, limit, remaining)
		}
	}

	t.Run("one by one", func(t *testing.T) {
		before := counted("wishes", "limited:three")
		for _, left := range []string{"2", "1", "0"} {
			w := wish("ann", 1)
			if w.Code != http.StatusAccepted {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			headers(t, w, "3", left)
			log.next(t)
		}
		w := wish("ann", 1)
		a := votesReply(t, w)
		headers(t, w, "3", "0")
		if w.Code != http.StatusTooManyRequests || a.OK || a.Error == nil || a.Error.Code != "limited:three" {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		if a.RetryAfter < 1 || a.RetryAfter > 24*60*60 || w.Header().Get("Retry-After") != fmt.Sprint(a.RetryAfter) || w.Header().Get("RateLimit-Reset") != fmt.Sprint(a.RetryAfter) {
			t.Errorf("try again after %d seconds, headers %v", a.RetryAfter, w.Header())
		}
		if v := a.Votes[0]; v.Accepted || v.Reason != "limited:three" || v.RetryAfter != a.RetryAfter {
			t.Errorf("result %+v", v)
		}
		if n := counted("wishes", "limited:three") - before; n != 1 {
			t.Errorf("the metric rose by %d", n)
		}
		if w := wish("bob", 1); w.Code != http.StatusAccepted {
			t.Errorf("another user: %d %s", w.Code, w.Body)
		}
		log.next(t)
	})
	t.Run("several at once", func(t *testing.T) {
		w := wish("cid", 5)
		a := votesReply(t, w)
		if w.Code != http.StatusAccepted || a.OK || a.Error != nil || len(a.Votes) != 5 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		for i, v := range a.Votes {
			if v.Option != fmt.Sprintf("cid-%d", i) || v.Accepted != (i < 3) || (v.Reason == "limited:three") != (i >= 3) || (v.RetryAfter > 0) != (i >= 3) {
				t.Errorf("result %+v", v)
			}
		}
		for range 3 {
			log.next(t)
		}
		w = wish("cid", 2)
		if a := votesReply(t, w); w.Code != http.StatusTooManyRequests || a.Error.Code != "limited:three" || len(a.Votes) != 2 || w.Header().Get("Retry-After") == "" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if w.Header().Get("RateLimit-Limit") != "" {
			t.Error("the headers of several votes speak of one of them")
		}
	})
	t.Run("for ever", func(t *testing.T) {
		castVote(e, `{"list":"colours","option":"red"}`, "X-User", "dot")
		log.next(t)
		w := castVote(e, `{"list":"colours","option":"blue"}`, "X-User", "dot")
		if a := votesReply(t, w); w.Code != http.StatusTooManyRequests || a.RetryAfter != 0 || w.Header().Get("Retry-After") != "" || w.Header().Get("RateLimit-Reset") != "" {
			t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
		}
	})
	t.Run("the one that admits first", func(t *testing.T) {
		vote := `{"list":"members","option":"yes"}`
		castVote(e, `[`+vote+`,`+vote+`,{"list":"colours","option":"red"}]`, "X-User", "eve")
		for range 3 {
			log.next(t)
		}
		w := castVote(e, `[{"list":"colours","option":"red"},`+vote+`]`, "X-User", "eve")
		if a := votesReply(t, w); w.Code != http.StatusTooManyRequests || a.Error.Code != "limited:quick" || a.RetryAfter < 1 || a.RetryAfter > 60 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits than accepted votes", n)
	}
}

// A vote that cannot be written down uses nothing up.
func TestVotesOnAFullDisk(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit once {
			by user
			max 1 per day
			max 1 per minute
		}`))
	rt := e.app.rt.Load()
	small, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 1, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close(t.Context())
	rules := small.Document(e.rules().Document())
	small.Append(t.Context(), hit.Hit{Kind: hit.View, List: "full", Item: "x", Time: 1, Rules: rules}) // is the byte
	full := &runtime{shards: 1, secrets: rt.secrets, limits: rt.limits, samples: rt.samples, visitors: rt.visitors, outcomes: rt.outcomes, outbox: small}
	before := counted("wishes", ruleset.DroppedQueueFull)
	e.app.rt.Store(full)
	body := `[{"list":"wishes","option":"a"},{"list":"wishes","option":"b"}]`
	w := castVote(e, body, "X-User", "ann")
	e.app.rt.Store(rt)
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w) != "unavailable" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
	}
	if got := counted("wishes", ruleset.DroppedQueueFull) - before; got != 2 {
		t.Errorf("%d drops, want 2", got)
	}
	if w := castVote(e, body, "X-User", "ann"); w.Code != http.StatusAccepted || !votesReply(t, w).Votes[0].Accepted || votesReply(t, w).Votes[1].Accepted {
		t.Errorf("got %d %s, want the first to be accepted", w.Code, w.Body)
	}
	if h := log.next(t); h.Item != "a" {
		t.Errorf("hit %+v", h)
	}
}

// Hits contain the data that an aggregator needs, and voters only as keyed hashes.
func TestVoteHits(t *testing.T) {
	log := startLog(t, 1)
	limits := `limit user {
			by user
			max 3 per day
			max 5 per campaign
			max 2 per second
		}
		limit channel {
			by channel
			max 1000 per month
			when channel app
		}`
	a := startPoll(t, log, pollSite(limits, "user_from_body"))
	b := startPoll(t, log, pollSite(limits, "user_from_body"))
	cast := func(e *edge, body, ip string, header ...string) hit.Hit {
		t.Helper()
		r := fetch(http.MethodPost, "/api/votes?utm_source=mail", body, header...)
		r.RemoteAddr = ip + ":1"
		if w := e.do(r); w.Code != http.StatusAccepted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return log.next(t)
	}
	const body = `{"list":"colours","option":"red"}`
	one := cast(a, body, "198.51.100.1", "X-User", "ann")
	if one.Kind != hit.Vote || one.List != "colours" || one.Item != "red" || one.Channel != "mail" || one.Confirm != 0 {
		t.Errorf("hit %+v", one)
	}
	var windows []string
	for _, q := range one.Quotas {
		windows = append(windows, q.Limit+"/"+q.Window)
	}
	if diff := cmp.Diff([]string{"user/day", "user/campaign"}, windows); diff != "" {
		t.Errorf("quotas (-want +got)\n%s", diff)
	}
	two := cast(b, body, "198.51.100.2", "X-User", "ann", "User-Agent", firefox+" another device")
	if two.Visitor != one.Visitor || !cmp.Equal(two.Quotas, one.Quotas) {
		t.Errorf("one user on two edges and devices is %+v and %+v", one, two)
	}
	named := cast(a, `{"list":"colours","option":"red","user":"ann","channel":"app"}`, "198.51.100.3")
	if named.Visitor != one.Visitor || named.Channel != "app" || len(named.Quotas) != 3 {
		t.Errorf("the same user, named in the body: %+v", named)
	}
	bob := cast(a, body, "198.51.100.1", "X-User", "bob")
	if bob.Visitor == one.Visitor || bob.Quotas[0].Key == one.Quotas[0].Key {
		t.Error("two users are one")
	}
	nobody, onB := cast(a, body, "198.51.100.1"), cast(b, body, "198.51.100.1")
	if nobody.Visitor == one.Visitor || nobody.Visitor != onB.Visitor || !cmp.Equal(nobody.Quotas, onB.Quotas) {
		t.Errorf("a visitor on two edges is %+v and %+v", nobody, onB)
	}
	other := cast(a, body, "198.51.100.9")
	if other.Visitor == nobody.Visitor || other.Quotas[0].Key == nobody.Quotas[0].Key {
		t.Error("two visitors are one")
	}
	long := strings.Repeat("token", 300)
	if cast(a, body, "198.51.100.1", "X-User", long+"1").Visitor == cast(a, body, "198.51.100.1", "X-User", long+"2").Visitor {
		t.Error("two users whose long names differ at the end are one")
	}
}

// A vote that aggregators do not count uses up nothing of the other limits: else
// whoever votes from the same place could not any more.
func TestVotesThatAreNotCountedUseNothingUp(t *testing.T) {
	log := startLog(t, 1)
	config := pollSite(`limit person {
			by user
			max 1 per campaign
			when list colours
		}
		limit office {
			by ip
			max 3 per campaign
			when list colours
		}`, "confirm 10s")
	one := startPoll(t, log, config)
	log.countVotes(t, one.rules())
	const red = `{"list":"colours","option":"red"}`
	cast := func(e *edge, user, ip string) voteResult {
		t.Helper()
		r := fetch(http.MethodPost, "/api/votes", red, "X-User", user)
		r.RemoteAddr = ip + ":1234"
		return votesReply(t, e.do(r)).Votes[0]
	}
	users := []string{"ann", "ben", "cat"}
	for _, user := range users {
		if v := cast(one, user, "192.0.2.1"); v.Verdict != "counted" {
			t.Fatalf("%s: %+v", user, v)
		}
	}
	two := startPoll(t, log, config) // which has received no outcome
	for _, user := range users {
		if v := cast(two, user, "198.51.100.7"); v.Verdict != "over_quota" {
			t.Fatalf("%s again: %+v", user, v)
		}
	}
	if v := cast(two, "dan", "198.51.100.7"); v.Verdict != "counted" {
		t.Errorf("the first who may vote there: %+v", v)
	}
	if v := cast(two, "ann", "203.0.113.1"); v.Reason != "limited:person" {
		t.Errorf("whose vote is known to be used up: %+v", v)
	}
}

// A vote that is not stored uses up nothing, also when the voter did not wait to
// hear so.
func TestVotesOfWhoHasGone(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(`limit once {
			by user
			max 1 per campaign
			when list colours
		}`))
	rt := e.app.rt.Load()
	closed, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 1})
	if err == nil {
		err = closed.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	e.app.rt.Store(&runtime{shards: 1, secrets: rt.secrets, limits: rt.limits, samples: rt.samples, visitors: rt.visitors, outcomes: rt.outcomes, outbox: closed})
	defer e.app.rt.Store(rt)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	vote := fetch(http.MethodPost, "/api/votes", `{"list":"colours","option":"red"}`, "X-User", "ann")
	e.do(vote.WithContext(ctx))
	if w := castVote(e, `{"list":"colours","option":"red"}`, "X-User", "ann"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("the same vote again: %d %s", w.Code, w.Body)
	}
}
