package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/internal/reading"
)

// origins are the sites that may use the endpoints from a visitor's browser, in
// addition to the site itself.
type origins []string

// anyOrigin allows every site.
const anyOrigin = "*"

// provision converts the origins to the form that browsers send.
func (o origins) provision() error {
	for i, s := range o {
		if s == anyOrigin {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return fmt.Errorf("allow_origins: %q is not an origin such as https://www.example.com, or *", s)
		}
		o[i] = strings.ToLower(u.Scheme + "://" + u.Host)
	}
	return nil
}

func (o origins) allow(origin string) bool {
	return slices.Contains(o, anyOrigin) || slices.Contains(o, strings.ToLower(origin))
}

// crossOrigin is Go's check of the headers that browsers send with POST, PUT and
// DELETE.
var crossOrigin http.CrossOriginProtection

// check refuses a request with side effects if another site's page made the
// visitor's browser send it. Other origins of the same site may send it.
func (o origins) check(r *http.Request) *problem {
	origin := r.Header.Get("Origin")
	if origin != "" && o.allow(origin) || r.Header.Get("Sec-Fetch-Site") == "same-site" || crossOrigin.Check(r) == nil {
		return nil
	}
	return refuse(http.StatusForbidden, "cross_site",
		"The request comes from another site. Name that site's origin in allow_origins to allow it.")
}

// share lets the pages of an allowed site read the answer (CORS).
func (o origins) share(w http.ResponseWriter, r *http.Request) {
	if len(o) == 0 {
		return
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !o.allow(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", reading.StaleHeader+", Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset")
	if slices.Contains(o, strings.ToLower(origin)) {
		// A site named in the list may vote for the signed-in user; * does not
		// permit it.
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// preflight answers a browser's CORS preflight request.
func (o origins) preflight(w http.ResponseWriter, methods string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
