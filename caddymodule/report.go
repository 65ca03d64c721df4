package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/pending"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// maxFingerprintBytes is the maximum length of a client's fingerprint.
	maxFingerprintBytes = 512
	// maxPageBytes is the maximum length of a page's path and query.
	maxPageBytes = 8192
)

// beacon is one view that a page's script reports, as in a request body. It names
// the item, the page, or both.
type beacon struct {
	ArticleID string `json:"articleId"`
	// Page is the path of the page with its query, as the visitor's browser shows
	// it. Without ArticleID, the items are those of the page.
	Page string `json:"page"`
	// List is required with ArticleID if there are several lists.
	List string `json:"list"`
	// PublishedAt is when the article was published, RFC 3339.
	PublishedAt string `json:"publishedAt"`
	// Fingerprint distinguishes visitors behind one address.
	Fingerprint string `json:"fingerprint"`
}

// report is a valid beacon.
type report struct {
	client    client // with the beacon's fingerprint
	list      *ruleset.List
	item      string
	page      *url.URL
	published int64 // in milliseconds since the Unix epoch; 0 if absent

	waited pending.Taken // pending views of the page
}

// readBeacons checks all beacons, and describes the first mistake.
func (h *instance) readBeacons(r *http.Request, c *client, beacons []beacon) ([]report, *problem) {
	reports := make([]report, len(beacons))
	for i := range beacons {
		reports[i].client = *c
		if p := h.readBeacon(r, &beacons[i], &reports[i]); p != nil {
			if len(beacons) > 1 {
				p.message = fmt.Sprintf("View %d: %s", i+1, p.message)
			}
			return nil, p
		}
	}
	return reports, nil
}

func (h *instance) readBeacon(r *http.Request, b *beacon, rep *report) *problem {
	bad := func(code, format string, args ...any) *problem {
		return refuse(http.StatusBadRequest, code, format, args...)
	}
	var p *problem
	if b.List != "" || b.ArticleID != "" || b.Page == "" {
		if rep.list, p = h.listNamed(b.List); p != nil {
			if p.code == string(ruleset.UnknownList) {
				h.conclude(r, &rep.client, nil, "", ruleset.UnknownList)
			}
			return p
		}
	}
	if b.ArticleID != "" || b.Page == "" {
		if err := hit.ValidID(b.ArticleID); err != nil {
			h.conclude(r, &rep.client, rep.list, "", ruleset.BadItem)
			return bad(string(ruleset.BadItem), "Invalid articleId: %v.", err)
		}
		rep.item = b.ArticleID
	}
	if b.Page != "" {
		page, err := url.ParseRequestURI(b.Page)
		if err != nil || b.Page[0] != '/' || len(b.Page) > maxPageBytes {
			return bad("bad_page", "The page %.80q is not a path of at most %d bytes, such as /articles/1 or /articles/1?from=home.", b.Page, maxPageBytes)
		}
		rep.page = page
		rep.client.page = page.EscapedPath()
	}
	if len(b.Fingerprint) > maxFingerprintBytes {
		return bad("bad_fingerprint", "The fingerprint has more than %d bytes.", maxFingerprintBytes)
	}
	rep.client.who = rep.client.who.WithFingerprint(b.Fingerprint)
	if b.PublishedAt != "" {
		t, err := time.Parse(time.RFC3339, b.PublishedAt)
		if err != nil || t.UnixMilli() <= 0 {
			return bad("bad_published", "The publishedAt %.80q is not a time such as 2026-11-20T09:30:00Z.", b.PublishedAt)
		}
		rep.published = t.UnixMilli()
	}
	return nil
}

// listNamed returns the list of a beacon. The default is the only list.
func (h *instance) listNamed(name string) (*ruleset.List, *problem) {
	var views []*ruleset.List
	for _, l := range h.lists {
		switch {
		case h.takesBeacons(l):
			views = append(views, l)
			if l.Name == name {
				return l, nil
			}
		case l.Name == name && l.Votes != nil:
			return nil, refuse(http.StatusBadRequest, "not_views", "The list %s is a poll: send votes to %s/api/votes.", name, h.Prefix)
		}
	}
	switch {
	case name != "":
		return nil, refuse(http.StatusBadRequest, string(ruleset.UnknownList), "Unknown list %.80q.", name)
	case len(views) == 1:
		return views[0], nil
	}
	return nil, refuse(http.StatusBadRequest, "list_required", "The list is missing. It is optional only if the site has exactly one.")
}

// takesBeacons reports whether a page's script can report views of a list.
func (h *instance) takesBeacons(l *ruleset.List) bool {
	return l.Votes == nil && !h.rules.CountsBots(l.Name)
}

// reported is a view from a report, or the reason why the report has none.
type reported struct {
	list      *ruleset.List // nil if reason is NoItem
	item      string
	reason    ruleset.Reason // nothing, NoItem or BadItem
	published int64          // as in hit.Hit
	from      hit.Source
}

// viewsOf returns the views of a report: the pending views of its page, which it
// removes from the waiting ones, or else the views of the page's path; and the
// view of the named item. It returns at least one. rt is nil if the views must
// not count.
func (h *instance) viewsOf(r *http.Request, rt *runtime, rep *report) []reported {
	var views []reported
	if rep.page != nil && rt != nil {
		key := rt.pending.KeyOf(rep.client.ip, rep.client.userAgent, r.Host, rep.page)
		rep.waited = rt.pending.Take(key, rep.client.time)
		for _, s := range rep.waited.Views {
			for _, l := range h.lists {
				if l.Name == s.List && h.takesBeacons(l) && (rep.list == nil || rep.list == l) {
					views = append(views, reported{list: l, item: s.Item, published: s.Published, from: s.PublishedFrom})
				}
			}
		}
	}
	if rep.item != "" {
		if !slices.ContainsFunc(views, func(v reported) bool { return v.list == rep.list && v.item == rep.item }) {
			views = append(views, reported{list: rep.list, item: rep.item})
		}
	} else if len(views) == 0 {
		views = h.viewsOfPage(r, rep)
	}
	if rep.published != 0 {
		for i := range views {
			if v := &views[i]; v.from == hit.FromFirstHit {
				// A client cannot make an item younger than its hits.
				v.published, v.from = min(rep.published, rep.client.time.UnixMilli()), hit.FromClient
			}
		}
	}
	return views
}

// viewsOfPage returns the views of a reported page's items, or one with NoItem if
// there are none.
func (h *instance) viewsOfPage(r *http.Request, rep *report) []reported {
	var views []reported
	var asked *http.Request // for the page
	for _, t := range h.match(nil, rep.page.Path) {
		if !h.takesBeacons(t.List) || rep.list != nil && t.List != rep.list {
			continue
		}
		if t.List.ID != "" {
			if asked == nil {
				asked = requestFor(r, rep.page)
			}
			nameItem(asked, &t)
			if t.Item == "" && t.Reason == "" {
				continue // not an item's page, or one that only the response names
			}
		}
		views = append(views, reported{list: t.List, item: t.Item, reason: t.Reason})
	}
	if len(views) == 0 {
		views = append(views, reported{reason: ruleset.NoItem})
	}
	return views
}

// requestFor returns the request that the sender of r would make for a page, so
// that placeholders have the same values as there.
func requestFor(r *http.Request, page *url.URL) *http.Request {
	asked := r.Clone(context.WithoutCancel(r.Context()))
	asked.Method, asked.URL, asked.RequestURI = http.MethodGet, page, page.RequestURI()
	asked.Body, asked.ContentLength = http.NoBody, 0
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return caddyhttp.PrepareRequest(asked, caddy.NewReplacer(), nil, server)
}
