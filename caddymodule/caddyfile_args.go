package caddymodule

import (
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/ruleset"
)

// once refuses an option that is set already.
func once(d *caddyfile.Dispenser, option string, set bool) error {
	if set {
		return d.Errf("%s is there twice", option)
	}
	return nil
}

// word reads the one argument of an option.
func word(d *caddyfile.Dispenser, v *string) error {
	if !d.AllArgs(v) {
		return d.ArgErr()
	}
	return nil
}

// words reads the arguments of an option, one at least.
func words(d *caddyfile.Dispenser, v *[]string) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	*v = append(*v, args...)
	return nil
}

// toggle reads an option that has no argument.
func toggle(d *caddyfile.Dispenser, v *bool) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	*v = true
	return nil
}

// wholeOption reads an option whose argument is a whole number.
func wholeOption[N int | int64](d *caddyfile.Dispenser, option string, v *N) error {
	var text string
	if err := word(d, &text); err != nil {
		return err
	}
	return whole(d, option, text, v)
}

func whole[N int | int64](d *caddyfile.Dispenser, option, text string, v *N) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(N(n)) != n {
		return d.Errf("%s: %q is not a whole number", option, text)
	}
	*v = N(n)
	return nil
}

// numberOption reads an option whose argument is a number.
func numberOption(d *caddyfile.Dispenser, option string, v *float64) error {
	var text string
	if err := word(d, &text); err != nil {
		return err
	}
	return number(d, option, text, v)
}

func number(d *caddyfile.Dispenser, option, text string, v *float64) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // JSON has no way to write the last two
		return d.Errf("%s: %q is not a number", option, text)
	}
	*v = n
	return nil
}

// duration reads an option whose argument is a duration.
func duration(d *caddyfile.Dispenser, option string, v *ruleset.Duration) error {
	var text string
	if err := word(d, &text); err != nil {
		return err
	}
	length, err := ruleset.ParseDuration(text)
	if err != nil {
		return d.Errf("%s: %v", option, err)
	}
	*v = length
	return nil
}
