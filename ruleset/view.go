package ruleset

import (
	"net/http"
	"strings"
	"time"
)

// check returns the reason why a request cannot be a view, from its method and
// headers alone, or an empty reason.
//
// Every current browser sends Sec-Fetch-Dest over HTTPS: only "document" counts.
// A page in a frame, iframe, embed or object is part of the page around it. If
// the header is absent (old browsers, plain HTTP), Accept must name HTML, which a
// bare "*/*" does not, and the request must not carry the mark of a script's data
// fetch. Pages that a script fetches on the visitor's behalf (Turbo Drive, pjax,
// a service worker) are "empty" to the browser; the page's own script reports
// those. For logs with neither Sec-Fetch-Dest nor Accept, page patterns alone
// exclude images and style sheets.
//
// A beacon is not a document, but a prefetched or prerendered page can send one
// before anybody has seen it.
func (q *Request) check() Reason {
	h := q.Header
	if q.Kind == BeaconRequest {
		if speculative(h) {
			return Speculative
		}
		return ""
	}
	switch {
	case q.Method != http.MethodGet:
		return Method
	case len(h["Caddy-Push"]) > 0: // set on the requests that Caddy's push handler makes
		return Push
	case len(h["Range"]) > 0:
		return Range
	case speculative(h):
		return Speculative
	case !document(h, q.Kind == LoggedRequest):
		return NotDocument
	}
	return ""
}

// optedOut reports whether a visitor opts out by Global Privacy Control or Do Not
// Track.
func optedOut(h http.Header) bool {
	return isOne(h["Sec-Gpc"]) || isOne(h["Dnt"])
}

func isOne(values []string) bool { return len(values) > 0 && values[0] == "1" }

// purposeHeaders are headers whose value marks a speculative request.
var purposeHeaders = [...]string{
	"Sec-Purpose",   // Fetch standard and its prerendering extension: "prefetch", "prefetch;prerender", "prefetch;anonymous-client-ip"
	"Purpose",       // Chrome's and Safari's older name: "prefetch", "prerender", "preview"; Next.js sends it too
	"X-Purpose",     // Safari's top sites: "preview"
	"X-Moz",         // Firefox before 115: "prefetch"
	"X-Sec-Purpose", // Turbo 8 (link_prefetch_observer.js): scripts cannot set Sec-*
}

// presentHeaders are headers that frameworks set on a prefetch, with any value.
var presentHeaders = [...]string{
	"Next-Router-Prefetch",         // Next.js App Router (app-router-headers.ts)
	"Next-Router-Segment-Prefetch", // Next.js, prefetch of one segment
	"X-Middleware-Prefetch",        // Next.js Pages Router
}

// instant.page, quicklink, Nuxt, Astro and SvelteKit preload either with <link
// rel=prefetch> or speculation rules, which the browser marks with Sec-Purpose,
// or with data fetches, which are not documents.

func speculative(h http.Header) bool {
	for _, name := range purposeHeaders {
		for _, v := range h[name] {
			if containsFold(v, "prefetch") || containsFold(v, "prerender") || containsFold(v, "preview") {
				return true
			}
		}
	}
	for _, name := range presentHeaders {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

func document(h http.Header, logged bool) bool {
	if dest := h["Sec-Fetch-Dest"]; len(dest) > 0 {
		return len(dest) == 1 && strings.EqualFold(dest[0], "document")
	}
	// React server components, Turbo frames and htmx fragments are parts of a
	// page. For X-Requested-With the value matters: Android's WebView sends the
	// app's name on real visits.
	if len(h["Rsc"]) > 0 || len(h["Turbo-Frame"]) > 0 || len(h["Hx-Request"]) > 0 {
		return false
	}
	if v := h["X-Requested-With"]; len(v) > 0 && strings.EqualFold(v[0], "XMLHttpRequest") {
		return false
	}
	accept := h["Accept"]
	if len(accept) == 0 {
		return logged
	}
	for _, v := range accept {
		if acceptsHTML(v) {
			return true
		}
	}
	return false
}

// acceptsHTML reports whether an Accept header names HTML as one of its media
// ranges. It ignores the quality: no client names a page type to refuse it.
func acceptsHTML(v string) bool {
	for v != "" {
		var item string
		item, v, _ = strings.Cut(v, ",")
		item, _, _ = strings.Cut(item, ";")
		if item = strings.TrimSpace(item); isHTML(item) {
			return true
		}
	}
	return false
}

func isHTML(mediaType string) bool {
	return strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml")
}

// containsFold reports whether s contains the lower-case ASCII word, in any case.
func containsFold(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// checkResponse returns the reason why a response rules out a view, or an empty
// reason. The header must have canonical keys. A nil header means that the
// headers are unknown, as in most logs; checkResponse then judges the status
// alone.
//
// A 304 has no Content-Type and counts: the visitor did come back to the page.
// Any other response must declare HTML, or another type that the list counts. A
// response without a type counts only if the list's ContentTypes has "*".
func (l *List) checkResponse(status int, h http.Header) Reason {
	if !l.countsStatus(status) {
		return Status
	}
	if h == nil {
		return ""
	}
	if len(h["Content-Range"]) > 0 {
		return Range
	}
	types := h["Content-Type"]
	if len(types) == 0 {
		if status == http.StatusNotModified || status == http.StatusNoContent || l.anyType {
			return ""
		}
		return ContentType
	}
	if !l.countsType(types[0]) {
		return ContentType
	}
	return ""
}

func (l *List) countsStatus(status int) bool {
	for _, s := range l.Statuses {
		if s == status {
			return true
		}
	}
	return false
}

func (l *List) countsType(v string) bool {
	if l.anyType {
		return true
	}
	v, _, _ = strings.Cut(v, ";")
	v = strings.TrimSpace(v)
	for _, t := range l.ContentTypes {
		if strings.EqualFold(t, v) {
			return true
		}
	}
	return false
}

// Published returns the item's publish time from the response header that the
// list's PublishedHeader names, in UTC. It is zero if the header is missing, is
// neither an RFC 3339 nor an HTTP date, or is outside the years 1970 to 9999.
func (l *List) Published(h http.Header) time.Time {
	values := h[l.PublishedHeader]
	if len(values) == 0 {
		return time.Time{}
	}
	v := strings.TrimSpace(values[0])
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		if t, err = http.ParseTime(v); err != nil {
			return time.Time{}
		}
	}
	if t.UnixMilli() <= 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}
