package ruleset

import (
	"net/http"
	"testing"
)

func TestCheckBeacon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header http.Header
		want   Reason
	}{
		{"a script's fetch", http.Header{"Sec-Fetch-Dest": {"empty"}, "Accept": {"*/*"}}, ""},
		{"no headers", nil, ""},
		{"a prerendered page", http.Header{"Sec-Purpose": {"prefetch;prerender"}}, Speculative},
		{"a preview", http.Header{"Purpose": {"preview"}}, Speculative},
	} {
		if got := CheckBeacon(tt.header); got != tt.want {
			t.Errorf("%s: CheckBeacon = %q, want %q", tt.name, got, tt.want)
		}
	}
}
