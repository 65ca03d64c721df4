package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// StaleHeader marks an answer that may be out of date, because the edge reaches no
// aggregator.
const StaleHeader = "Hotboard-Stale"

// staleWhileRevalidate is how long, in seconds, a cache may serve an answer while
// it fetches the next one (RFC 5861).
const staleWhileRevalidate = 60

// Error is the reason why a question has no answer.
type Error struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`    // for programs; stable
	Message string `json:"message"` // one sentence for people
}

// BadRequest returns an error with the status 400.
func BadRequest(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Answer returns the error as an answer that caches must not keep.
func (e *Error) Answer() *Answer {
	body, err := json.Marshal(map[string]*Error{"error": e})
	if err != nil { // two strings
		panic(err)
	}
	return &Answer{Status: e.Status, Body: append(body, '\n')}
}

// Answer is the reply to a [Question].
type Answer struct {
	Status int
	Body   []byte // JSON
	// ETag is the entity tag of the body, as in the HTTP header. It changes with the
	// content, but not with the time of generation. Errors have none.
	ETag string
	// Holds is the rest of the answer's time slice: how long it may be reused.
	Holds time.Duration
}

// Headers of an answer that travels from an aggregator to an edge.
const (
	headerStatus = "Hotboard-Status"
	headerETag   = "Etag"
	headerHolds  = "Hotboard-Holds-Ms"
)

// Header returns everything but the body, for the message to an edge.
func (a *Answer) Header() map[string][]string {
	return map[string][]string{
		headerStatus: {strconv.Itoa(a.Status)},
		headerETag:   {a.ETag},
		headerHolds:  {strconv.FormatInt(a.Holds.Milliseconds(), 10)},
	}
}

// ReadAnswer is the inverse of [Answer.Header]. It is strict, so that it cannot
// mistake an error for an empty answer.
func ReadAnswer(header map[string][]string, body []byte) (*Answer, error) {
	get := func(name string) string {
		if v := header[name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	status, err := strconv.Atoi(get(headerStatus))
	holds, err2 := strconv.ParseInt(get(headerHolds), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("reading an aggregator's answer: %w", err)
	}
	if status < 200 || status > 599 {
		return nil, fmt.Errorf("reading an aggregator's answer: %d is not a status", status)
	}
	return &Answer{Status: status, Body: body, ETag: get(headerETag), Holds: time.Duration(holds) * time.Millisecond}, nil
}

// Write sends the answer to an HTTP request. left is how long it still holds.
func (a *Answer) Write(w http.ResponseWriter, r *http.Request, left time.Duration) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.Status == http.StatusOK && r.Method != http.MethodPost { // caches know a question by its URL
		seconds := max(1, (left+time.Second-1)/time.Second)
		h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(seconds))+", stale-while-revalidate="+strconv.Itoa(staleWhileRevalidate))
		h["Etag"] = []string{a.ETag}
		if r.Header.Get("If-None-Match") != "" {
			// No name and no time: the type is set, and the entity tag is the validator.
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.Body))
			return
		}
	} else {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.Body) // the client has gone away
	}
}
