package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/reading"
)

func TestBoardByItsPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	for path, same := range map[string]string{
		"/api/boards/plain/all?limit=3&offset=1": "/hot?list=plain&period=all&limit=3&offset=1",
		"/api/boards/articles/hot":               "/hot",
		"/api/boards/pl%61in/day?explain=0":      "/hot?list=plain&period=day",
	} {
		got, want := f.get(path), f.get(same)
		if got.Code != http.StatusOK || got.Body.String() != want.Body.String() || got.Header().Get("ETag") != want.Header().Get("ETag") {
			t.Errorf("%s: %d %s, want %s", path, got.Code, got.Body, want.Body)
		}
	}
}

// Several items in one call equal the single ones.
func TestManyItems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	for _, list := range []string{"articles", "sums", "classic", "plain"} {
		ids := []string{"2026/item 3", "nope", "2026/item 11", "2026/item 0", "2026/item 3"}
		body, err := json.Marshal(map[string]any{"list": list, "items": ids})
		if err != nil {
			t.Fatal(err)
		}
		w := f.post("/api/items", string(body))
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("ETag") != "" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		got := decode[struct {
			List  string
			Items []json.RawMessage
		}](t, w.Body.Bytes())
		if got.List != list || len(got.Items) != len(ids) {
			t.Fatalf("%s", w.Body)
		}
		for i, id := range ids {
			alone := f.get("/api/items/" + list + "/" + strings.ReplaceAll(id, " ", "%20"))
			want := strings.TrimSpace(alone.Body.String())
			if alone.Code == http.StatusNotFound {
				want = "null"
			}
			if string(got.Items[i]) != want {
				t.Errorf("%s of %s is %s, alone %s", id, list, got.Items[i], want)
			}
		}
	}
	// The list defaults to the first, and all spellings give the same question.
	a := f.ask("/api/items", "", `{"items":["2026/item 1"]}`)
	b := f.ask("/api/items", "", ` {"items": ["2026\/item 1"], "list": "articles"} `)
	if a.Status != 200 || string(a.Body) != string(b.Body) || a.ETag == "" || a.ETag != b.ETag || a.Holds <= 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	before := f.store.reads.Load()
	f.post("/api/items", `{"list":"articles","items":["2026/item 1"]}`)
	if n := f.store.reads.Load() - before; n != 0 {
		t.Errorf("a known answer took %d reads", n)
	}
	f.now = f.now.Add(time.Minute)
	if later := f.ask("/api/items", "", `{"items":["nope"]}`); later.ETag == a.ETag {
		t.Error("other items have the same entity tag")
	}
}

