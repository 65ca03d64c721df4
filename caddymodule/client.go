package caddymodule

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/visitors"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// referrerChannel as a source of the channel is the host of the Referer header, if
// that is another site's.
const referrerChannel = "referrer"

// client is what a request tells about who sent it. It stays in the memory of
// this process, for the time of a request.
type client struct {
	time      time.Time // when the request came
	ip        netip.Addr
	userAgent string
	who       visitors.Identity
	user      string // "" where the site knows nobody
	channel   string
	bot       bots.Verdict
	page      string // the path of the page that a script reports a view of
}

// clientOf looks at who sent r. Handlers that come later may change the request,
// so it is looked at before them.
func (h *Handler) clientOf(r *http.Request) client {
	c := client{time: clock.Now(), ip: clientIP(r), userAgent: first(r.Header["User-Agent"])}
	c.who = visitors.Client(c.ip, c.userAgent)
	if name := evaluate(r, h.Visitor); name != "" {
		c.who = visitors.Named(name)
	}
	c.user = evaluate(r, h.User)
	c.channel = h.channelOf(r)
	c.bot = h.app.bots.Classify(c.userAgent, c.ip)
	return c
}

// askedFor returns what the visitor asked for, before any rewrite: the method, the
// URL and the RequestURI.
func askedFor(r *http.Request) http.Request {
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return orig
	}
	return *r
}

// first returns the first value of a header; "" when there is none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// clientIP returns the address that Caddy found for the client, which heeds
// trusted_proxies and client_ip_headers; the zero Addr when there is none, as on
// a Unix socket.
func clientIP(r *http.Request) netip.Addr {
	s, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	ip, _ := netip.ParseAddr(s)
	return ip
}

// evaluate returns the value of a placeholder; "" when there is none.
func evaluate(r *http.Request, placeholder string) string {
	if placeholder == "" {
		return ""
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	return repl.ReplaceAll(placeholder, "")
}

// channelOf returns the first source of the channel that says something.
func (h *Handler) channelOf(r *http.Request) string {
	for _, source := range h.Channel {
		var c string
		if source == referrerChannel {
			c = referrerOf(r)
		} else {
			c = evaluate(r, source)
		}
		if c = validChannel(c); c != "" {
			return c
		}
	}
	return ""
}

// referrerOf returns the host of the page that led to r; "" for a page of the site
// itself, which says nothing of where a visitor came from.
func referrerOf(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || strings.EqualFold(from.Host, r.Host) {
		return ""
	}
	return strings.ToLower(from.Hostname())
}

// validChannel returns c if it can be a channel.
func validChannel(c string) string {
	if c == "" || len(c) > hit.MaxChannelBytes || hit.ValidID(c) != nil {
		return ""
	}
	return c
}

// limited returns c as limits look at it.
func (c *client) limited(l *ruleset.List, item string) limit.Hit {
	return limit.Hit{
		List: l, Item: item, Channel: c.channel, Device: c.bot.Device,
		IP: c.ip, User: c.user, VisitorIP: c.who.IP, VisitorText: c.who.Text,
	}
}

// view returns a view of c's, without what is known of the item.
func (c *client) view(rt *runtime, l *ruleset.List, item string) hit.Hit {
	return hit.Hit{
		Kind: hit.View, List: l.Name, Item: item,
		Visitor: rt.visitors.Of(c.who, rt.secrets.OfDay(c.time)), Time: c.time.UnixMilli(),
	}
}
