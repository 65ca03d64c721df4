package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/go-cmp/cmp"
)

// adminAsk asks the admin API of what runs in this process, and returns the status
// and the answer, or the error's message.
func adminAsk(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	var apiErr caddy.APIError
	if err := serveAdmin(w, r); errors.As(err, &apiErr) {
		return apiErr.HTTPStatus, apiErr.Err.Error()
	} else if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return w.Code, w.Body.String()
}

// adminRead is adminAsk for an answer of 200.
func adminRead[T any](t testing.TB, method, path, body string) (answer T) {
	t.Helper()
	status, text := adminAsk(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&answer); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return answer
}

type limitAnswer struct {
	Limit, List string
	Windows     []windowState
}

type limitsAnswer struct {
	Keys   int
	Limits []struct {
		Name    string
		Shadow  bool
		Refused map[string]int
	}
}

const adminLimitsConfig = `
	list adminpoll {
		votes *
	}
	list adminbots
	limit address {
		by ip
		max 3 per second burst 5
		max 10 per day
		when list admin
	}
	limit person {
		by user item
		max 2 per day
		max 4 per week
		when list adminpoll
	}
	limit dry {
		by visitor device channel
		max 1 per hour
		when list admin
		shadow
	}
	bots {
		count adminbots ai_crawler
	}
`

func TestAdminLimits(t *testing.T) {
	log := startLog(t, 1)
	e := startPoll(t, log, limited("admin", adminLimitsConfig, "user {header.X-User}", "lists admin adminpoll", "channel {query.c}"))
	stopClock(t)
	before := adminRead[limitsAnswer](t, "GET", "/hotboard/limits", "")
	for range 6 {
		e.do(browse("/admin/a"))
	}
	state := adminRead[limitAnswer](t, "POST", "/hotboard/limits/address", `{"ip":"192.0.2.1"}`)
	if len(state.Windows) != 2 || state.Limit != "address" || state.List != "admin" {
		t.Fatalf("state %+v", state)
	}
	rate, day := state.Windows[0], state.Windows[1]
	if rate.Per != "second" || rate.Max != 5 || rate.Remaining != 0 || !rate.Held {
		t.Errorf("the rate: %+v", rate)
	}
	if day.Per != "day" || day.Max != 10 || day.Remaining != 5 || !day.Held || day.ResetSeconds <= 0 || day.ResetSeconds > 86400 {
		t.Errorf("the day: %+v", day)
	}
	if other := adminRead[limitAnswer](t, "POST", "/hotboard/limits/address", `{"ip":"192.0.2.2"}`); other.Windows[1].Remaining != 10 || other.Windows[1].Held {
		t.Errorf("another address: %+v", other)
	}
	dry := adminRead[limitAnswer](t, "POST", "/hotboard/limits/dry", `{"ip":"192.0.2.1","user_agent":"`+firefox+`"}`)
	if dry.Windows[0].Remaining != 0 {
		t.Errorf("a limit in shadow: %+v", dry)
	}

	after := adminRead[limitsAnswer](t, "GET", "/hotboard/limits", "")
	if len(after.Limits) != 3 || after.Keys == 0 {
		t.Fatalf("limits %+v", after)
	}
	if l := after.Limits[0]; l.Name != "address" || l.Shadow || len(l.Refused) != 1 || l.Refused["admin"] != before.Limits[0].Refused["admin"]+1 {
		t.Errorf("limit %+v, and before %+v: want 1 view refused", l, before.Limits[0])
	}
	if l := after.Limits[2]; l.Name != "dry" || !l.Shadow || l.Refused["admin"] != before.Limits[2].Refused["admin"]+5 {
		t.Errorf("limit %+v, and before %+v: want that it would have refused 5", l, before.Limits[2])
	}

	if status, text := adminAsk(t, "DELETE", "/hotboard/limits/address", `{"ip":"192.0.2.1"}`); status != http.StatusNoContent || text != "" {
		t.Errorf("DELETE: %d %s", status, text)
	}
	if state := adminRead[limitAnswer](t, "POST", "/hotboard/limits/address", `{"ip":"192.0.2.1"}`); state.Windows[0].Remaining != 5 || state.Windows[1].Remaining != 10 {
		t.Errorf("after the reset: %+v", state)
	}

	t.Run("of a vote", func(t *testing.T) {
		vote := func(want int) {
			t.Helper()
			w := e.do(fetch(http.MethodPost, "/api/votes", `{"list":"adminpoll","option":"red"}`, "X-User", "anna"))
			if w.Code != want {
				t.Errorf("a vote: %d %s, want %d", w.Code, w.Body, want)
			}
		}
		vote(202)
		vote(202)
		vote(429)
		const anna = `{"user":"anna","item":"red"}`
		if s := adminRead[limitAnswer](t, "POST", "/hotboard/limits/person", anna); s.Windows[0].Remaining != 0 || s.Windows[1].Remaining != 2 || !s.Windows[0].Held {
			t.Errorf("state %+v", s)
		}
		adminAsk(t, "DELETE", "/hotboard/limits/person", anna)
		if s := adminRead[limitAnswer](t, "POST", "/hotboard/limits/person", anna); s.Windows[0].Remaining != 2 {
			t.Errorf("after the reset: %+v", s)
		}
		vote(202)
	})
}

