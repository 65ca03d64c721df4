package caddyrules

import (
	"fmt"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
	"github.com/hotboard/hotboard/ruleset"
)

// parseLimit reads one limit:
//
//	limit <name> {
//		by          <dimension...>
//		ipv4_prefix <bits>
//		ipv6_prefix <bits>
//		max         <count> per <span> [burst <count>] [calendar]
//		when        list|channel|device <name...>
//		bonus       <channel> <count>
//		shadow
//	}
//
// max, when and bonus may repeat.
func (p *Parser) parseLimit() error {
	l := new(ruleset.Limit)
	if !p.AllArgs(&l.Name) {
		return p.Err("a limit needs one name: limit <name> { … }")
	}
	path := p.addLimit(l)
	seen := make(map[string]bool)
	for p.NextBlock(1) {
		option := p.Val()
		var err error
		switch option {
		case "max":
			p.mark("%s.windows[%d]", path, len(l.Windows))
			err = p.parseWindow(l)
		case "when":
			err = p.parseWhen(l, path)
		case "bonus":
			p.mark("%s.bonus", path)
			err = p.parseBonus(l)
		default:
			if err = args.Once(p.Dispenser, option, seen[option]); err == nil {
				p.mark("%s.%s", path, option)
				err = p.parseLimitOption(l, option)
			}
			seen[option] = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Parser) parseLimitOption(l *ruleset.Limit, option string) error {
	switch option {
	case "by":
		var names []string
		if err := args.Words(p.Dispenser, &names); err != nil {
			return err
		}
		for _, name := range names {
			l.By = append(l.By, ruleset.Dimension(name))
		}
		return nil
	case "ipv4_prefix":
		return p.parsePrefix(option, &l.IPv4Prefix)
	case "ipv6_prefix":
		return p.parsePrefix(option, &l.IPv6Prefix)
	case "shadow":
		return args.Toggle(p.Dispenser, &l.Shadow)
	}
	return p.Errf("unknown option %q; options of limit: by, ipv4_prefix, ipv6_prefix, max, when, bonus and shadow", option)
}

func (p *Parser) parsePrefix(option string, bits *int) error {
	if err := args.WholeOption(p.Dispenser, option, bits); err != nil {
		return err
	}
	if *bits == 0 { // JSON would omit it
		return p.Errf("%s: 0 bits would treat all addresses as one: remove ip from by", option)
	}
	return nil
}

func (p *Parser) parseWindow(l *ruleset.Limit) error {
	const form = "invalid max: write for example max 10 per minute, max 5 per 10s burst 20, max 100 per day, max 10 per minute calendar"
	var w ruleset.Window
	var count, per, span string
	if !p.Args(&count, &per, &span) || per != "per" {
		return p.Err(form)
	}
	if err := args.Whole(p.Dispenser, "max", count, &w.Max); err != nil {
		return err
	}
	w.Per = ruleset.Span(span)
	for p.NextArg() {
		switch word := p.Val(); {
		case word == "burst" && w.Burst == 0:
			var burst string
			if !p.Args(&burst) {
				return p.Err(form)
			}
			if err := args.Whole(p.Dispenser, "burst", burst, &w.Burst); err != nil {
				return err
			}
			if w.Burst == 0 {
				return p.Err("burst: 0 would refuse everything")
			}
		case word == "calendar" && !w.Calendar:
			w.Calendar = true
		default:
			return p.Err(form)
		}
	}
	l.Windows = append(l.Windows, w)
	return nil
}

func (p *Parser) parseWhen(l *ruleset.Limit, path string) error {
	var what string
	var names []string
	if !p.Args(&what) || args.Words(p.Dispenser, &names) != nil {
		return p.Err("when needs a kind and names: when list|channel|device <name...>")
	}
	if l.When == nil {
		l.When = new(ruleset.When)
	}
	var field *[]string
	switch what {
	case "list":
		field = &l.When.Lists
	case "channel":
		field = &l.When.Channels
	case "device":
		field = &l.When.Devices
	default:
		return p.Errf("when: %q is not one of list, channel and device", what)
	}
	for range names {
		p.mark("%s.when.%ss[%d]", path, what, len(*field))
		*field = append(*field, names[0])
		names = names[1:]
	}
	return nil
}

func (p *Parser) parseBonus(l *ruleset.Limit) error {
	var channel, count string
	if !p.AllArgs(&channel, &count) {
		return p.Err("bonus needs a channel and a number, for example: bonus newsletter 5")
	}
	var n int64
	if err := args.Whole(p.Dispenser, "bonus", count, &n); err != nil {
		return err
	}
	if _, ok := l.Bonus[channel]; ok {
		return p.Err(fmt.Sprintf("duplicate bonus %s", channel))
	}
	if l.Bonus == nil {
		l.Bonus = make(map[string]int64)
	}
	l.Bonus[channel] = n
	return nil
}
