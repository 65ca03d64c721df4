package caddymodule

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/ruleset"
)

// parseGlobalOption reads the global option:
//
//	hotboard {
//		dir        <path>
//		nats       <url...> { … }
//		embedded   [<dir>]
//		rules_file <file>
//		list <name> {
//			…
//		}
//	}
//
// rules_file reads lists from a YAML file, such as the aggregator has, while the
// Caddyfile is adapted: so a reload sees what changed in it. Its path is
// relative to the Caddyfile's directory.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // hotboard
	if existing != nil {
		return nil, d.Err("the global option hotboard is there twice")
	}
	app := new(App)
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	for d.NextBlock(0) {
		var err error
		switch option := d.Val(); option {
		case "dir":
			err = once(d, option, app.Dir != "")
			if err == nil && !d.AllArgs(&app.Dir) {
				err = d.ArgErr()
			}
		case "nats", "embedded":
			if app.BrokerRaw != nil {
				return nil, d.Errf("%s: the broker is set already", option)
			}
			app.BrokerRaw, err = parseBroker(d, option)
		case "rules_file":
			err = parseRulesFile(d, &app.Ruleset)
		case "list":
			var l *ruleset.List
			if l, err = parseList(d); err == nil {
				app.Ruleset.Lists = append(app.Ruleset.Lists, l)
			}
		default:
			err = d.Errf("unknown option %q; hotboard knows dir, nats, embedded, rules_file and list", option)
		}
		if err != nil {
			return nil, err
		}
	}
	return httpcaddyfile.App{Name: "hotboard", Value: caddyconfig.JSON(app, nil)}, nil
}

func once(d *caddyfile.Dispenser, option string, set bool) error {
	if set {
		return d.Errf("%s is there twice", option)
	}
	return nil
}

func parseBroker(d *caddyfile.Dispenser, name string) ([]byte, error) {
	id := brokerNamespace + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("%s: this Caddy is built without it: build with github.com/hotboard/hotboard/caddymodule/allinone", name)
	}
	u, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	broker, ok := u.(Broker)
	if !ok {
		return nil, d.Errf("the module %s is no broker", id)
	}
	return caddyconfig.JSONModuleObject(broker, "type", name, nil), nil
}

func parseRulesFile(d *caddyfile.Dispenser, rules *ruleset.Ruleset) error {
	var name string
	if !d.AllArgs(&name) {
		return d.ArgErr()
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.File()), name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return d.Errf("rules_file: %v", err)
	}
	r, err := ruleset.ParseYAML(name, data)
	if err != nil {
		return d.Errf("rules_file:\n%v", err)
	}
	rules.Lists = append(rules.Lists, r.Lists...)
	return nil
}

// parseDirective reads the directive:
//
//	hotboard [<matcher>] {
//		lists         <name...>
//		prefix        <path>
//		allow_origins <origin...>
//		visitor       <placeholder>
//		honor_opt_out
//		debug_header
//	}
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	h.Next() // hotboard
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	for h.NextBlock(0) {
		switch option := h.Val(); option {
		case "lists":
			names := h.RemainingArgs()
			if len(names) == 0 {
				return nil, h.ArgErr()
			}
			handler.Lists = append(handler.Lists, names...)
		case "prefix":
			if err := once(h.Dispenser, option, handler.Prefix != ""); err != nil {
				return nil, err
			}
			if !h.AllArgs(&handler.Prefix) {
				return nil, h.ArgErr()
			}
		case "allow_origins":
			names := h.RemainingArgs()
			if len(names) == 0 {
				return nil, h.ArgErr()
			}
			handler.AllowOrigins = append(handler.AllowOrigins, names...)
		case "visitor":
			if err := once(h.Dispenser, option, handler.Visitor != ""); err != nil {
				return nil, err
			}
			if !h.AllArgs(&handler.Visitor) {
				return nil, h.ArgErr()
			}
		case "honor_opt_out", "debug_header":
			if h.NextArg() {
				return nil, h.ArgErr()
			}
			if option == "debug_header" {
				handler.DebugHeader = true
			} else {
				handler.HonorOptOut = true
			}
		default:
			return nil, h.Errf("unknown option %q; hotboard knows lists, prefix, allow_origins, visitor, "+
				"honor_opt_out and debug_header", option)
		}
	}
	return handler, nil
}

