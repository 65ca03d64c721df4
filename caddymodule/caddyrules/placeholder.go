package caddyrules

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hotboard/hotboard/ruleset"
)

var placeholder = regexp.MustCompile(`\{([^{}\s]+)\}`)

// HasPlaceholder reports whether a text contains a placeholder.
func HasPlaceholder(text string) bool { return placeholder.MatchString(text) }

// CheckPlaceholder returns an error if a text is the same for every request. Such
// a text would silently turn all visitors into one.
func CheckPlaceholder(text string) error {
	names := placeholder.FindAllStringSubmatch(text, -1)
	if len(names) == 0 {
		return fmt.Errorf("%q is not a placeholder such as {http.request.cookie.session}", text)
	}
	if long := longForm(text); long != text {
		return fmt.Errorf("%s works only in a site of a Caddyfile: write %s", text, long)
	}
	for _, name := range names {
		if !sameForAll(name[1]) {
			return nil
		}
	}
	return fmt.Errorf("%s is the same for every request", text)
}

// sameForAll reports whether a placeholder does not depend on the request.
func sameForAll(name string) bool {
	for _, space := range []string{"env.", "file.", "system.", "time."} {
		if strings.HasPrefix(name, space) {
			return true
		}
	}
	return false
}

// ValidateIDs reports the lists with an id in a form of placeholder that Caddy
// does not know.
func ValidateIDs(r *ruleset.Config) error {
	var errs []error
	for i, l := range r.Lists {
		if l == nil || l.ID == "" {
			continue
		}
		if err := CheckPlaceholder(l.ID); err != nil {
			errs = append(errs, &ruleset.Problem{Path: fmt.Sprintf("lists[%d].id", i), Message: err.Error()})
		}
	}
	return errors.Join(errs...)
}

// longForm expands the placeholders of a text: {query.id} becomes
// {http.request.uri.query.id}. Caddy itself expands them in sites, but not in
// global options.
func longForm(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	segment := caddyfile.Segment{{Text: text}}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&segment)
	return segment[0].Text
}
