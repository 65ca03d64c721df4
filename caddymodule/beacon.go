package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// maxFingerprintBytes is the longest fingerprint of a client.
	maxFingerprintBytes = 512
	// spoolRetryAfter is the advice to a client whose beacon the spool did not
	// take, in seconds.
	spoolRetryAfter = 10
)

// beacon is one view that a page's script reports.
type beacon struct {
	ArticleID string `json:"articleId"`
	// List is needed when there are several.
	List string `json:"list"`
	// PublishedAt is when the article was published, RFC 3339.
	PublishedAt string `json:"publishedAt"`
	// Fingerprint tells visitors behind one address apart.
	Fingerprint string `json:"fingerprint"`
}

// beaconAnswer is the answer to a beacon that was understood. Reason says why
// views of it are not counted; the page that sent it did nothing wrong.
type beaconAnswer struct {
	OK       bool           `json:"ok"`
	Accepted int            `json:"accepted"`
	Reason   ruleset.Reason `json:"reason,omitempty"`
}

// serveViews answers POST /api/views: one beacon or an array of them. When it
// answers 202, the views are on disk.
func (h *Handler) serveViews(w http.ResponseWriter, r *http.Request) *problem {
	if p := h.AllowOrigins.check(r); p != nil {
		return p
	}
	beacons, p := readBeacons(w, r)
	if p != nil {
		return p
	}
	hits, p := h.hitsOf(r, beacons)
	if p != nil {
		return p
	}
	if reason := h.judgeBeacon(r); reason != "" {
		h.concludeAll(r, hits, reason)
		writeJSON(w, http.StatusAccepted, beaconAnswer{OK: true, Reason: reason})
		return nil
	}
	rt, err := h.app.acquire()
	if err == nil {
		err = rt.outbox.Append(r.Context(), hits...)
	}
	if err != nil && r.Context().Err() != nil {
		return nil // the visitor has gone; the hits may be on disk or not
	}
	if err != nil {
		h.concludeAll(r, hits, ruleset.DroppedQueueFull)
		if !errors.Is(err, outbox.ErrFull) { // which the outbox reports itself
			h.logger.Error("a beacon was not accepted", zap.Error(err))
		}
		return unavailable(spoolRetryAfter, "unavailable", "Views cannot be stored now. Send this again later.")
	}
	h.concludeAll(r, hits, ruleset.Counted)
	writeJSON(w, http.StatusAccepted, beaconAnswer{OK: true, Accepted: len(hits)})
	return nil
}

func (h *Handler) concludeAll(r *http.Request, hits []hit.Hit, reason ruleset.Reason) {
	for i := range hits {
		v := h.verdicts[hits[i].List][reason]
		v.counter.Inc()
		caddyhttp.SetVar(r.Context(), reasonVar, v.text)
	}
}

// readBeacons reads the body: an object or an array of objects.
func readBeacons(w http.ResponseWriter, r *http.Request) ([]beacon, *problem) {
	beacons, _, p := readObjects[beacon](w, r, `{"articleId":"…"}`)
	return beacons, p
}

// hitsOf returns the hits that beacons stand for, all or none.
func (h *Handler) hitsOf(r *http.Request, beacons []beacon) ([]hit.Hit, *problem) {
	rt, err := h.app.acquire()
	if err != nil {
		return nil, unavailable(spoolRetryAfter, "unavailable", "Views cannot be stored now. Send this again later.")
	}
	now := clock.Now()
	salt := rt.secrets.salt(now)
	who := h.identify(r)
	self := who.visitor(salt)
	hits := make([]hit.Hit, len(beacons))
	for i, b := range beacons {
		bad := func(code, format string, args ...any) *problem {
			where := ""
			if len(beacons) > 1 {
				where = fmt.Sprintf("View %d: ", i+1)
			}
			return refuse(http.StatusBadRequest, code, "%s"+format, append([]any{where}, args...)...)
		}
		list, code := h.listNamed(b.List)
		switch {
		case code == "list_required":
			return nil, bad(code, "The list is missing, and there is more than one.")
		case code != "":
			return nil, bad(code, "There is no list %.80q.", b.List)
		}
		if err := hit.ValidID(b.ArticleID); err != nil {
			h.conclude(r, list, ruleset.BadItem)
			return nil, bad(string(ruleset.BadItem), "The articleId cannot be used: %v.", err)
		}
		if len(b.Fingerprint) > maxFingerprintBytes {
			return nil, bad("bad_fingerprint", "The fingerprint has more than %d bytes.", maxFingerprintBytes)
		}
		hits[i] = hit.Hit{Kind: hit.View, List: list.Name, Item: b.ArticleID, Visitor: self, Time: now.UnixMilli()}
		if b.Fingerprint != "" {
			hits[i].Visitor = who.withFingerprint(b.Fingerprint).visitor(salt)
		}
		if b.PublishedAt != "" {
			t, err := time.Parse(time.RFC3339, b.PublishedAt)
			if err != nil || t.UnixMilli() <= 0 {
				return nil, bad("bad_published", "The publishedAt %.80q is not a time such as 2026-11-20T09:30:00Z.", b.PublishedAt)
			}
			// A client cannot make an item younger than its hits.
			hits[i].Published = min(t.UnixMilli(), hits[i].Time)
			hits[i].PublishedFrom = hit.FromClient
		}
	}
	return hits, nil
}

// listNamed returns the list that a beacon is for, or the code of its mistake.
func (h *Handler) listNamed(name string) (*ruleset.List, string) {
	if name == "" {
		if len(h.lists) == 1 {
			return h.lists[0], ""
		}
		return nil, "list_required"
	}
	for _, l := range h.lists {
		if l.Name == name {
			return l, ""
		}
	}
	return nil, string(ruleset.UnknownList)
}

// judgeBeacon returns why a beacon's views do not count, or nothing.
func (h *Handler) judgeBeacon(r *http.Request) ruleset.Reason {
	if reason := ruleset.CheckBeacon(r.Header); reason != "" {
		return reason
	}
	if h.optedOut(r) {
		return ruleset.OptOut
	}
	if h.app.bots.Classify(r.Header.Get("User-Agent"), clientIP(r)).Bot {
		return ruleset.Bot
	}
	return ""
}

// servePut answers PUT <page>/view at once; the view is written down later.
func (h *Handler) servePut(w http.ResponseWriter, r *http.Request, targets []ruleset.Target) *problem {
	if p := h.AllowOrigins.check(r); p != nil {
		return p
	}
	v := view{Handler: h, request: r, time: clock.Now(), who: h.identify(r)}
	against := h.judgeBeacon(r)
	answer := beaconAnswer{OK: true}
	for i := range targets {
		t := &targets[i]
		v.name(t)
		reason := against
		switch {
		case t.Item == "":
			reason = ruleset.BadItem
		case against == "":
			reason = v.offer(t, nil)
		}
		h.conclude(r, t.List, reason)
		if reason == ruleset.Counted {
			answer.Accepted++
		} else {
			answer.Reason = reason
		}
	}
	if answer.Reason == ruleset.BadItem {
		return refuse(http.StatusBadRequest, string(ruleset.BadItem), "The path names no item, or one whose id is not 1 to %d bytes of UTF-8 without control characters.", hit.MaxIDBytes)
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
