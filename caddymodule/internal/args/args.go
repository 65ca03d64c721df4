// Package args reads the arguments of options in a Caddyfile. Its errors name the
// file, the line and the option.
package args

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Once refuses an option that is already set.
func Once(d *caddyfile.Dispenser, option string, set bool) error {
	if set {
		return d.Errf("duplicate %s", option)
	}
	return nil
}

// Word reads the only argument of an option.
func Word(d *caddyfile.Dispenser, v *string) error {
	if !d.AllArgs(v) {
		return d.ArgErr()
	}
	return nil
}

// Words reads one or more arguments of an option.
func Words(d *caddyfile.Dispenser, v *[]string) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	*v = append(*v, args...)
	return nil
}

// Toggle reads an option without arguments.
func Toggle(d *caddyfile.Dispenser, v *bool) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	*v = true
	return nil
}

// Whole reads an option with a whole number as its argument.
func Whole(d *caddyfile.Dispenser, option string, v *int) error {
	var text string
	if err := Word(d, &text); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return d.Errf("%s: %q is not a whole number", option, text)
	}
	*v = n
	return nil
}
