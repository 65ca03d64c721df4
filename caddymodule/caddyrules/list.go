package caddyrules

import (
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
	"github.com/hotboard/hotboard/ruleset"
)

// listFields maps options of a list to fields with another name.
var listFields = map[string]string{"page": "pages", "status": "statuses", "content_type": "content_types"}

// parseList reads one list:
//
//	list <name> {
//		page             <pattern...>
//		id               <placeholder>
//		status           <code...>
//		content_type     <type...>
//		published_header <name>
//		votes            <option...> {
//			…
//		}
//		dedup            <duration>
//		zone             <IANA zone>
//		weights          <view> <unique>
//		score            <model> {
//			…
//		}
//		boards           <period...>
//		keep             <period> <count>
//	}
func (p *Parser) parseList() error {
	l := new(ruleset.ListConfig)
	if !p.AllArgs(&l.Name) {
		return p.Err("a list needs one name: list <name> { … }")
	}
	path := p.addList(l)
	seen := make(map[string]bool)
	for p.NextBlock(1) {
		option := p.Val()
		if option != "page" && option != "keep" { // these may repeat
			if err := args.Once(p.Dispenser, option, seen[option]); err != nil {
				return err
			}
		}
		seen[option] = true
		field := option
		if name, ok := listFields[option]; ok {
			field = name
		}
		if option != "page" && option != "keep" {
			p.mark("%s.%s", path, field)
		}
		if err := p.parseListOption(l, path, option); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parser) parseListOption(l *ruleset.ListConfig, path, option string) error {
	d := p.Dispenser
	switch option {
	case "page":
		before := len(l.Pages)
		err := args.Words(d, &l.Pages)
		for i := before; i < len(l.Pages); i++ {
			p.mark("%s.pages[%d]", path, i)
		}
		return err
	case "id":
		if err := args.Word(d, &l.ID); err != nil {
			return err
		}
		l.ID = longForm(l.ID)
		return nil
	case "status":
		var codes []string
		if err := args.Words(d, &codes); err != nil {
			return err
		}
		for _, s := range codes {
			var code int
			if err := args.Whole(d, option, s, &code); err != nil {
				return err
			}
			l.Statuses = append(l.Statuses, code)
		}
		return nil
	case "content_type":
		return args.Words(d, &l.ContentTypes)
	case "published_header":
		return args.Word(d, &l.PublishedHeader)
	case "votes":
		return p.parseVotes(l, path)
	case "dedup":
		return args.Duration(d, option, &l.Dedup)
	case "zone":
		return args.Word(d, &l.Zone)
	case "weights":
		var pv, uv string
		if !d.AllArgs(&pv, &uv) {
			return d.Err("weights needs two numbers: the points of a view, and the extra points of a unique view")
		}
		l.Weights = new(ruleset.Weights)
		return errors.Join(args.Number(d, option, pv, &l.Weights.PV), args.Number(d, option, uv, &l.Weights.UV))
	case "score":
		return parseScore(d, &l.Score)
	case "boards":
		var periods []string
		if err := args.Words(d, &periods); err != nil {
			return err
		}
		for _, p := range periods {
			l.Boards = append(l.Boards, ruleset.Period(p))
		}
		return nil
	case "keep":
		return p.parseKeep(l, path)
	}
	return d.Errf("unknown option %q; options of list: page, id, status, content_type, published_header, "+
		"votes, dedup, zone, weights, score, boards and keep", option)
}

func (p *Parser) parseKeep(l *ruleset.ListConfig, path string) error {
	var period, count string
	if !p.AllArgs(&period, &count) {
		return p.Err("keep needs a period and a number, for example: keep day 35")
	}
	var n int
	if err := args.Whole(p.Dispenser, "keep", count, &n); err != nil {
		return err
	}
	if _, ok := l.Keep[ruleset.Period(period)]; ok {
		return p.Errf("duplicate keep %s", period)
	}
	if l.Keep == nil {
		l.Keep = make(map[ruleset.Period]int)
	}
	p.mark("%s.keep.%s", path, period)
	l.Keep[ruleset.Period(period)] = n
	return nil
}

// parseVotes reads the option that makes a list a poll:
//
//	votes <option...>|* {
//		opens  <time>
//		closes <time>
//		require_user
//	}
func (p *Parser) parseVotes(l *ruleset.ListConfig, path string) error {
	v := new(ruleset.Votes)
	l.Votes = v
	if err := args.Words(p.Dispenser, &v.Options); err != nil {
		return p.Err(`name what can be voted for, or * for anything: votes <option...>`)
	}
	seen := make(map[string]bool)
	for p.NextBlock(2) {
		option := p.Val()
		if err := args.Once(p.Dispenser, option, seen[option]); err != nil {
			return err
		}
		seen[option] = true
		p.mark("%s.votes.%s", path, option)
		var err error
		switch option {
		case "opens":
			err = moment(p.Dispenser, option, &v.Opens)
		case "closes":
			err = moment(p.Dispenser, option, &v.Closes)
		case "require_user":
			err = args.Toggle(p.Dispenser, &v.RequireUser)
		default:
			err = p.Errf("unknown option %q; options of votes: opens, closes and require_user", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moment reads an option with a time as its argument.
func moment(d *caddyfile.Dispenser, option string, v *time.Time) error {
	var text string
	if err := args.Word(d, &text); err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return d.Errf("%s: %q is not a time such as 2026-11-20T09:30:00Z or 2026-11-20T10:30:00+01:00", option, text)
	}
	*v = t
	return nil
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
	if err := args.Word(d, &model); err != nil {
		return err
	}
	s.Model = ruleset.Model(model)
	seen := make(map[string]bool)
	for d.NextBlock(2) {
		option := d.Val()
		if err := args.Once(d, option, seen[option]); err != nil {
			return err
		}
		seen[option] = true
		var err error
		switch option {
		case "base":
			err = args.NumberOption(d, option, &s.Base)
		case "gamma":
			err = args.NumberOption(d, option, &s.Gamma)
		case "half_life":
			err = args.Duration(d, option, &s.HalfLife)
		case "min_views":
			err = args.WholeOption(d, option, &s.MinViews)
		case "damping":
			err = args.Word(d, &s.Damping)
		default:
			err = d.Errf("unknown option %q; options of score: base, gamma, half_life, min_views and damping", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
