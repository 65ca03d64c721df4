package caddymodule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hotboard/hotboard/caddymodule/caddyrules"
)

// maxConfirm is the maximum of the handler's Confirm.
const maxConfirm = caddy.Duration(10 * time.Second)

// validate reports all mistakes in the handler's settings at once.
func (h *Handler) validate() error {
	var errs []error
	check := func(option, value string) {
		if err := caddyrules.CheckPlaceholder(value); err != nil {
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
		if !caddyrules.HasPlaceholder(source) {
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
