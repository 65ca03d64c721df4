package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Mistakes that only JSON can contain: testdata covers the Caddyfile.
func TestHandlerIsValidated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		handler *Handler
		want    string // "" when it is right
	}{
		{&Handler{}, ""},
		{&Handler{User: "{http.auth.user.id}", Visitor: "{http.request.cookie.v}"}, ""},
		{&Handler{User: "{env.SITE}/{http.auth.user.id}"}, ""},
		{&Handler{Channel: []string{"referrer", "{http.request.uri.query.utm_source}"}}, ""},
		{&Handler{UserFromBody: true}, ""},
		{&Handler{Confirm: caddy.Duration(10 * time.Second)}, ""},

		{&Handler{User: "{cookie.session}"}, "user: {cookie.session} works only in a site of a Caddyfile: write {http.request.cookie.session}"},
		{&Handler{Visitor: "{}"}, `visitor: "{}" is not a placeholder`},
		{&Handler{Visitor: "{a visitor}"}, `visitor: "{a visitor}" is not a placeholder`},
		{&Handler{User: "{http.auth.user.id"}, "is not a placeholder"},
		{&Handler{User: "{system.hostname}{time.now.unix}"}, "user: {system.hostname}{time.now.unix} is the same for every request"},
		{&Handler{Channel: []string{"{query.from}"}}, "channel: {query.from} works only in a site of a Caddyfile: write {http.request.uri.query.from}"},
		{&Handler{Channel: []string{""}}, `channel: "" is neither`},
		{&Handler{Confirm: caddy.Duration(10*time.Second + 1)}, "confirm: 10.000000001s is not between 0 and 10s"},
		{&Handler{Confirm: -1}, "confirm: -1ns is not between 0 and 10s"},
	} {
		err := c.handler.validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.handler, err, c.want)
		}
	}
}
