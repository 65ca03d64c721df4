package caddymodule

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// spoolRetryAfter is the advised delay, in seconds, after the spool refuses a
// beacon.
const spoolRetryAfter = 10

// beaconAnswer is the answer to a valid beacon. Reason is why its views do not
// count; the page that sent it made no mistake.
type beaconAnswer struct {
	OK       bool           `json:"ok"`
	Accepted int            `json:"accepted"`
	Reason   ruleset.Reason `json:"reason,omitempty"`
}

// serveViews answers POST /api/views: one beacon or an array of beacons. After a
// 202, the views are on disk.
func (h *instance) serveViews(w http.ResponseWriter, r *http.Request) *problem {
	if p := h.AllowOrigins.check(r); p != nil {
		return p
	}
	beacons, _, p := readObjects[beacon](w, r, `{"articleId":"…"} or {"page":"/…"}`)
	if p != nil {
		return p
	}
	if len(h.lists) == 0 {
		return viewsUnavailable() // until the edge knows the rules
	}
	c := h.clientOf(r)
	reports, p := h.readBeacons(r, &c, beacons)
	if p != nil {
		return p
	}
	rt, err := h.app.acquire()
	if err != nil {
		return viewsUnavailable()
	}
	var answer beaconAnswer
	if against := h.judgeBeacon(r, &c); against != "" {
		for i := range reports {
			for _, v := range h.viewsOf(r, nil, &reports[i]) {
				h.conclude(r, &reports[i].client, v.list, v.item, against)
			}
		}
		answer.Reason = against
	} else if answer, err = h.takeReports(r, rt, reports); err != nil {
		if gone(r, err) {
			return nil // the hits may or may not be on disk
		}
		h.logRefused("cannot accept a beacon", err)
		return viewsUnavailable()
	}
	answer.OK = true
	writeJSON(w, http.StatusAccepted, answer)
	return nil
}

func viewsUnavailable() *problem {
	return unavailable(spoolRetryAfter, "unavailable", "Views cannot be stored now. Send this again later.")
}

// logRefused logs why hits were not accepted, unless the outbox has reported a
// fault: a full disk is one fault, not one per request.
func (h *Handler) logRefused(what string, err error) {
	if !errors.Is(err, outbox.ErrFull) && !errors.Is(err, outbox.ErrUnavailable) {
		h.logger.Error(what, zap.Error(err))
	}
}

// accepted is a view that the limits admitted.
type accepted struct {
	client    *client
	list      *ruleset.List
	item      string
	uncharged uncharged
}

// takeReports stores the views of reports that the limits admit. An error means
// that none is stored, or that the visitor has disconnected.
func (h *instance) takeReports(r *http.Request, rt *runtime, reports []report) (answer beaconAnswer, err error) {
	var taken []accepted
	var hits []hit.Hit
	for i := range reports {
		c := &reports[i].client
		for _, v := range h.viewsOf(r, rt, &reports[i]) {
			var not uncharged
			if v.reason == "" {
				v.reason, not = h.charge(c, v.list, v.item)
			}
			if v.reason != "" {
				answer.Reason = v.reason
				h.conclude(r, c, v.list, v.item, v.reason)
				continue
			}
			taken = append(taken, accepted{c, v.list, v.item, not})
			x := h.viewBy(c, rt, v.list, v.item)
			x.Published, x.PublishedFrom = v.published, v.from
			hits = append(hits, x)
		}
	}
	err = rt.outbox.Append(r.Context(), hits...)
	left := err != nil && gone(r, err)
	for i := range reports {
		if rep := &reports[i]; err == nil || left {
			rep.waited.Settled()
		} else {
			rep.waited.PutBack()
		}
	}
	if left {
		return answer, err
	}
	for _, a := range taken {
		reason := ruleset.Counted
		if err != nil {
			reason = ruleset.DroppedQueueFull
			h.takeBack(a.client, a.list, a.item, a.uncharged)
		}
		h.conclude(r, a.client, a.list, a.item, reason)
	}
	answer.Accepted = len(hits)
	return answer, err
}

// judgeBeacon returns why a beacon's views do not count, or nothing.
func (h *instance) judgeBeacon(r *http.Request, c *client) ruleset.Reason {
	return h.rules.Judge(ruleset.Request{
		Kind: ruleset.BeaconRequest, Header: r.Header, BotClass: c.bot.Class, HonorOptOut: h.HonorOptOut,
	}).Against
}

// servePut answers PUT <page>/view at once; the outbox writes the view later.
func (h *instance) servePut(w http.ResponseWriter, r *http.Request, targets []ruleset.Target) *problem {
	if p := h.AllowOrigins.check(r); p != nil {
		return p
	}
	c := h.clientOf(r)
	against := h.judgeBeacon(r, &c)
	answer := beaconAnswer{OK: true}
	for i := range targets {
		t := &targets[i]
		nameItem(r, t)
		reason := against
		switch {
		case t.Item == "":
			reason = ruleset.BadItem
		case against == "":
			reason = h.offerReport(&c, t)
		}
		h.conclude(r, &c, t.List, t.Item, reason)
		if reason == ruleset.Counted {
			answer.Accepted++
		} else {
			answer.Reason = reason
		}
	}
	if answer.Reason == ruleset.BadItem {
		return refuse(http.StatusBadRequest, string(ruleset.BadItem), "The path needs an item id of 1 to %d bytes of UTF-8 without control characters.", hit.MaxIDBytes)
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// offerReport offers a reported view to the outbox if limits admit it, and
// returns Counted or the reason against it.
func (h *instance) offerReport(c *client, t *ruleset.Target) ruleset.Reason {
	limited, not := h.charge(c, t.List, t.Item)
	if limited != "" {
		return limited
	}
	if rt, err := h.app.acquire(); err == nil && rt.outbox.Offer(h.viewBy(c, rt, t.List, t.Item)) {
		return ruleset.Counted
	}
	h.takeBack(c, t.List, t.Item, not)
	return ruleset.DroppedQueueFull
}
