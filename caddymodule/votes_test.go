package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// pollSite is a Caddyfile with polls of all sorts; the site knows a user by the
// header X-User.
func pollSite(limits string, options ...string) string {
	return `{
	hotboard {
		dir DIR
		NATS
		list articles {
			page /{id}
		}
		list colours {
			votes red green blue
			zone Europe/Berlin
		}
		list wishes {
			votes *
		}
		list members {
			votes yes no {
				require_user
			}
		}
		list over {
			votes yes no {
				closes 2020-01-01T00:00:00Z
			}
		}
		list later {
			votes yes no {
				opens 2999-01-01T00:00:00Z
			}
		}
		list elsewhere {
			votes *
		}
		` + limits + `
	}
}
http:// {
	hotboard {
		lists articles colours wishes members over later
		user {header.X-User}
		channel {query.utm_source}
		` + strings.Join(options, "\n\t\t") + `
	}
	test_origin
}`
}

// startPoll starts an edge that shares its secrets.
func startPoll(t testing.TB, log *natsLog, config string) *edge {
	t.Helper()
	e := startEdge(t, log, config)
	settle(t, "the secrets", func() bool { return shares(e) })
	return e
}

// shares reports whether an edge has all the secrets that it needs.
func shares(e *edge) bool {
	return e.app.rt.Load().secrets.AllShared()
}

