package caddymodule

import (
	"context"
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

// readPath returns the path by which an aggregator knows the reading endpoint
// that a request is for; false when it is for none. path is the escaped path,
// without the prefix.
func readPath(path string) (string, bool) {
	switch {
	case path == "/hot", path == "/api/hot":
		return "/hot", true // one cache entry for both
	case strings.HasPrefix(path, "/api/items/"), strings.HasPrefix(path, "/api/stats/"):
		return path, true
	}
	return "", false
}

// serveBoards answers a reading endpoint from what the aggregators said last.
func (h *Handler) serveBoards(w http.ResponseWriter, r *http.Request, path, rawQuery string) *problem {
	query, p := h.canonicalQuery(path, rawQuery)
	if p != nil {
		return p
	}
	rt, err := h.app.acquire()
	if err != nil {
		return unavailable(5, "unavailable", "The boards are not available now.")
	}
	ans, stale, err := rt.boards.get(r.Context(), hit.Query{Path: path, Query: query})
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

func writeAnswer(w http.ResponseWriter, r *http.Request, ans *answer, stale bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if ans.status != http.StatusOK {
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Length", ans.length)
		w.WriteHeader(ans.status)
		if r.Method != http.MethodHead {
			w.Write(ans.body)
		}
		return
	}
	if stale {
		h.Set(staleHeader, "1")
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
