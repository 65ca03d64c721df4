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

// referrerChannel as a source of the channel is the host of the Referer header,
// if it is another site.
const referrerChannel = "referrer"

// client describes the sender of a request. It stays in this process's memory for
// the time of the request.
type client struct {
	time      time.Time // arrival of the request
	ip        netip.Addr
	userAgent string
	who       visitors.Identity
	user      string // "" if nobody is signed in
	channel   string
	bot       bots.Classification
	page      string // path of the page whose view a script reports
}

// clientOf identifies the sender of r. Call it before later handlers, because
// they may change the request.
func (h *instance) clientOf(r *http.Request) client {
	c := client{time: clock.Now(), ip: clientIP(r), userAgent: first(r.Header["User-Agent"])}
	c.who = visitors.Client(c.ip, c.userAgent)
	if name := evaluate(r, h.Visitor); name != "" {
		c.who = visitors.Named(name)
	}
	c.user = evaluate(r, h.User)
	c.channel = h.channelOf(r)
	c.bot = h.bots.Classify(c.userAgent, c.ip)
	return c
}

// askedFor returns the original request of the visitor, before any rewrite: the
// method, the URL and the RequestURI.
func askedFor(r *http.Request) http.Request {
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return orig
	}
	return *r
}

// first returns the first value of a header, or "" if there is none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// clientIP returns the client's address as determined by Caddy with
// trusted_proxies and client_ip_headers. It returns the zero Addr if there is
// none, as on a Unix socket.
func clientIP(r *http.Request) netip.Addr {
	s, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	ip, _ := netip.ParseAddr(s)
	return ip
}

// evaluate returns the value of a placeholder, or "" if there is none.
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

// channelOf returns the value of the first source with a valid channel.
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

// referrerOf returns the host of the page that led to r, or "" for a page of the
// site itself, which does not reveal the visitor's origin.
func referrerOf(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || strings.EqualFold(from.Host, r.Host) {
		return ""
	}
	return strings.ToLower(from.Hostname())
}

// validChannel returns c if it is a valid channel.
func validChannel(c string) string {
	if c == "" || len(c) > hit.MaxChannelBytes || hit.ValidID(c) != nil {
		return ""
	}
	return c
}

// limited returns c in the form that limits use.
func (c *client) limited(l *ruleset.List, item string) limit.Hit {
	return limit.Hit{
		List: l, Item: item, Channel: c.channel, Device: c.bot.Device,
		IP: c.ip, User: c.user, VisitorIP: c.who.IP, VisitorText: c.who.Text,
	}
}

// viewBy returns a view by c, without the data of the item.
func (h *instance) viewBy(c *client, rt *runtime, l *ruleset.List, item string) hit.Hit {
	return hit.Hit{
		Kind: hit.View, List: l.Name, Item: item, Rules: h.rules.ID(),
		Visitor: rt.visitors.Of(c.who, rt.secrets.OfDay(c.time)), Time: c.time.UnixMilli(),
	}
}
