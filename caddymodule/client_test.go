package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestChannel(t *testing.T) {
	t.Parallel()
	const query, header = "{http.request.uri.query.via}", "{http.request.header.X-Channel}"
	for _, c := range []struct {
		name    string
		sources []string
		target  string
		header  []string
		want    string
	}{
		{name: "no source", target: "/?via=letter", header: []string{"Referer", "https://news.example/"}},
		{name: "a query", sources: []string{query, "referrer"}, target: "/?via=letter", header: []string{"Referer", "https://news.example/"}, want: "letter"},
		{name: "the next source where one is silent", sources: []string{query, header, "referrer"}, target: "/?via=", header: []string{"X-Channel", "app"}, want: "app"},
		{name: "the page that led here", sources: []string{query, "referrer"}, target: "/", header: []string{"Referer", "https://News.Example:8443/a?b#c"}, want: "news.example"},
		{name: "a page of the site itself", sources: []string{"referrer"}, target: "/", header: []string{"Referer", "https://Site.Example/home"}},
		{name: "another port is another site", sources: []string{"referrer"}, target: "/", header: []string{"Referer", "https://site.example:8443/"}, want: "site.example"},
		{name: "no referrer", sources: []string{"referrer"}, target: "/"},
		{name: "a referrer without a host", sources: []string{"referrer"}, target: "/", header: []string{"Referer", "about:blank"}},
		{name: "a referrer that is no URL", sources: []string{"referrer"}, target: "/", header: []string{"Referer", "https://[::1"}},
		{name: "as long as can be", sources: []string{query}, target: "/?via=" + strings.Repeat("x", 64), want: strings.Repeat("x", 64)},
		{name: "too long", sources: []string{query, header}, target: "/?via=" + strings.Repeat("x", 65), header: []string{"X-Channel", "app"}, want: "app"},
		{name: "not UTF-8", sources: []string{query}, target: "/?via=%ff"},
		{name: "a control character", sources: []string{query}, target: "/?via=a%0Ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://site.example"+c.target, nil)
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
			h := &Handler{Channel: c.sources}
			if got := h.channelOf(r); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
