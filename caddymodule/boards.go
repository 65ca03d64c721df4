package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

const (
	// staleHeader marks an answer that may be out of date because no aggregator
	// can be asked now.
	staleHeader = "Hotboard-Stale"
	// maxQueryBytes bounds the path and query that are passed on to an aggregator.
	maxQueryBytes = 2048
	// staleWhileRevalidate is how long, in seconds, a cache may serve a board
	// that it is fetching anew.
	staleWhileRevalidate = 60
)

const (
	itemsPath  = "/api/items"
	boardsPath = "/api/boards"
)

// readPath returns the path by which an aggregator knows the reading endpoint
// that a request is for, and its methods; no methods when it is for none. path is
// the escaped path, without the prefix.
func readPath(path string) (known, methods string) {
	switch {
	case path == "/hot", path == "/api/hot":
		return "/hot", "GET, HEAD" // one cache entry for both
	case path == itemsPath, path == boardsPath:
		return path, http.MethodPost // many questions in one
	case strings.HasPrefix(path, itemsPath+"/"), strings.HasPrefix(path, boardsPath+"/"), strings.HasPrefix(path, "/api/stats/"):
		return path, "GET, HEAD"
	}
	return "", ""
}

// serveBoards answers a reading endpoint from what the aggregators said last.
func (h *Handler) serveBoards(w http.ResponseWriter, r *http.Request, path, rawQuery string) *problem {
	query, p := h.canonicalQuery(path, rawQuery)
	if p != nil {
		return p
	}
	var body []byte
	if r.Method == http.MethodPost {
		if body, p = readBody(w, r); p == nil {
			body, p = h.canonicalBody(path, body)
		}
		if p != nil {
			return p
		}
	}
	rt, err := h.app.acquire()
	if err != nil {
		return unavailable(5, "unavailable", "The boards are not available now.")
	}
	ans, stale, err := rt.boards.get(r.Context(), hit.Query{Path: path, Query: query, Body: body})
	switch {
	case errors.Is(err, context.Canceled):
		return nil // nobody is there to read an answer
	case errors.Is(err, errBusy):
		boardsTotal.WithLabelValues("none").Inc()
		return unavailable(1, "busy", "Too many different questions are waiting for an answer.")
	case err != nil:
		boardsTotal.WithLabelValues("none").Inc()
		h.logger.Debug("no aggregator answers", zap.String("path", path), zap.Error(err))
		return unavailable(5, "unavailable", "The boards are not available now.")
	case stale:
		boardsTotal.WithLabelValues("stale").Inc()
	default:
		boardsTotal.WithLabelValues("current").Inc()
	}
	writeAnswer(w, r, ans, stale)
	return nil
}

// canonicalQuery returns a query so that all spellings of one question are the
// same question.
func (h *Handler) canonicalQuery(path, raw string) (string, *problem) {
	if len(path)+len(raw) > maxQueryBytes {
		return "", refuse(http.StatusRequestURITooLong, "query_too_long", "The path and the query have at most %d bytes.", maxQueryBytes)
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "bad_query", "The query cannot be read: %v.", err)
	}
	if path == "/hot" && q.Get("list") == "" && len(h.lists) > 0 {
		q.Set("list", h.lists[0].Name) // of this site, which may not be the app's first
	}
	return q.Encode(), nil
}

// canonicalBody does the same for the body of a POST: one question for each order
// of its members, and each way to space them. What it asks for beyond that is the
// aggregator's business.
func (h *Handler) canonicalBody(path string, body []byte) ([]byte, *problem) {
	var all map[string]any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // as it was written
	if err := dec.Decode(&all); err != nil || all == nil || dec.More() {
		return nil, refuse(http.StatusBadRequest, "bad_json", "The body is not a JSON object.")
	}
	asked := []any{all}
	if path == boardsPath {
		asked, _ = all["boards"].([]any)
	}
	for _, a := range asked {
		if a, ok := a.(map[string]any); ok && len(h.lists) > 0 && (a["list"] == nil || a["list"] == "") {
			a["list"] = h.lists[0].Name // of this site, as for /hot
		}
	}
	canonical, err := json.Marshal(all)
	if err != nil { // which it came from
		panic(err)
	}
	return canonical, nil
}

func writeAnswer(w http.ResponseWriter, r *http.Request, ans *answer, stale bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if stale {
		h.Set(staleHeader, "1")
	}
	if ans.status != http.StatusOK || r.Method == http.MethodPost { // which no cache keeps
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Length", ans.length)
		w.WriteHeader(ans.status)
		if r.Method != http.MethodHead {
			w.Write(ans.body)
		}
		return
	}
	h.Set("Cache-Control", cacheControl(time.Until(ans.expires)))
	h.Set("Etag", ans.etag)
	if matchesETag(r.Header.Get("If-None-Match"), ans.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", ans.length)
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		w.Write(ans.body) // an error means that the visitor has gone
	}
}

// cacheControl lets caches keep an answer for what is left of its time slice:
// whole seconds, and one at least.
func cacheControl(left time.Duration) string {
	seconds := max(1, int(left/time.Second))
	return "max-age=" + strconv.Itoa(seconds) + ", stale-while-revalidate=" + strconv.Itoa(staleWhileRevalidate)
}

// matchesETag reports whether an If-None-Match header names etag, or all.
// Validators are compared weakly: what compresses on the way makes them weak.
func matchesETag(header, etag string) bool {
	for header != "" {
		var v string
		v, header, _ = strings.Cut(header, ",")
		v = strings.TrimPrefix(strings.TrimSpace(v), "W/")
		if v == etag || v == "*" {
			return true
		}
	}
	return false
}
