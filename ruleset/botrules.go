package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"
)

// Bots configures which clients are bots, in addition to the built-in rules, and
// which lists count their views. Allow takes precedence over Deny, and Deny over
// the file and the built-in rules.
type Bots struct {
	// File is the path of a list of patterns in the JSON format of
	// github.com/monperrus/crawler-user-agents: an array of objects whose
	// "pattern" is a regular expression to search for in the User-Agent. Hotboard
	// reads the file again when it changes. The path is relative to the file that
	// names it; in Caddy's JSON, to the server's working directory.
	File string `json:"file,omitempty"`
	// Allow lists clients that are never bots.
	Allow *Clients `json:"allow,omitempty"`
	// Deny lists clients that are always bots, unless Allow lists them too.
	Deny *Clients `json:"deny,omitempty"`
	// Count counts the views of bots as well, on lists of their own. The first
	// entry with the bot's class counts the view.
	Count []BotCount `json:"count,omitempty"`
}

// Clients selects clients by User-Agent or address.
type Clients struct {
	// UserAgents are substrings of the User-Agent, in any case.
	UserAgents []string `json:"user_agents,omitempty"`
	// CIDRs are ranges of addresses, such as 192.0.2.0/24, or single addresses.
	CIDRs []string `json:"cidrs,omitempty"`
}

// Prefixes returns the CIDRs of compiled rules.
func (c *Clients) Prefixes() []netip.Prefix {
	prefixes := make([]netip.Prefix, len(c.CIDRs))
	for i, s := range c.CIDRs {
		prefixes[i] = netip.MustParsePrefix(s)
	}
	return prefixes
}

// BotCount counts the views of bots of some classes on a list.
type BotCount struct {
	// List is a list without pages. Its items are the items of the requested
	// page's list.
	List string `json:"list"`
	// Classes are bot classes of package bots, such as ai_crawler. Default: all.
	Classes []string `json:"classes,omitempty"`
}

// BotClasses lists every class of bot.
var BotClasses = []string{
	"ai_crawler", "search_engine", "seo_tool", "feed_reader", "http_library", "monitor",
	"headless_browser", "link_preview", "crawler", "scanner", "archiver", "empty", "denied", "other",
}

// CountBot returns the list that counts bots of a class, or nil.
func (r *Rules) CountBot(class string) *List {
	if r.Bots == nil {
		return nil
	}
	for i := range r.Bots.Count {
		c := &r.Bots.Count[i]
		if len(c.Classes) == 0 || slices.Contains(c.Classes, class) {
			return r.List(c.List)
		}
	}
	return nil
}

// CountsBots reports whether a list counts bots. Beacons never count on such a
// list.
func (r *Rules) CountsBots(list string) bool {
	return r.Bots != nil && slices.ContainsFunc(r.Bots.Count, func(c BotCount) bool { return c.List == list })
}

// compileBots returns rules for bots in which each CIDR is the range of a prefix.
func compileBots(c *Bots, at *problemList, lists []*ListConfig) *Bots {
	b := new(Bots)
	*b = *c
	b.Allow = compileClients(c.Allow, at, "allow")
	b.Deny = compileClients(c.Deny, at, "deny")
	for i, c := range b.Count {
		path := fmt.Sprintf("count[%d].", i)
		n := slices.IndexFunc(lists, func(l *ListConfig) bool { return l != nil && l.Name == c.List })
		switch {
		case n < 0:
			at.addf(path+"list", "unknown list %q", c.List)
		case len(lists[n].Pages) > 0 || lists[n].ID != "" || lists[n].Votes != nil:
			at.addf(path+"list", "list %q counts people: count bots on a list without pages, id and votes", c.List)
		}
		for j, class := range c.Classes {
			if !slices.Contains(BotClasses, class) {
				at.addf(fmt.Sprintf("%sclasses[%d]", path, j), "%q is not one of %s", class, join(BotClasses))
			}
		}
	}
	return b
}

func compileClients(c *Clients, at *problemList, path string) *Clients {
	if c == nil || len(c.UserAgents)+len(c.CIDRs) == 0 {
		return nil
	}
	for i, ua := range c.UserAgents {
		switch path := fmt.Sprintf("%s.user_agents[%d]", path, i); {
		case len(ua) < 2:
			at.addf(path, "%q matches nearly every User-Agent: use a longer text", ua)
		case !utf8.ValidString(ua):
			at.addf(path, "%q is not valid UTF-8", ua)
		}
	}
	cidrs := make([]string, len(c.CIDRs))
	for i, s := range c.CIDRs {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, addrErr := netip.ParseAddr(s)
			if addrErr != nil || a.Zone() != "" {
				at.addf(fmt.Sprintf("%s.cidrs[%d]", path, i), "%q is not a range of addresses such as 192.0.2.0/24 or 2001:db8::/32", s)
				continue
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		cidrs[i] = p.Masked().String()
	}
	return &Clients{UserAgents: c.UserAgents, CIDRs: cidrs}
}
