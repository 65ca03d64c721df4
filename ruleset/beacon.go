package ruleset

import "net/http"

// CheckBeacon judges the request of a beacon, by which a page's script reports a
// view: an empty Reason means that nothing in its headers speaks against it. A
// beacon is no document, but a page that is prefetched or prerendered can send
// one before anybody has seen it.
func CheckBeacon(h http.Header) Reason {
	if speculative(h) {
		return Speculative
	}
	return ""
}
