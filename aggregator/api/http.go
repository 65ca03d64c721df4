package api

import (
	_ "embed"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/internal/reading"
)

// OpenAPI describes the reading API, as YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

// DescriptionPath is where ServeHTTP serves [OpenAPI].
const DescriptionPath = "/openapi.yaml"

// ServeHTTP serves the paths that [reading.Serves] names, and [DescriptionPath].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if allowed := reading.Methods(path); !slices.Contains(strings.Split(allowed, ", "), r.Method) {
		w.Header().Set("Allow", allowed)
		WriteError(w, r, &reading.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "Method not allowed; use " + allowed + "."})
		return
	}
	if r.URL.Path == DescriptionPath {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(OpenAPI) // the client has gone away
		return
	}
	var body []byte
	if r.Method == http.MethodPost {
		var err error
		// One byte over the limit, so that Parse refuses a longer body.
		if body, err = io.ReadAll(io.LimitReader(r.Body, reading.MaxBodyBytes+1)); err != nil {
			WriteError(w, r, reading.BadRequest("bad_body", "The body is incomplete."))
			return
		}
	}
	var defaultList string
	if lists := a.Rules().Lists; len(lists) > 0 {
		defaultList = lists[0].Name
	}
	q, bad := reading.Parse(path, r.URL.RawQuery, body, defaultList)
	if bad != nil {
		WriteError(w, r, bad)
		return
	}
	ans := a.answer(r.Context(), q)
	if ans.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	ans.Write(w, r, ans.Holds)
}

// WriteError answers a request with an error, in the form of all errors of the
// reading API.
func WriteError(w http.ResponseWriter, r *http.Request, e *reading.Error) {
	e.Answer().Write(w, r, 0)
}
