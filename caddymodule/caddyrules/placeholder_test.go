package caddyrules

import (
	"strings"
	"testing"

	"github.com/hotboard/hotboard/ruleset"
)

func TestIDsAreValidated(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"":                             "",
		"{http.request.uri.query.id}":  "",
		"{http.response.header.X-Id}":  "",
		"{query.id}":                   "lists[1].id: {query.id} works only in a site of a Caddyfile: write {http.request.uri.query.id}",
		"{system.os}-{env.NAME}":       "lists[1].id: {system.os}-{env.NAME} is the same for every request",
		"{http.request.uri.query.id }": "lists[1].id: \"{http.request.uri.query.id }\" is not a placeholder",
	} {
		err := ValidateIDs(&ruleset.Config{Lists: []*ruleset.ListConfig{nil, {ID: id}}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
}