func votesReply(t testing.TB, w *httptest.ResponseRecorder) votesAnswer {
	t.Helper()
	var a votesAnswer
	dec := json.NewDecoder(strings.NewReader(w.Body.String()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		t.Fatalf("the body %q: %v", w.Body, err)
	}
	return a
}

func castVote(e *edge, body string, header ...string) *httptest.ResponseRecorder {
	return e.do(fetch(http.MethodPost, "/api/votes", body, header...))
}

// A refused vote is not stored, and no limit charges it.
func TestVotes(t *testing.T) {
	log := startLog(t, 1)
	config := pollSite(`limit one {
			by item channel
			max 1 per campaign
			when list members
		}`)
	e := startPoll(t, log, config)
	trusted := startPoll(t, log, strings.Replace(config, "user {header.X-User}", "user {header.X-User}\n user_from_body", 1))
	friendly := startPoll(t, log, strings.Replace(config, "user {header.X-User}", "allow_origins https://friend.example", 1))

	const red = `{"list":"colours","option":"red"}`
	long := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(red+",", n), ",") + "]" }
	stored := 0 // hits
	for _, tt := range []struct {
		name   string
		edge   *edge  // default e
		method string // default POST
		body   string // default red
		header []string
		status int    // default 202
		code   string // of the error
		votes  int    // accepted; default 1 where there is no code
	}{
		{name: "a vote"},
		{name: "with a charset", header: []string{"Content-Type", "application/json; charset=utf-8"}},
		{name: "several", body: `[` + red + `,{"list":"wishes","option":"peace"},{"list":"colours","option":"blue","more":1}]`, votes: 3},
		{name: "an array of one", body: `[` + red + `]`},
		{name: "any option", body: `{"list":"wishes","option":"né à/1"}`},
		{name: "no browser", header: []string{"Sec-Fetch-Site", "", "Sec-Fetch-Dest", ""}},
		{name: "the site's own origin", header: []string{"Sec-Fetch-Site", "", "Origin", "http://example.com"}},
		{name: "another origin of the site", header: []string{"Sec-Fetch-Site", "same-site", "Origin", "http://shop.example.com"}},
		{name: "who is signed in", body: `{"list":"members","option":"yes"}`, header: []string{"X-User", "ann"}},
		{name: "who is signed in, by name", body: `{"list":"members","option":"no","user":"ann"}`, header: []string{"X-User", "ann"}},
		{name: "a channel", body: `{"list":"colours","option":"red","channel":"partner.example"}`},
		{name: "who asks not to be counted", header: []string{"Sec-Gpc", "1", "Dnt", "1"}},
		{name: "an allowed site", edge: friendly, header: []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://friend.example"}},
		{name: "the site's server for its user", edge: trusted, body: `{"list":"members","option":"yes","user":"bob","channel":"app"}`, header: []string{"User-Agent", "Go-http-client/2.0"}},

		{name: "GET", method: "GET", status: 405, code: "method_not_allowed"},
		{name: "PUT", method: "PUT", status: 405, code: "method_not_allowed"},
		{name: "no body", body: " ", status: 400, code: "bad_json"},
		{name: "not JSON", body: "list=colours&option=red", status: 400, code: "bad_json"},
		{name: "cut short", body: `{"list":"colours"`, status: 400, code: "bad_json"},
		{name: "two values", body: red + red, status: 400, code: "bad_json"},
		{name: "a number", body: `{"list":"colours","option":7}`, status: 400, code: "bad_json"},
		{name: "not UTF-8", body: "{\"list\":\"wishes\",\"option\":\"\xff\"}", status: 400, code: "bad_json"},
		{name: "an empty array", body: `[]`, status: 400, code: "empty"},
		{name: "null", body: `null`, status: 400, code: "list_required"},
		{name: "no list", body: `{"option":"red"}`, status: 400, code: "list_required"},
		{name: "no such list", body: `{"list":"colors","option":"red"}`, status: 400, code: "unknown_list"},
		{name: "another site's list", body: `{"list":"elsewhere","option":"red"}`, status: 400, code: "unknown_list"},
		{name: "a list of pages", body: `{"list":"articles","option":"red"}`, status: 400, code: "not_a_poll"},
		{name: "no option", body: `{"list":"colours"}`, status: 400, code: "bad_item"},
		{name: "a long option", body: `{"list":"wishes","option":"` + long(257) + `"}`, status: 400, code: "bad_item"},
		{name: "a control character", body: `{"list":"wishes","option":"a\u0000"}`, status: 400, code: "bad_item"},
		{name: "no such option", body: `{"list":"colours","option":"pink"}`, status: 400, code: "unknown_item"},
		{name: "the star itself is no option", body: `{"list":"colours","option":"*"}`, status: 400, code: "unknown_item"},
		{name: "a poll that is over", body: `{"list":"over","option":"yes"}`, status: 409, code: "closed"},
		{name: "a poll to come", body: `{"list":"later","option":"yes"}`, status: 409, code: "not_open"},
		{name: "nobody", body: `{"list":"members","option":"yes"}`, status: 401, code: "user_required"},
		{name: "a user of one's own making", body: `{"list":"colours","option":"red","user":"ann"}`, status: 403, code: "user_not_allowed"},
		{name: "another user", body: `{"list":"colours","option":"red","user":"bob"}`, header: []string{"X-User", "ann"}, status: 403, code: "user_mismatch"},
		{name: "another user, from the site's server", edge: trusted, body: `{"list":"colours","option":"red","user":"bob"}`, header: []string{"X-User", "ann"}, status: 403, code: "user_mismatch"},
		{name: "a long user", edge: trusted, body: `{"list":"colours","option":"red","user":"` + long(257) + `"}`, status: 400, code: "bad_user"},
		{name: "a user with a control character", edge: trusted, body: `{"list":"colours","option":"red","user":"a\n"}`, status: 400, code: "bad_user"},
		{name: "a long channel", body: `{"list":"colours","option":"red","channel":"` + long(65) + `"}`, status: 400, code: "bad_channel"},
		{name: "101 votes", body: many(101), status: 400, code: "too_many_votes"},
		{name: "a large body", body: `{"list":"colours","option":"red","more":"` + long(64<<10) + `"}`, status: 413, code: "body_too_large"},
		{name: "a form", body: red, header: []string{"Content-Type", "text/plain"}, status: 415, code: "unsupported_media_type"},
		{name: "another form", body: "list=colours", header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type"},
		{name: "no type", body: red, header: []string{"Content-Type", ""}, status: 415, code: "unsupported_media_type"},
		{name: "a type that says more", body: red, header: []string{"Content-Type", "text/plain; application/json"}, status: 415, code: "unsupported_media_type"},
		{name: "another site", header: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, code: "cross_site"},
		{name: "another site's old browser", header: []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, status: 403, code: "cross_site"},
		{name: "a file", header: []string{"Sec-Fetch-Site", "", "Origin", "null"}, status: 403, code: "cross_site"},
		{name: "not the allowed site", edge: friendly, header: []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, status: 403, code: "cross_site"},
		{name: "another site's form", header: []string{"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}, status: 403, code: "cross_site"},
		{name: "a bot", header: []string{"User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)"}, status: 403, code: "bot"},
		{name: "no User-Agent", header: []string{"User-Agent", ""}, status: 403, code: "bot"},
		{name: "a program that signs in", header: []string{"User-Agent", "curl/8.5.0", "X-User", "ann"}, status: 403, code: "bot"},
		{name: "the site's server without a user", edge: trusted, header: []string{"User-Agent", "Go-http-client/2.0"}, status: 403, code: "bot"},
		{name: "a page that nobody sees yet", header: []string{"Sec-Purpose", "prefetch;prerender"}, status: 403, code: "speculative"},
		{name: "one of several is wrong", body: `[` + red + `,{"list":"colours","option":"pink"}]`, status: 400, code: "unknown_item"},
		{name: "one of several is over", body: `[` + red + `,` + red + `,{"list":"over","option":"yes"}]`, status: 409, code: "closed"},
		{name: "one more than the limit", body: `{"list":"members","option":"yes"}`, header: []string{"X-User", "cid"}, status: 429, code: "limited:one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.edge == nil {
				tt.edge = e
			}
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			if tt.body == "" {
				tt.body = red
			}
			if tt.status == 0 {
				tt.status = http.StatusAccepted
			}
			if tt.code == "" && tt.votes == 0 {
				tt.votes = 1
			}
			before, unknown := tt.edge.app.rt.Load().outbox.Stats().SpooledHits, counted("", ruleset.UnknownList)
			w := tt.edge.do(fetch(tt.method, "/api/votes", tt.body, tt.header...))
			if w.Code != tt.status {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, tt.status)
			}
			if got := int(tt.edge.app.rt.Load().outbox.Stats().SpooledHits - before); got != tt.votes {
				t.Errorf("%d votes are on disk when it is answered, want %d", got, tt.votes)
			}
			if (counted("", ruleset.UnknownList) > unknown) != (tt.code == string(ruleset.UnknownList)) {
				t.Error("the metric for unknown_list says otherwise")
			}
			stored += tt.votes
			switch {
			case tt.status == http.StatusTooManyRequests: // which TestLimitedVotes looks at
				if a := votesReply(t, w); a.Error.Code != tt.code {
					t.Errorf("got %s, want %s", w.Body, tt.code)
				}
			case tt.code != "":
				if got := errorCode(t, w); got != tt.code {
					t.Errorf("got %s, want %s", w.Body, tt.code)
				}
			default:
				a := votesReply(t, w)
				if !a.OK || len(a.Votes) != tt.votes || a.Error != nil {
					t.Errorf("got %s", w.Body)
				}
				for _, v := range a.Votes {
					if !v.Accepted || v.List == "" || v.Option == "" || v.Reason != "" || v.Verdict != "" {
						t.Errorf("got %+v", v)
					}
				}
			}
			if tt.status == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
			if retry := w.Header().Get("Retry-After"); (retry != "") != (tt.code == "not_open") {
				t.Errorf("Retry-After: %q", retry)
			}
		})
	}
	for range stored {
		if h := log.next(t); h.Kind != hit.Vote || h.Valid() != nil {
			t.Errorf("hit %+v", h)
		}
	}
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits than accepted votes", n)
	}
}

