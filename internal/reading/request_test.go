package reading

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/hit"
)

// Spellings of one question share a key, and no two questions do.
func TestKey(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, same := range [][][3]string{
		{{"/hot", "", ""}, {"/api/hot", "list=first", ""}, {"/hot", "offset=0&limit=10&explain=false", ""}, {"/api/boards/first/hot", "", ""}},
		{{"/hot", "list=a", ""}, {"/hot", "list=%61", ""}},
		{{"/hot", "explain=1", ""}},
		{{"/hot", "period=day&at=2026-11-20T12:00:00Z", ""}, {"/hot", "at=2026-11-20T13:00:00%2B01:00&period=day", ""}},
		{{"/hot", "period=day", ""}},
		{{"/api/boards", "", `{"boards":[{}]}`}, {"/api/boards", "", ` {"boards":[{"list":"first","limit":10}]}`}},
		{{"/api/boards", "", `{"boards":[{},{}]}`}},
		{{"/api/items", "", `{"items":["a","b"]}`}, {"/api/items", "", `{"list":"first", "items": ["\u0061","b"]}`}},
		{{"/api/items", "", `{"items":["b","a"]}`}},
		{{"/api/items/first/a", "", ""}},
		{{"/api/stats/first", "", ""}},
	} {
		for _, s := range same {
			q, bad := Parse(s[0], s[1], []byte(s[2]), "first")
			if bad != nil {
				t.Fatal(s, bad)
			}
			if n, ok := seen[q.Key()]; ok && n != i {
				t.Errorf("%v has the key of another question: %s", s, q.Key())
			} else if !ok && len(seen) != i {
				t.Errorf("%v has a key of its own: %s", s, q.Key())
			}
			seen[q.Key()] = i
		}
	}
}

// An edge reads the answer that an aggregator sent.
func TestAnswerTravels(t *testing.T) {
	t.Parallel()
	want := &Answer{Status: 200, Body: []byte("{}"), ETag: `W/"x"`, Holds: 700 * time.Millisecond}
	got, err := ReadAnswer(want.Header(), want.Body)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for name, header := range map[string]map[string][]string{
		"none":       nil,
		"no status":  {headerHolds: {"1"}},
		"bad status": {headerStatus: {"99"}, headerHolds: {"1"}},
		"no time":    {headerStatus: {"200"}},
	} {
		if got, err := ReadAnswer(header, nil); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	ok := &Answer{Status: 200, Body: []byte(`{"items":[]}`), ETag: `W/"x"`}
	for name, tc := range map[string]struct {
		answer       *Answer
		method, none string // If-None-Match
		left         time.Duration
		status       int
		body, cache  string
	}{
		"new":             {ok, "GET", "", 1500 * time.Millisecond, 200, `{"items":[]}`, "public, max-age=2, stale-while-revalidate=60"},
		"nothing is left": {ok, "GET", `"y"`, 0, 200, `{"items":[]}`, "public, max-age=1, stale-while-revalidate=60"},
		"known":           {ok, "GET", `"y", "x"`, time.Second, 304, "", "public, max-age=1, stale-while-revalidate=60"},
		"any":             {ok, "GET", `*`, time.Second, 304, "", "public, max-age=1, stale-while-revalidate=60"},
		"HEAD":            {ok, "HEAD", "", time.Second, 200, "", "public, max-age=1, stale-while-revalidate=60"},
		"POST":            {ok, "POST", `"x"`, time.Second, 200, `{"items":[]}`, "no-store"},
		"error":           {BadRequest("bad", "No.").Answer(), "GET", "", 0, 400, `{"error":{"code":"bad","message":"No."}}` + "\n", "no-store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tc.method, "/hot", nil)
			if tc.none != "" {
				r.Header.Set("If-None-Match", tc.none)
			}
			w := httptest.NewRecorder()
			tc.answer.Write(w, r, tc.left)
			if w.Code != tc.status || w.Body.String() != tc.body || w.Header().Get("Cache-Control") != tc.cache {
				t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
			}
			if tag := w.Header().Get("ETag"); tc.cache != "no-store" && tag != ok.ETag {
				t.Errorf("ETag %q", tag)
			}
			if w.Code == http.StatusOK && w.Header().Get("Content-Length") != "12" {
				t.Errorf("Content-Length %q", w.Header().Get("Content-Length"))
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range [][3]string{
		{"/hot", "list=a&period=day&limit=5&offset=2&at=2026-11-20T12:00:00Z&explain=1", ""},
		{"/api/hot", "limit=1001", ""}, {"/api/items/a/b/c", "", ""}, {"/api/stats/a", "x=%zz", ""}, {"/x", "&&;", ""},
		{"/api/boards/a/day", "limit=3", ""}, {"/api/boards/", "", ""}, {"/api/items", "", `{"list":"a","items":["b","c/d"]}`},
		{"/api/boards", "", `{"boards":[{"list":"a","period":"day","limit":3,"offset":1,"at":"2026-11-20T12:00:00Z","explain":true},{}]}`},
		{"/api/boards", "", `{"boards":[{"limit":0}]} x`},
	} {
		f.Add(s[0], s[1], []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, path, query string, body []byte) {
		q, bad := Parse(path, query, body, "first")
		if bad != nil {
			if bad.Status < 400 || bad.Status > 499 || bad.Code == "" || bad.Message == "" {
				t.Fatalf("%+v", bad)
			}
			if body := bad.Answer().Body; !json.Valid(body) {
				t.Fatalf("not JSON: %s", body)
			}
			return
		}
		rows := 0
		for _, r := range q.Requests {
			switch r.Kind {
			case BoardOf:
				if r.Limit < 1 || r.Limit > MaxLimit || r.Offset < 0 || r.Offset > MaxOffset || r.List == "" || r.Period == "" {
					t.Fatalf("%+v", r)
				}
				if at := r.Time(); !at.IsZero() && (at.Year() < 1970 || at.Year() > 9999) {
					t.Fatalf("%+v", r)
				}
				rows += r.Limit
			case ItemOf, ItemsOf:
				ids := strings.Split(r.ID, "\x00")
				if len(ids) > MaxItems || r.Kind == ItemOf && len(ids) != 1 {
					t.Fatalf("%d items", len(ids))
				}
				for _, id := range ids {
					if hit.ValidID(id) != nil {
						t.Fatalf("%+v", r)
					}
				}
			}
		}
		wire, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var again Question
		if err := json.Unmarshal(wire, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(q, &again); diff != "" && utf8.ValidString(q.Requests[0].List) {
			t.Fatalf("%s\n%s", wire, diff)
		}
		if len(q.Requests) < 1 || len(q.Requests) > MaxBoards || rows > MaxLimit {
			t.Fatalf("%d requests for %d rows", len(q.Requests), rows)
		}
	})
}