// Several boards in one call equal the single ones.
func TestManyBoards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	w := f.post("/api/boards", `{"boards":[{"list":"plain","period":"all","limit":3,"offset":1},{},{"list":"nope"},
		{"list":"sums","period":"hour"},{"period":"hour","at":"2026-11-20T10:59:59+01:00"},{"explain":true,"limit":1}]}`)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	got := decode[struct{ Boards []json.RawMessage }](t, w.Body.Bytes()).Boards
	want := []string{"/hot?list=plain&period=all&limit=3&offset=1", "/hot", "", "", "/hot?period=hour&at=2026-11-20T10:59:59%2B01:00", "/hot?explain=1&limit=1"}
	if len(got) != len(want) {
		t.Fatalf("%s", w.Body)
	}
	for i, url := range want {
		alone := "null"
		if url != "" {
			alone = strings.TrimSpace(f.get(url).Body.String())
		}
		if string(got[i]) != alone {
			t.Errorf("board %d is %s, alone %s", i, got[i], alone)
		}
	}
	a := f.ask("/api/boards", "", `{"boards":[{"list":"plain"}]}`)
	f.now = f.now.Add(time.Minute)
	if b := f.ask("/api/boards", "", `{"boards":[{"list":"plain","limit":10}]}`); a.ETag == "" || a.ETag != b.ETag {
		t.Errorf("entity tag %q, a minute later %q", a.ETag, b.ETag)
	}
	if b := f.ask("/api/boards", "", `{"boards":[{"list":"classic"}]}`); a.ETag == b.ETag {
		t.Error("another board has the same entity tag")
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	many := func(n int, one string) string { return strings.Join(slices.Repeat([]string{one}, n), ",") }
	for _, c := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/api/items", "", 400, "bad_json"},
		{"/api/items", "items", 400, "bad_json"},
		{"/api/items", "[]", 400, "bad_json"},
		{"/api/items", `{"items":["a"]}{}`, 400, "bad_json"},
		{"/api/items", `{"items":["a"],"limit":1}`, 400, "bad_json"},
		{"/api/items", `{"items":"a"}`, 400, "bad_json"},
		{"/api/items", `null`, 400, "bad_items"},
		{"/api/items", `{"items":[]}`, 400, "bad_items"},
		{"/api/items", `{"items":[` + many(reading.MaxItems+1, `"a"`) + `]}`, 400, "bad_items"},
		{"/api/items", `{"items":["a","b\u0000c"]}`, 400, "bad_item"},
		{"/api/items", `{"items":["a",null]}`, 400, "bad_item"},
		{"/api/items", `{"list":"nope","items":["a"]}`, 404, "unknown_list"},
		{"/api/items?list=plain", `{"items":["a"]}`, 400, "unknown_parameter"},
		{"/api/items", strings.Repeat(" ", reading.MaxBodyBytes+1), 413, "body_too_large"},
		{"/api/boards", `{"boards":[]}`, 400, "bad_boards"},
		{"/api/boards", `{"boards":[` + many(reading.MaxBoards+1, `{}`) + `]}`, 400, "bad_boards"},
		{"/api/boards", `{"boards":[{"limit":500},{"limit":501}]}`, 400, "bad_limit"},
		{"/api/boards", `{"boards":[{},{"limit":0}]}`, 400, "bad_limit"},
		{"/api/boards", `{"boards":[{"offset":-1}]}`, 400, "bad_offset"},
		{"/api/boards", `{"boards":[{"period":"year"}]}`, 400, "bad_period"},
		{"/api/boards", `{"boards":[{"at":"noon"}]}`, 400, "bad_at"},
		{"/api/boards", `{"boards":[{"limit":"3"}]}`, 400, "bad_json"},
	} {
		w := f.post(c.path, c.body)
		e := decode[struct{ Error reading.Error }](t, w.Body.Bytes()).Error
		if w.Code != c.status || e.Code != c.code || e.Message == "" {
			t.Errorf("%s %.60s: %d %s, want %d %s", c.path, c.body, w.Code, w.Body, c.status, c.code)
		}
		path, query, _ := strings.Cut(c.path, "?")
		if a := f.ask(path, query, c.body); a.Status != c.status || string(a.Body) != w.Body.String() {
			t.Errorf("%s %.60s: at an edge %d %s, over HTTP %d %s", c.path, c.body, a.Status, a.Body, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{"/api/items": "POST", "/api/boards": "POST", "/hot": "GET, HEAD"} {
		method := http.MethodGet
		if path == "/hot" {
			method = http.MethodPost
		}
		if w := f.do(method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != want {
			t.Errorf("%s %s: %d %v", method, path, w.Code, w.Header())
		}
	}
}

// An answer that is too large for an edge is refused, and not silently missing.
func TestAnswersFitIntoAMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("<", hit.MaxIDBytes-4) // six bytes each in JSON
	for i := range 600 {
		f.view("plain", fmt.Sprintf("%s%d", long, i), 0)
	}
	if a := f.ask("/hot", "list=plain&limit=1000", ""); a.Status != 400 || !strings.Contains(string(a.Body), "answer_too_large") || a.Holds != 0 {
		t.Errorf("%d, %d bytes", a.Status, len(a.Body))
	}
	if w := f.get("/hot?list=plain&limit=1000"); w.Code != 200 || len(decode[board.Board](t, w.Body.Bytes()).Items) != 600 {
		t.Errorf("over HTTP: %d", w.Code)
	}
}