func TestVoteSaysWhichIsWrong(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(""))
	w := castVote(e, `[{"list":"colours","option":"red"},{"list":"colours","option":"pink"}]`)
	var p struct{ Error problemBody }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Error.Message != `Vote 2: The poll colours has no option "pink".` {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// The only poll of a site needs no name.
func TestTheOnlyPoll(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, strings.Replace(pollSite(""), "lists articles colours wishes members over later", "lists articles wishes", 1))
	if w := castVote(e, `{"option":"peace"}`); w.Code != http.StatusAccepted || votesReply(t, w).Votes[0].List != "wishes" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if h := log.next(t); h.List != "wishes" || h.Item != "peace" {
		t.Errorf("hit %+v", h)
	}
}

func TestVotePreflight(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite("", "allow_origins https://friend.example *"))
	for origin, credentials := range map[string]string{"https://friend.example": "true", "https://stranger.example": ""} {
		w := e.do(fetch(http.MethodOptions, "/api/votes", "", "Origin", origin, "Access-Control-Request-Method", "POST"))
		h := w.Header()
		if w.Code != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != origin || h.Get("Access-Control-Allow-Methods") != "POST" {
			t.Errorf("%s: %d %v", origin, w.Code, h)
		}
		if h.Get("Access-Control-Allow-Credentials") != credentials {
			t.Errorf("%s: may send cookies: %q, want %q", origin, h.Get("Access-Control-Allow-Credentials"), credentials)
		}
	}
}

