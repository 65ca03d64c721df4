package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/reading"
)

// answerQueries plays the reading side of an aggregator.
func (l *natsLog) answerQueries(t testing.TB, answer func(*reading.Question) *reading.Answer) *nats.Subscription {
	t.Helper()
	return l.subscribe(t, hit.SubjectQuery, func(m *nats.Msg) {
		var q reading.Question
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Errorf("cannot read what the edge asks: %v", err)
			return
		}
		ans := answer(&q)
		reply := nats.NewMsg(m.Reply)
		reply.Header, reply.Data = ans.Header(), ans.Body
		m.RespondMsg(reply)
	})
}

func TestBoards(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("boards"))

	w := e.do(browse("/hot"))
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w) != "unavailable" || w.Header().Get("Retry-After") == "" {
		t.Fatalf("without an aggregator: %d %s %v", w.Code, w.Body, w.Header())
	}

	var asked atomic.Int32
	aggregator := log.answerQueries(t, func(q *reading.Question) *reading.Answer {
		asked.Add(1)
		if q.Requests[0].ID == "none" {
			return (&reading.Error{Status: 404, Code: "unknown_item", Message: "No."}).Answer()
		}
		body, _ := json.Marshal(q)
		return &reading.Answer{Status: 200, Body: body, ETag: `"content"`, Holds: time.Hour}
	})
	hot := reading.Request{Kind: reading.BoardOf, List: "boards", Period: "hot", Limit: 10, At: reading.NoTime}
	day, other := hot, hot
	day.Period, other.List = "day", "a b"
	for _, tt := range []struct {
		url  string
		want reading.Request
	}{
		{"/hot", hot}, // the only list
		{"/api/hot?period=day&list=boards", day},
		{"/hot?list=boards&period=day&limit=10", day}, // the same question
		{"/hot?list=a%20b", other},
		{"/api/items/boards/2026%2Fone/two", reading.Request{Kind: reading.ItemOf, List: "boards", ID: "2026/one/two", At: reading.NoTime}},
		{"/api/stats/boards", reading.Request{Kind: reading.StatsOf, List: "boards", At: reading.NoTime}},
	} {
		w := e.do(browse(tt.url))
		var q reading.Question
		if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", tt.url, w.Code, w.Body)
		}
		if len(q.Requests) != 1 || q.Requests[0] != tt.want || q.Several {
			t.Errorf("%s asked %+v, want %+v", tt.url, q, tt.want)
		}
		if cc := w.Header().Get("Cache-Control"); !strings.HasPrefix(cc, "public, max-age=3600, stale-while-revalidate=") {
			t.Errorf("%s: Cache-Control: %s", tt.url, cc)
		}
		if w.Header().Get(reading.StaleHeader) != "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", tt.url, w.Header())
		}
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("5 different questions were asked %d times", n)
	}

	t.Run("ETag", func(t *testing.T) {
		etag := e.do(browse("/hot")).Header().Get("Etag")
		if etag != `"content"` {
			t.Errorf("ETag %q: not the aggregator's, which outlasts a time slice", etag)
		}
		for _, header := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			w := e.do(browse("/hot", "If-None-Match", header))
			if w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("Etag") != etag {
				t.Errorf("If-None-Match: %s: %d %q %v", header, w.Code, w.Body, w.Header())
			}
		}
		if w := e.do(browse("/hot", "If-None-Match", `"x"`)); w.Code != http.StatusOK {
			t.Errorf("another ETag: %d", w.Code)
		}
	})
	t.Run("HEAD", func(t *testing.T) {
		r := browse("/hot")
		r.Method = http.MethodHead
		if w := e.do(r); w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
	})
	t.Run("the aggregator's refusal", func(t *testing.T) {
		w := e.do(browse("/api/items/boards/none"))
		if w.Code != http.StatusNotFound || errorCode(t, w) != "unknown_item" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
		}
	})
	for name, tt := range map[string]struct {
		request *http.Request
		status  int
		code    string
	}{
		"POST":         {fetch(http.MethodPost, "/hot", "{}"), 405, "method_not_allowed"},
		"a bad query":  {browse("/hot?list=%zz"), 400, "bad_query"},
		"a long path":  {browse("/api/items/boards/" + strings.Repeat("x", reading.MaxURLBytes)), 414, "query_too_long"},
		"a long query": {browse("/hot?list=" + strings.Repeat("x", reading.MaxURLBytes)), 414, "query_too_long"},
	} {
		t.Run(name, func(t *testing.T) {
			if w := e.do(tt.request); w.Code != tt.status || errorCode(t, w) != tt.code {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tt.status, tt.code)
			}
		})
	}
	t.Run("the aggregator goes away", func(t *testing.T) {
		if err := aggregator.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		if w := e.do(browse("/hot")); w.Code != http.StatusOK {
			t.Errorf("a known answer: %d %s", w.Code, w.Body)
		}
		if w := e.do(browse("/hot?list=other")); w.Code != http.StatusServiceUnavailable {
			t.Errorf("an unknown answer: %d %s", w.Code, w.Body)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("many"))
	var asked atomic.Int32
	log.answerQueries(t, func(q *reading.Question) *reading.Answer {
		asked.Add(1)
		body, _ := json.Marshal(q)
		return &reading.Answer{Status: 200, Body: body, ETag: `"x"`, Holds: time.Hour}
	})
	items := func(ids string) reading.Question {
		return reading.Question{Requests: []reading.Request{{Kind: reading.ItemsOf, List: "many", ID: ids, At: reading.NoTime}}}
	}
	boards := reading.Question{Several: true, Requests: []reading.Request{
		{Kind: reading.BoardOf, List: "other", Period: "hot", Limit: 10, At: reading.NoTime},
		{Kind: reading.BoardOf, List: "many", Period: "day", Limit: 3, At: reading.NoTime},
	}}
	for _, tt := range []struct {
		path, body string
		want       reading.Question
	}{
		{"/api/items", `{"list":"many","items":["a","b"]}`, items("a\x00b")},
		{"/api/items", ` { "items" : ["a", "b"] } `, items("a\x00b")}, // the only list; the same question
		{"/api/items", `{"list":"many","items":["b","a"]}`, items("b\x00a")},
		{"/api/boards", `{"boards":[{"list":"other"},{"period":"day","limit":3}]}`, boards},
	} {
		w := e.do(fetch(http.MethodPost, tt.path, tt.body))
		var q reading.Question
		if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", tt.path, tt.body, w.Code, w.Body)
		}
		if diff := cmp.Diff(tt.want, q); diff != "" {
			t.Errorf("%s %s asked (-want +got)\n%s", tt.path, tt.body, diff)
		}
		if cc := w.Header().Get("Cache-Control"); cc != "no-store" {
			t.Errorf("%s: Cache-Control: %s", tt.path, cc)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("3 different questions were asked %d times", n)
	}
	for name, tt := range map[string]struct {
		request *http.Request
		status  int
		code    string
	}{
		"GET":          {browse("/api/items"), 405, "method_not_allowed"},
		"no JSON":      {fetch(http.MethodPost, "/api/items", "items"), 400, "bad_json"},
		"null":         {fetch(http.MethodPost, "/api/items", "null"), 400, "bad_items"},
		"no boards":    {fetch(http.MethodPost, "/api/boards", `{"boards":"what?"}`), 400, "bad_json"},
		"two objects":  {fetch(http.MethodPost, "/api/items", "{}{}"), 400, "bad_json"},
		"an array":     {fetch(http.MethodPost, "/api/boards", "[]"), 400, "bad_json"},
		"a large body": {fetch(http.MethodPost, "/api/items", strings.Repeat(" ", maxBodyBytes+1)), 413, "body_too_large"},
		"a long query": {fetch(http.MethodPost, "/api/items?"+strings.Repeat("x", reading.MaxURLBytes), "{}"), 414, "query_too_long"},
	} {
		t.Run(name, func(t *testing.T) {
			if w := e.do(tt.request); w.Code != tt.status || errorCode(t, w) != tt.code {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tt.status, tt.code)
			}
		})
	}
}

func TestStaleBoard(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("stale"))
	aggregator := log.answerQueries(t, func(*reading.Question) *reading.Answer {
		return &reading.Answer{Status: 200, Body: []byte(`{"items":[]}`)}
	})
	if w := e.do(browse("/hot")); w.Code != http.StatusOK || w.Header().Get(reading.StaleHeader) != "" {
		t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if err := aggregator.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // asking fails once, and then is not tried again
		w := e.do(browse("/hot"))
		if w.Code != http.StatusOK || w.Header().Get(reading.StaleHeader) != "1" || w.Body.String() != `{"items":[]}` {
			t.Errorf("%d %s %v, want the last answer, marked stale", w.Code, w.Body, w.Header())
		}
	}
}

func TestPrefixOfAnyText(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/stats", "/métriques", "/my stats"} {
		h := &instance{Handler: &Handler{Prefix: prefix}}
		r := httptest.NewRequest(http.MethodPost, (&url.URL{Path: prefix + "/hot"}).EscapedPath(), nil)
		w := httptest.NewRecorder()
		if !h.serveEndpoint(w, r, r.URL) || w.Code != http.StatusMethodNotAllowed {
			t.Errorf("prefix %q: /hot is not served: %d", prefix, w.Code)
		}
	}
}
