package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// problem is a refusal: a status, a code for programs, and a sentence for people.
type problem struct {
	status     int
	code       string
	message    string
	retryAfter int    // seconds; 0: no advice
	allow      string // methods, of a 405
}

func (p *problem) Error() string { return p.message }

func refuse(status int, code, format string, args ...any) *problem {
	return &problem{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func methodNotAllowed(allow string) *problem {
	p := refuse(http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed; use %s.", allow)
	p.allow = allow
	return p
}

// unavailable is refuse for temporary problems.
func unavailable(retryAfter int, code, format string, args ...any) *problem {
	p := refuse(http.StatusServiceUnavailable, code, format, args...)
	p.retryAfter = retryAfter
	return p
}

// problemBody is a problem in a response body.
type problemBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// write answers with {"error":{"code":"…","message":"…"},"retry_after":…}.
func (p *problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		w.Header().Set("Allow", p.allow)
	}
	writeJSON(w, p.status, struct {
		Error      problemBody `json:"error"`
		RetryAfter int         `json:"retry_after,omitempty"`
	}{problemBody{p.code, p.message}, p.retryAfter})
}

// writeJSON answers with v and forbids caching.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil { // unreachable without a mistake in our types
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	w.Write(append(data, '\n')) // an error means that the visitor has disconnected
}
