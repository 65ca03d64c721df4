package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
)

// parseDirective reads the directive:
//
//	hotboard [<matcher>] {
//		lists         <name...>
//		prefix        <path>
//		allow_origins <origin...>
//		visitor       <placeholder>
//		user          <placeholder>
//		user_from_body
//		channel       <placeholder>|referrer...
//		confirm       <duration>
//		honor_opt_out
//		debug_header
//	}
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	h.Next() // hotboard
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	seen := make(map[string]bool)
	for h.NextBlock(0) {
		option := h.Val()
		switch option {
		case "lists", "allow_origins", "channel": // these may repeat
		default:
			if err := args.Once(h.Dispenser, option, seen[option]); err != nil {
				return nil, err
			}
		}
		seen[option] = true
		if err := handler.parseOption(h, option); err != nil {
			return nil, err
		}
	}
	return handler, nil
}

func (h *Handler) parseOption(d httpcaddyfile.Helper, option string) error {
	switch option {
	case "lists":
		return args.Words(d.Dispenser, &h.Lists)
	case "prefix":
		return args.Word(d.Dispenser, &h.Prefix)
	case "allow_origins":
		return args.Words(d.Dispenser, (*[]string)(&h.AllowOrigins))
	case "visitor":
		return args.Word(d.Dispenser, &h.Visitor)
	case "user":
		return args.Word(d.Dispenser, &h.User)
	case "user_from_body":
		return args.Toggle(d.Dispenser, &h.UserFromBody)
	case "channel":
		return args.Words(d.Dispenser, &h.Channel)
	case "confirm":
		var text string
		if err := args.Word(d.Dispenser, &text); err != nil {
			return err
		}
		length, err := caddy.ParseDuration(text)
		if err != nil {
			return d.Errf("confirm: %q is not a duration such as 500ms or 2s", text)
		}
		h.Confirm = caddy.Duration(length)
		return nil
	case "honor_opt_out":
		return args.Toggle(d.Dispenser, &h.HonorOptOut)
	case "debug_header":
		return args.Toggle(d.Dispenser, &h.DebugHeader)
	}
	return d.Errf("unknown option %q; options of hotboard: lists, prefix, allow_origins, visitor, user, user_from_body, "+
		"channel, confirm, honor_opt_out and debug_header", option)
}