// parseList reads one list:
//
//	list <name> {
//		page             <pattern...>
//		id               <placeholder>
//		status           <code...>
//		content_type     <type...>
//		published_header <name>
//		dedup            <duration>
//		zone             <IANA zone>
//		weights          <view> <unique>
//		score            <model> {
//			…
//		}
//		boards           <period...>
//		keep             <period> <count>
//	}
func parseList(d *caddyfile.Dispenser) (*ruleset.List, error) {
	l := new(ruleset.List)
	if !d.AllArgs(&l.Name) {
		return nil, d.Err("a list has a name: list <name> { … }")
	}
	seen := make(map[string]bool)
	for d.NextBlock(1) {
		option := d.Val()
		if option != "page" && option != "keep" { // these add up
			if err := once(d, option, seen[option]); err != nil {
				return nil, err
			}
		}
		seen[option] = true
		if err := parseListOption(d, l, option); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func parseListOption(d *caddyfile.Dispenser, l *ruleset.List, option string) error {
	switch option {
	case "page":
		return words(d, &l.Pages)
	case "id":
		return word(d, &l.ID)
	case "status":
		var codes []string
		if err := words(d, &codes); err != nil {
			return err
		}
		for _, s := range codes {
			code, err := strconv.Atoi(s)
			if err != nil {
				return d.Errf("status: %q is not a number", s)
			}
			l.Statuses = append(l.Statuses, code)
		}
		return nil
	case "content_type":
		return words(d, &l.ContentTypes)
	case "published_header":
		return word(d, &l.PublishedHeader)
	case "dedup":
		return duration(d, option, &l.Dedup)
	case "zone":
		return word(d, &l.Zone)
	case "weights":
		var pv, uv string
		if !d.AllArgs(&pv, &uv) {
			return d.Err("weights has two numbers: what a view adds, and what a unique view adds to that")
		}
		l.Weights = new(ruleset.Weights)
		return errors.Join(number(d, option, pv, &l.Weights.PV), number(d, option, uv, &l.Weights.UV))
	case "score":
		return parseScore(d, &l.Score)
	case "boards":
		var periods []string
		if err := words(d, &periods); err != nil {
			return err
		}
		for _, p := range periods {
			l.Boards = append(l.Boards, ruleset.Period(p))
		}
		return nil
	case "keep":
		var period, count string
		if !d.AllArgs(&period, &count) {
			return d.Err("keep has a period and a number, for example: keep day 35")
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			return d.Errf("keep: %q is not a whole number", count)
		}
		if _, ok := l.Keep[ruleset.Period(period)]; ok {
			return d.Errf("keep %s is there twice", period)
		}
		if l.Keep == nil {
			l.Keep = make(map[ruleset.Period]int)
		}
		l.Keep[ruleset.Period(period)] = n
		return nil
	}
	return d.Errf("unknown option %q; a list knows page, id, status, content_type, published_header, "+
		"dedup, zone, weights, score, boards and keep", option)
}

// parseScore reads:
//
//	score <model> {
//		base      <hours>
//		gamma     <number>
//		half_life <duration>
//		min_views <count>
//		damping   log
//	}
func parseScore(d *caddyfile.Dispenser, s *ruleset.Score) error {
	var model string
	if err := word(d, &model); err != nil {
		return err
	}
	s.Model = ruleset.Model(model)
	seen := make(map[string]bool)
	for d.NextBlock(2) {
		option := d.Val()
		if err := once(d, option, seen[option]); err != nil {
			return err
		}
		seen[option] = true
		var text string
		var err error
		switch option {
		case "base":
			err = numberOption(d, option, &s.Base)
		case "gamma":
			err = numberOption(d, option, &s.Gamma)
		case "half_life":
			err = duration(d, option, &s.HalfLife)
		case "min_views":
			if err = word(d, &text); err != nil {
				break
			}
			if s.MinViews, err = strconv.ParseInt(text, 10, 64); err != nil {
				err = d.Errf("%s: %q is not a whole number", option, text)
			}
		case "damping":
			err = word(d, &s.Damping)
		default:
			err = d.Errf("unknown option %q; score knows base, gamma, half_life, min_views and damping", option)
		}
		if err != nil {
			return err
		}
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

func numberOption(d *caddyfile.Dispenser, option string, v *float64) error {
	var text string
	if err := word(d, &text); err != nil {
		return err
	}
	return number(d, option, text, v)
}

func number(d *caddyfile.Dispenser, option, text string, v *float64) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return d.Errf("%s: %q is not a number", option, text)
	}
	*v = n
	return nil
}

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
