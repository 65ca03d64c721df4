package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

func TestScript(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("script"))
	w := e.do(browse("/hotboard.js"))
	text, etag := w.Body.String(), w.Header().Get("Etag")
	if w.Code != http.StatusOK || !strings.Contains(text, `const config = {"honorOptOut":false};`) {
		t.Fatalf("%d %s", w.Code, text)
	}
	for name, want := range map[string]string{
		"Content-Type":           "text/javascript; charset=utf-8",
		"X-Content-Type-Options": "nosniff",
		"Cache-Control":          "max-age=3600",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if w := e.do(browse("/hotboard.js", "If-None-Match", etag)); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("If-None-Match: %d %s", w.Code, w.Body)
	}
	r := browse("/hotboard.js")
	r.Method = http.MethodHead
	if w := e.do(r); w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := e.do(fetch(http.MethodPost, "/hotboard.js", "{}")); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}

	heeds := startEdge(t, log, site("heeds", "honor_opt_out", "prefix /stats"))
	w = heeds.do(browse("/stats/hotboard.js"))
	if !strings.Contains(w.Body.String(), `const config = {"honorOptOut":true};`) {
		t.Errorf("with honor_opt_out: %d %s", w.Code, w.Body)
	}
	if w.Header().Get("Etag") == etag {
		t.Error("another configuration has the same ETag")
	}
	if w := heeds.do(browse("/hotboard.js")); w.Code == http.StatusOK && strings.Contains(w.Body.String(), "honorOptOut") {
		t.Error("the script is there without the prefix")
	}
}
