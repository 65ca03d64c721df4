package caddyrules

import (
	"path/filepath"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
	"github.com/hotboard/hotboard/ruleset"
)

// parseBots reads the options that classify clients as bots:
//
//	bots {
//		file  <path>
//		allow user_agent <text...>
//		allow cidr       <range...>
//		deny  user_agent <text...>
//		deny  cidr       <range...>
//		count <list> [<class...>]
//	}
//
// allow, deny and count may repeat. The path of the file is relative to the
// Caddyfile. parseBots makes it absolute, because the server may run in another
// directory than the command that adapts the Caddyfile.
func (p *Parser) parseBots() error {
	b := new(ruleset.Bots)
	if p.NextArg() {
		return p.ArgErr()
	}
	if err := p.setBots(b); err != nil {
		return err
	}
	for p.NextBlock(1) {
		var err error
		switch option := p.Val(); option {
		case "file":
			if err = args.Once(p.Dispenser, option, b.File != ""); err == nil {
				err = p.parseBotsFile(b)
			}
		case "allow":
			err = p.parseClients(option, &b.Allow)
		case "deny":
			err = p.parseClients(option, &b.Deny)
		case "count":
			values := p.RemainingArgs()
			if len(values) == 0 {
				return p.Err("count needs a list without pages, and optionally classes of bots: count <list> [<class...>]")
			}
			p.mark("bots.count[%d]", len(b.Count))
			b.Count = append(b.Count, ruleset.BotCount{List: values[0], Classes: values[1:]})
		default:
			err = p.Errf("unknown option %q; options of bots: file, allow, deny and count", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Parser) parseBotsFile(b *ruleset.Bots) error {
	if err := args.Word(p.Dispenser, &b.File); err != nil {
		return err
	}
	if b.File == "" {
		return p.Err("file: the path is empty")
	}
	file, err := filepath.Abs(beside(p.File(), b.File))
	if err != nil {
		return p.Errf("file: %v", err)
	}
	b.File = file
	return nil
}

func (p *Parser) parseClients(option string, clients **ruleset.Clients) error {
	var what string
	var values []string
	if !p.Args(&what) || args.Words(p.Dispenser, &values) != nil {
		return p.Errf("%[1]s needs a kind and values: %[1]s user_agent <text...> or %[1]s cidr <range...>", option)
	}
	if *clients == nil {
		*clients = new(ruleset.Clients)
	}
	field := &(*clients).UserAgents
	switch what {
	case "user_agent":
	case "cidr":
		field = &(*clients).CIDRs
	default:
		return p.Errf("%s: %q is neither user_agent nor cidr", option, what)
	}
	for _, arg := range values {
		p.mark("bots.%s.%ss[%d]", option, what, len(*field))
		*field = append(*field, arg)
	}
	return nil
}
