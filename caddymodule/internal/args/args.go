// Package args reads the arguments of options in a Caddyfile. Its errors name the
// file, the line and the option.
package args

import (
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/ruleset"
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

// WholeOption reads an option with a whole number as its argument.
func WholeOption[N int | int64](d *caddyfile.Dispenser, option string, v *N) error {
	var text string
	if err := Word(d, &text); err != nil {
		return err
	}
	return Whole(d, option, text, v)
}

// Whole parses the argument text of an option as a whole number.
func Whole[N int | int64](d *caddyfile.Dispenser, option, text string, v *N) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(N(n)) != n {
		return d.Errf("%s: %q is not a whole number", option, text)
	}
	*v = N(n)
	return nil
}

// NumberOption reads an option with a number as its argument.
func NumberOption(d *caddyfile.Dispenser, option string, v *float64) error {
	var text string
	if err := Word(d, &text); err != nil {
		return err
	}
	return Number(d, option, text, v)
}

// Number parses the argument text of an option as a number.
func Number(d *caddyfile.Dispenser, option, text string, v *float64) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // JSON cannot represent the last two
		return d.Errf("%s: %q is not a number", option, text)
	}
	*v = n
	return nil
}

// Duration reads an option with a duration as its argument.
func Duration(d *caddyfile.Dispenser, option string, v *ruleset.Duration) error {
	var text string
	if err := Word(d, &text); err != nil {
		return err
	}
	length, err := ruleset.ParseDuration(text)
	if err != nil {
		return d.Errf("%s: %v", option, err)
	}
	*v = length
	return nil
}
