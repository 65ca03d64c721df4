package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hotboard/hotboard/caddymodule/caddyrules"
	"github.com/hotboard/hotboard/caddymodule/internal/args"
)

// parseGlobalOption reads the global option:
//
//	hotboard {
//		dir        <path>
//		nats       <url...> { … }
//		embedded   [<dir>]
//		limit_keys <count>
//		rules_file <file>
//		list <name> {
//			…
//		}
//		limit <name> {
//			…
//		}
//		bots {
//			…
//		}
//	}
//
// rules_file reads lists, limits and bots from a YAML file, such as the
// aggregator's, while the Caddyfile is adapted, so a reload reads its changes.
// Its path is relative to the Caddyfile's directory.
//
// It reports mistakes in the rules here, where each has a line, before the
// configuration is loaded.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // hotboard
	if existing != nil {
		return nil, d.Err("duplicate global option hotboard")
	}
	p := caddyrules.NewParser(d)
	app := new(App)
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	for d.NextBlock(0) {
		if err := app.parseOption(d, p, d.Val()); err != nil {
			return nil, err
		}
	}
	var err error
	if app.Config, err = p.Config(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "hotboard", Value: caddyconfig.JSON(app, nil)}, nil
}

func (app *App) parseOption(d *caddyfile.Dispenser, p *caddyrules.Parser, option string) error {
	switch option {
	case "dir":
		if err := args.Once(d, option, app.Dir != ""); err != nil {
			return err
		}
		return args.Word(d, &app.Dir)
	case "nats", "embedded":
		if app.BrokerRaw != nil {
			return d.Errf("%s: a broker is already set", option)
		}
		var err error
		app.BrokerRaw, err = parseBroker(d, option)
		return err
	case "limit_keys":
		if err := args.Once(d, option, app.LimitKeys != 0); err != nil {
			return err
		}
		if err := args.Whole(d, option, &app.LimitKeys); err != nil {
			return err
		}
		if app.LimitKeys < 1 {
			return d.Errf("limit_keys: %d is less than 1", app.LimitKeys)
		}
		return nil
	case "rules_file", "list", "limit", "bots":
		return p.Parse(option)
	}
	return d.Errf("unknown option %q; options of hotboard: dir, nats, embedded, limit_keys, rules_file, list, limit and bots", option)
}

func parseBroker(d *caddyfile.Dispenser, name string) ([]byte, error) {
	id := brokerNamespace + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("%s: this Caddy lacks the embedded broker: build Caddy with github.com/hotboard/hotboard/caddymodule/allinone", name)
	}
	u, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	broker, ok := u.(Broker)
	if !ok {
		return nil, d.Errf("the module %s is not a broker", id)
	}
	return caddyconfig.JSONModuleObject(broker, "type", name, nil), nil
}
