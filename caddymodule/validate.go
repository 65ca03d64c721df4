package caddymodule

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hotboard/hotboard/ruleset"
)

// maxConfirm is how long the answer to a vote may wait.
const maxConfirm = caddy.Duration(10 * time.Second)

// validate reports what is wrong with the handler's settings, everything at once.
func (h *Handler) validate() error {
	var errs []error
	check := func(option, value string) {
		if err := checkPlaceholder(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", option, err))
		}
	}
	if h.Prefix != "" && (!strings.HasPrefix(h.Prefix, "/") || strings.HasSuffix(h.Prefix, "/")) {
		errs = append(errs, fmt.Errorf("prefix: %q does not begin with a slash, or ends in one; write for example /stats", h.Prefix))
	}
	if h.Visitor != "" {
		check("visitor", h.Visitor)
	}
	if h.User != "" {
		check("user", h.User)
	}
	for _, source := range h.Channel {
		if source == referrerChannel {
			continue
		}
		if !placeholder.MatchString(source) {
			errs = append(errs, fmt.Errorf("channel: %q is neither a placeholder such as {http.request.uri.query.utm_source} nor referrer", source))
			continue
		}
		check("channel", source)
	}
	if h.Confirm < 0 || h.Confirm > maxConfirm {
		errs = append(errs, fmt.Errorf("confirm: %v is not between 0 and %v", time.Duration(h.Confirm), time.Duration(maxConfirm)))
	}
	return errors.Join(append(errs, h.AllowOrigins.provision())...)
}

var placeholder = regexp.MustCompile(`\{([^{}\s]+)\}`)

// checkPlaceholder reports why a text cannot tell one request from another. With
// such a text all visitors would be one, and nothing else would say so.
func checkPlaceholder(text string) error {
	names := placeholder.FindAllStringSubmatch(text, -1)
	if len(names) == 0 {
		return fmt.Errorf("%q is not a placeholder such as {http.request.cookie.session}", text)
	}
	if long := longForm(text); long != text {
		return fmt.Errorf("%s is short for the Caddyfile alone: write %s", text, long)
	}
	for _, name := range names {
		if !sameForAll(name[1]) {
			return nil
		}
	}
	return fmt.Errorf("%s is the same for every request", text)
}

// sameForAll reports whether a placeholder has nothing to do with the request.
func sameForAll(name string) bool {
	for _, space := range []string{"env.", "file.", "system.", "time."} {
		if strings.HasPrefix(name, space) {
			return true
		}
	}
	return false
}

// validateIDs reports the lists whose item is named by a placeholder that Caddy
// does not know in this form.
func validateIDs(r *ruleset.Ruleset) error {
	var errs []error
	for i, l := range r.Lists {
		if l == nil || l.ID == "" {
			continue
		}
		if err := checkPlaceholder(l.ID); err != nil {
			errs = append(errs, &ruleset.Problem{Path: fmt.Sprintf("lists[%d].id", i), Message: err.Error()})
		}
	}
	return errors.Join(errs...)
}