func TestAdminSamples(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, limited("admin", adminLimitsConfig, "lists admin"))
	stopClock(t)
	for range 6 {
		e.do(browse("/admin/a"))
	}
	e.do(browse("/admin/b", "User-Agent", googlebot))
	type answer struct{ Samples []map[string]any }
	for query, want := range map[string]int{"": 7, "?reason=counted": 5, "?reason=limited": 1, "?reason=limited:address": 1,
		"?list=admin&limit=3": 3, "?reason=bot&list=admin": 1, "?reason=status": 0, "?list=adminpoll": 0} {
		if got := adminRead[answer](t, "GET", "/hotboard/samples"+query, ""); len(got.Samples) != want || got.Samples == nil {
			t.Errorf("%s: %d samples, want %d", query, len(got.Samples), want)
		}
	}
}

func TestAdminBots(t *testing.T) {
	log := startLog(t, 1)
	startEdge(t, log, limited("admin", adminLimitsConfig))
	type answer struct {
		Bot                   bool
		Class, Reason, Device string
		CountedOn             string `json:"counted_on"`
	}
	if v := adminRead[answer](t, "POST", "/hotboard/bots", `{"user_agent":"`+gptbot+`","ip":"192.0.2.1"}`); !v.Bot || v.Class != "ai_crawler" || v.Reason == "" || v.CountedOn != "adminbots" {
		t.Errorf("verdict %+v", v)
	}
	if v := adminRead[answer](t, "POST", "/hotboard/bots", `{"user_agent":"`+firefox+`"}`); v.Bot || v.Device != "desktop" || v.CountedOn != "" {
		t.Errorf("verdict %+v", v)
	}
	if v := adminRead[answer](t, "POST", "/hotboard/bots", `{"user_agent":""}`); !v.Bot || v.Class != "empty" {
		t.Errorf("verdict %+v", v)
	}
}

func TestAdminErrors(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, limited("admin", adminLimitsConfig))
	for _, tt := range []struct {
		request string
		body    string
		status  int
		says    string
	}{
		{"GET /hotboard/", "", 404, "/hotboard/samples"},
		{"GET /hotboard/nothing", "", 404, "/hotboard/samples"},
		{"POST /hotboard/samples", "", 405, "GET"},
		{"DELETE /hotboard/limits", "", 405, "GET"},
		{"GET /hotboard/limits/address", "", 405, "POST and DELETE"},
		{"GET /hotboard/bots", "", 405, "POST"},
		{"GET /hotboard/samples?limit=0", "", 400, "limit"},
		{"GET /hotboard/samples?limit=many", "", 400, "limit"},
		{"GET /hotboard/samples?raeson=bot", "", 400, "raeson"},
		{"GET /hotboard/samples?list=none", "", 404, "none"},
		{"POST /hotboard/limits/none", `{}`, 404, "none"},
		{"POST /hotboard/limits/address", ``, 400, "empty"},
		{"POST /hotboard/limits/address", `{`, 400, "body"},
		{"POST /hotboard/limits/address", `{"id":"192.0.2.1"}`, 400, "id"},
		{"POST /hotboard/limits/address", `{"ip":"192.0.2"}`, 400, "ip"},
		{"POST /hotboard/limits/address", `{}`, 400, "ip"},
		{"POST /hotboard/limits/address", `{"ip":"192.0.2.1","list":"adminpoll"}`, 400, "list"},
		{"POST /hotboard/limits/person", `{"user":"anna"}`, 400, "item"},
		{"POST /hotboard/limits/person", `{"item":"red"}`, 400, "user"},
		{"DELETE /hotboard/limits/dry", `{"ip":"192.0.2.1"}`, 400, "visitor"},
		{"POST /hotboard/limits/dry", `{"visitor":"x"}`, 400, "device"},
		{"POST /hotboard/bots", `{}`, 400, "user_agent"},
		{"POST /hotboard/bots", `{"user_agent":"x","ip":"y"}`, 400, "ip"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		if status, text := adminAsk(t, method, path, tt.body); status != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s %s: %d %s, want %d that names %s", tt.request, tt.body, status, text, tt.status, tt.says)
		}
	}
	if err := e.app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if status, _ := adminAsk(t, "GET", "/hotboard/limits", ""); status != http.StatusServiceUnavailable {
		t.Errorf("with nothing running: %d", status)
	}
}

