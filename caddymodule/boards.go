package caddymodule

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/boards"
	"github.com/hotboard/hotboard/internal/reading"
)

// serveBoards answers a reading endpoint with the aggregators' latest answer.
// path is the escaped path, without the prefix.
func (h *instance) serveBoards(w http.ResponseWriter, r *http.Request, path, rawQuery string) *problem {
	var body []byte
	if r.Method == http.MethodPost {
		var p *problem
		if body, p = readBody(w, r); p != nil {
			return p
		}
	}
	var defaultList string
	if len(h.lists) > 0 {
		defaultList = h.lists[0].Name // of this site, not always the app's first
	}
	q, bad := reading.Parse(path, rawQuery, body, defaultList)
	if bad != nil {
		return &problem{status: bad.Status, code: bad.Code, message: bad.Message}
	}
	rt, err := h.app.acquire()
	if err != nil {
		return unavailable(5, "unavailable", "The boards are not available now.")
	}
	ans, left, stale, err := rt.boards.Get(r.Context(), q)
	switch {
	case errors.Is(err, context.Canceled):
		return nil // the client has disconnected
	case errors.Is(err, boards.ErrBusy):
		boardsTotal.WithLabelValues("none").Inc()
		return unavailable(1, "busy", "Too many different questions are waiting for an answer.")
	case err != nil:
		boardsTotal.WithLabelValues("none").Inc()
		h.logger.Debug("no aggregator answers", zap.String("path", path), zap.Error(err))
		return unavailable(5, "unavailable", "The boards are not available now.")
	case stale:
		boardsTotal.WithLabelValues("stale").Inc()
		w.Header().Set(reading.StaleHeader, "1")
	default:
		boardsTotal.WithLabelValues("current").Inc()
	}
	ans.Write(w, r, left)
	return nil
}