func TestVoteMetrics(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, pollSite(""))
	for _, tt := range []struct {
		body   string
		header []string
		list   string
		reason ruleset.Reason
	}{
		{`{"list":"colours","option":"red"}`, nil, "colours", ruleset.Counted},
		{`{"list":"colours","option":"pink"}`, nil, "colours", ruleset.UnknownItem},
		{`{"list":"colours","option":"red"}`, []string{"User-Agent", "curl/8.5.0"}, "colours", ruleset.Bot},
		{`{"list":"over","option":"yes"}`, nil, "over", ruleset.Closed},
		{`{"list":"later","option":"yes"}`, nil, "later", ruleset.NotOpen},
		{`{"list":"members","option":"yes"}`, nil, "members", ruleset.UserRequired},
		{`{"list":"members","option":"yes","user":"x"}`, nil, "members", ruleset.UserNotAllowed},
	} {
		before := counted(tt.list, tt.reason)
		castVote(e, tt.body, tt.header...)
		if n := counted(tt.list, tt.reason) - before; n != 1 {
			t.Errorf("%s for %s: %d, want 1", tt.reason, tt.body, n)
		}
	}
}

func FuzzVotes(f *testing.F) {
	for _, body := range []string{
		`{"list":"colours","option":"red"}`, `[{"list":"wishes","option":"x","user":"u","channel":"c"},{"option":"y"}]`,
		`[]`, `null`, `[null]`, `{"option":7}`, "[[[[[[", `{"list":"wishes","option":"\ud800"}`, `{"LIST":"wishes","Option":"a"}`,
	} {
		f.Add([]byte(body))
	}
	log := startLog(f, 1)
	e := startPoll(f, log, pollSite(`limit few {
			by user item
			max 100 per day
		}`, "user_from_body"))
	h := provisionedHandler(f, e).current()
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		r := caddyhttp.PrepareRequest(fetch(http.MethodPost, "/api/votes", string(body)), caddy.NewReplacer(), w, e.Server)
		votes, _, p := readVotes(w, r)
		var ballots []ballot
		if p == nil {
			ballots, p = h.ballotsOf(r, votes)
		}
		if p != nil {
			if p.status < 400 || p.status > 499 || p.code == "" || p.message == "" {
				t.Errorf("%q was refused with %+v", body, p)
			}
			return
		}
		if !h.prepareHits(e.app.rt.Load(), ballots, ballots[0].client.time) {
			t.Fatal("a secret is missing")
		}
		for i := range ballots {
			b := &ballots[i]
			if err := b.hit.Valid(); err != nil || b.list.CheckVote(b.hit.Item, b.client.time) != "" || len(b.hit.Quotas) != 1 {
				t.Errorf("%q became %+v, which cannot be counted: %v", body, b.hit, err)
			}
		}
	})
}