// TestAdminIsPartOfCaddysAPI asks through Caddy's own listener.
func TestAdminIsPartOfCaddysAPI(t *testing.T) {
	log := startLog(t, 1)
	dir, err := os.MkdirTemp("", "hotboard") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "admin.sock")
	config := strings.NewReplacer("SOCKET", filepath.Join(dir, "site.sock"), "DIR", dir).Replace(liveSite("adminapi", natsBroker(log.url)))
	var cfg map[string]any
	if err := json.Unmarshal(adaptJSON(t, config), &cfg); err != nil {
		t.Fatal(err)
	}
	cfg["admin"] = map[string]any{"listen": "unix/" + socket, "config": map[string]any{"persist": false}}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(data, true); err != nil {
		t.Fatal(err)
	}
	defer caddy.Stop()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	for path, want := range map[string]string{"samples": `{"samples":[]}`, "limits": `"limits":[]`, "none": `{"error":"unknown path: use one of /hotboard/-/ready`, "-/ready": `{"ready":`} {
		resp, err := client.Get("http://caddy/hotboard/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, body, err)
		}
	}
}

// TestDocumentedAdmin: the commands in docs/admin.md work, and answers have the
// members that it shows.
func TestDocumentedAdmin(t *testing.T) {
	doc, err := os.ReadFile("../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	log := startLog(t, 1)
	e := startEdge(t, log, limited("articles", "limit address {\n by ip item\n max 10 per day\n }"))
	e.do(browse("/articles/rust-in-caddy", "User-Agent", gptbot))
	e.do(browse("/articles/rust-in-caddy"))
	curl := regexp.MustCompile(`(?m)^curl (?:-X (\w+) )?'?localhost:2019([^' \n]+)'?(?: -d '(.*)')?$`)
	commands := curl.FindAllSubmatchIndex(doc, -1)
	if len(commands) != bytes.Count(doc, []byte("\ncurl ")) || len(commands) < 5 {
		t.Fatalf("%d of %d commands are understood", len(commands), bytes.Count(doc, []byte("\ncurl ")))
	}
	for i, at := range commands {
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return string(doc[at[2*n]:at[2*n+1]])
		}
		method, body := part(1), part(3)
		switch {
		case method == "" && body != "":
			method = http.MethodPost
		case method == "":
			method = http.MethodGet
		}
		status, answer := adminAsk(t, method, part(2), body)
		if status != http.StatusOK && status != http.StatusNoContent {
			t.Errorf("%s: %d %s", doc[at[0]:at[1]], status, answer)
			continue
		}
		rest := doc[at[1]:]
		if i+1 < len(commands) {
			rest = doc[at[1]:commands[i+1][0]]
		}
		_, example, ok := bytes.Cut(rest, []byte("```json\n"))
		if !ok {
			continue
		}
		example, _, _ = bytes.Cut(example, []byte("```"))
		var want, got any
		if err := json.Unmarshal(example, &want); err != nil {
			t.Errorf("%s: %v", example, err)
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		if diff := cmp.Diff(membersOf(want), membersOf(got)); diff != "" {
			t.Errorf("%s: the answer has other members (-documented +answered):\n%s", doc[at[0]:at[1]], diff)
		}
	}
}

// membersOf returns a JSON value with its numbers and texts left out.
func membersOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = membersOf(v[name])
		}
		return v
	case []any:
		for i := range v {
			v[i] = membersOf(v[i])
		}
		return v
	}
	return nil
}
