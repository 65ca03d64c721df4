package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// answerQueries plays the reading side of an aggregator.
func (l *natsLog) answerQueries(t testing.TB, answer func(hit.Query) hit.Answer) *nats.Subscription {
	t.Helper()
	return l.subscribe(t, hit.SubjectQuery, func(m *nats.Msg) {
		var q hit.Query
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Errorf("the edge asked what cannot be read: %v", err)
			return
		}
		data, _ := json.Marshal(answer(q))
		m.Respond(data)
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
	aggregator := log.answerQueries(t, func(q hit.Query) hit.Answer {
		asked.Add(1)
		if q.Path == "/api/items/boards/none" {
			return hit.Answer{Status: 404, Body: []byte(`{"error":{"code":"unknown_item","message":"No."}}`)}
		}
		body, _ := json.Marshal(q)
		return hit.Answer{Status: 200, Body: body, ETag: `"of the content"`, MaxAgeMillis: 3_600_000}
	})
	for _, tt := range []struct{ url, path, query string }{
		{"/hot", "/hot", "list=boards"}, // the only list
		{"/api/hot?period=day&list=boards", "/hot", "list=boards&period=day"},
		{"/hot?list=boards&period=day", "/hot", "list=boards&period=day"}, // the same question
		{"/hot?list=a%20b", "/hot", "list=a+b"},
		{"/api/items/boards/2026%2Fone/two", "/api/items/boards/2026%2Fone/two", ""},
		{"/api/stats/boards", "/api/stats/boards", ""},
	} {
		w := e.do(browse(tt.url))
		var q hit.Query
		if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", tt.url, w.Code, w.Body)
		}
		if q.Path != tt.path || q.Query != tt.query {
			t.Errorf("%s asked %+v, want %s and %s", tt.url, q, tt.path, tt.query)
		}
		if cc := w.Header().Get("Cache-Control"); !strings.HasPrefix(cc, "max-age=3599, stale-while-revalidate=") {
			t.Errorf("%s: Cache-Control: %s", tt.url, cc)
		}
		if w.Header().Get(staleHeader) != "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", tt.url, w.Header())
		}
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("5 different questions were asked %d times", n)
	}

	t.Run("ETag", func(t *testing.T) {
		etag := e.do(browse("/hot")).Header().Get("Etag")
		if etag != `"of the content"` {
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
		"a long path":  {browse("/api/items/boards/" + strings.Repeat("x", maxQueryBytes)), 414, "query_too_long"},
		"a long query": {browse("/hot?list=" + strings.Repeat("x", maxQueryBytes)), 414, "query_too_long"},
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
	log.answerQueries(t, func(q hit.Query) hit.Answer {
		asked.Add(1)
		body, _ := json.Marshal(q)
		return hit.Answer{Status: 200, Body: body, ETag: `"x"`, MaxAgeMillis: 3_600_000}
	})
	for _, tt := range []struct{ path, body, want string }{
		{"/api/items", `{"list":"many","items":["a","b"]}`, `{"items":["a","b"],"list":"many"}`},
		{"/api/items", ` { "items" : ["a", "b"] } `, `{"items":["a","b"],"list":"many"}`}, // the only list; the same question
		{"/api/items", `{"list":"many","items":["b","a"]}`, `{"items":["b","a"],"list":"many"}`},
		{"/api/boards", `{"boards":[{"list":"other"},{"period":"day","limit":3}]}`, `{"boards":[{"list":"other"},{"limit":3,"list":"many","period":"day"}]}`},
		{"/api/boards", `{"boards":"what?","limit":1e400}`, `{"boards":"what?","limit":1e400}`}, // which the aggregator refuses
	} {
		w := e.do(fetch(http.MethodPost, tt.path, tt.body))
		var q hit.Query
		if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", tt.path, tt.body, w.Code, w.Body)
		}
		if q.Path != tt.path || string(q.Body) != tt.want {
			t.Errorf("%s %s asked %s %s, want %s", tt.path, tt.body, q.Path, q.Body, tt.want)
		}
		if cc := w.Header().Get("Cache-Control"); cc != "no-store" {
			t.Errorf("%s: Cache-Control: %s", tt.path, cc)
		}
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("4 different questions were asked %d times", n)
	}
	for name, tt := range map[string]struct {
		request *http.Request
		status  int
		code    string
	}{
		"GET":          {browse("/api/items"), 405, "method_not_allowed"},
		"no JSON":      {fetch(http.MethodPost, "/api/items", "items"), 400, "bad_json"},
		"null":         {fetch(http.MethodPost, "/api/items", "null"), 400, "bad_json"},
		"two objects":  {fetch(http.MethodPost, "/api/items", "{}{}"), 400, "bad_json"},
		"an array":     {fetch(http.MethodPost, "/api/boards", "[]"), 400, "bad_json"},
		"a large body": {fetch(http.MethodPost, "/api/items", strings.Repeat(" ", maxBodyBytes+1)), 413, "body_too_large"},
		"a long query": {fetch(http.MethodPost, "/api/items?"+strings.Repeat("x", maxQueryBytes), "{}"), 414, "query_too_long"},
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
	aggregator := log.answerQueries(t, func(hit.Query) hit.Answer {
		return hit.Answer{Status: 200, Body: []byte(`{"items":[]}`), MaxAgeMillis: 0}
	})
	if w := e.do(browse("/hot")); w.Code != http.StatusOK || w.Header().Get(staleHeader) != "" {
		t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if err := aggregator.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // asking fails once, and then is not tried again
		w := e.do(browse("/hot"))
		if w.Code != http.StatusOK || w.Header().Get(staleHeader) != "1" || w.Body.String() != `{"items":[]}` {
			t.Errorf("%d %s %v, want the last answer, marked stale", w.Code, w.Body, w.Header())
		}
	}
}

func FuzzCanonicalQuery(f *testing.F) {
	f.Add("list=a&period=day")
	f.Add("b=1&a=2&a=1&%3d=;")
	h := &Handler{lists: []*ruleset.List{{Name: "only"}}}
	f.Fuzz(func(t *testing.T, raw string) {
		once, p := h.canonicalQuery("/hot", raw)
		if p != nil {
			return
		}
		if !strings.Contains(once, "list=") {
			t.Errorf("%q became %q, without a list", raw, once)
		}
		if len(once) > maxQueryBytes/2 {
			return // escaping may have made it too long
		}
		if twice, p := h.canonicalQuery("/hot", once); p != nil || twice != once {
			t.Errorf("%q became %q, and that %q, %v", raw, once, twice, p)
		}
	})
}

func FuzzCanonicalBody(f *testing.F) {
	f.Add(itemsPath, []byte(`{"list":"a","items":["a\u0000","b"]}`))
	f.Add(boardsPath, []byte(`{"boards":[{"limit":1e99},null,{"list":null}]}`))
	h := &Handler{lists: []*ruleset.List{{Name: "only"}}}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		once, p := h.canonicalBody(path, body)
		if p != nil {
			return
		}
		if twice, p := h.canonicalBody(path, once); p != nil || string(twice) != string(once) {
			t.Errorf("%q became %q, and that %q, %v", body, once, twice, p)
		}
	})
}

func TestPrefixOfAnyText(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/stats", "/métriques", "/my stats"} {
		h := &Handler{Prefix: prefix}
		r := httptest.NewRequest(http.MethodPost, (&url.URL{Path: prefix + "/hot"}).EscapedPath(), nil)
		w := httptest.NewRecorder()
		if !h.serveEndpoint(w, r, r.URL) || w.Code != http.StatusMethodNotAllowed {
			t.Errorf("prefix %q: /hot is not served: %d", prefix, w.Code)
		}
	}
}
