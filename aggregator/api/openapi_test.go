package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// held checks an exchange against the OpenAPI description. It checks only the
// answers of requests with mistakes.
func held(t *testing.T, router routers.Router, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	route, params, err := router.FindRoute(r)
	if err != nil {
		t.Errorf("%s: %v", r.URL, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
	if err := openapi3filter.ValidateRequest(t.Context(), in); (err == nil) != (w.Code != http.StatusBadRequest) {
		t.Errorf("%s was answered %d, but the description says: %v", r.URL, w.Code, err)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("%s: %v\n%s", r.URL, err, w.Body)
	}
}

func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.fill()
	var urls []string
	for _, list := range []string{"articles", "sums", "classic", "plain", "empty", "nope"} {
		for _, period := range []string{"hot", "hour", "day", "week", "month", "all"} {
			urls = append(urls, "/hot?explain=1&limit=1000&list="+list+"&period="+period,
				"/api/hot?offset=3&list="+list+"&period="+period+"&at=2026-11-20T13:00:00Z")
		}
		urls = append(urls, "/api/stats/"+list, "/api/boards/"+list+"/day", "/api/boards/"+list+"/hot?limit=2&explain=1&offset=1")
		for _, item := range []string{"2026%2Fitem%200", "2026%2Fitem%2011", "nope"} {
			urls = append(urls, "/api/items/"+list+"/"+item)
		}
	}
	urls = append(urls, "/hot?limit=0", "/hot?limit=x", "/api/boards/plain/year", "/api/boards/plain/day?limit=0", "/hot?period=year", "/hot?offset=-1", "/hot?offset=10001",
		"/hot?at=noon", "/hot?explain=maybe", "/hot?period=hour&at=2020-01-01T00:00:00Z")
	seen := map[int]int{}
	try := func(url string, header ...string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		w := f.get(url, header...)
		held(t, router, r, w)
		seen[w.Code]++
	}
	for _, url := range urls {
		try(url)
	}
	for _, q := range [][2]string{
		{"/api/items", `{"list":"articles","items":["2026/item 0","nope","2026/item 11"]}`},
		{"/api/items", `{"items":["x"],"list":"nope"}`}, {"/api/items", `{"items":[]}`}, {"/api/items", `{"items":["a"],"limit":1}`},
		{"/api/boards", `{"boards":[{"list":"sums","period":"day","limit":3,"offset":1,"at":"2026-11-20T12:00:00Z","explain":true},{"list":"nope"},{}]}`},
		{"/api/boards", `{"boards":[{"limit":0}]}`}, {"/api/boards", `{"boards":{}}`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, q[0], strings.NewReader(q[1]))
		r.Header.Set("Content-Type", "application/json")
		w := f.post(q[0], q[1])
		held(t, router, r, w)
		seen[w.Code]++
	}
	try("/hot", "If-None-Match", f.get("/hot").Header().Get("ETag"))
	f.Forget()
	f.store.err = errors.New("away")
	try("/hot")
	for _, code := range []int{200, 304, 400, 404, 503} {
		if seen[code] == 0 {
			t.Errorf("no answer %d was held to the description", code)
		}
	}
	if w := f.get(DescriptionPath); w.Code != 200 || !bytes.Equal(w.Body.Bytes(), OpenAPI) {
		t.Errorf("%s: %d", DescriptionPath, w.Code)
	}
}
