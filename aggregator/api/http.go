package api

import (
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// OpenAPI describes the reading API, as YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

// DescriptionPath is where ServeHTTP serves [OpenAPI].
const DescriptionPath = "/openapi.yaml"

// ServeHTTP serves the paths that [Serves] names, and [DescriptionPath].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	allowed := methods(path)
	if !slices.Contains(allowed, r.Method) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		WriteError(w, &Error{http.StatusMethodNotAllowed, "method_not_allowed", "This path is asked with " + strings.Join(allowed, " or ") + "."})
		return
	}
	if r.URL.Path == DescriptionPath {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(OpenAPI) // the client's loss
		return
	}
	var body []byte
	post := r.Method == http.MethodPost
	if post {
		var err error
		// One byte more than there may be: too long a body is refused with the rest.
		if body, err = io.ReadAll(io.LimitReader(r.Body, MaxBodyBytes+1)); err != nil {
			WriteError(w, badRequest("bad_body", "The body did not come to its end."))
			return
		}
	}
	ans, left := a.answer(r.Context(), hit.Query{Path: path, Query: r.URL.RawQuery, Body: body})
	h := w.Header()
	h.Set("Cache-Control", cacheControl(ans.status, left, a.Slice))
	switch {
	case post:
		h.Set("Cache-Control", "no-store") // caches know a question by its URL
	case ans.etag != "":
		h.Set("ETag", ans.etag)
		if matches(r.Header.Values("If-None-Match"), ans.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if ans.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	write(w, ans)
}

// WriteError answers a request with an error, in the form that all of the
// reading API's errors have.
func WriteError(w http.ResponseWriter, e *Error) { write(w, failure(e)) }

func write(w http.ResponseWriter, ans answer) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(ans.status)
	_, _ = w.Write(ans.body) // the client's loss
}

// cacheControl lets caches keep an answer until its time slice ends, and serve
// it a little longer while they ask for the next one (RFC 5861).
func cacheControl(status int, left, slice time.Duration) string {
	if status != http.StatusOK {
		return "no-store"
	}
	seconds := func(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
	return fmt.Sprintf("public, max-age=%d, stale-while-revalidate=%d", seconds(left), max(5, 2*seconds(slice)))
}

// matches compares entity tags weakly, as If-None-Match does (RFC 9110, 13.1.2).
func matches(headers []string, etag string) bool {
	for _, h := range headers {
		for tag := range strings.SplitSeq(h, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}
