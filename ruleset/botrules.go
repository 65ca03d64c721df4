package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
)

// Bots says which clients are programs, beside the rules that are built in, and
// what becomes of their views. Allow is asked before Deny, Deny before the file
// and the built-in rules.
type Bots struct {
	// File is a list of patterns in the JSON format of
	// github.com/monperrus/crawler-user-agents: an array of objects with a
	// "pattern", a regular expression that is looked for in the User-Agent. The
	// file is read again when it changes. Its path is relative to the file that
	// names it; in Caddy's JSON, to the server's working directory.
	File string `json:"file,omitempty"`
	// Allow are clients that are people whatever else says.
	Allow *Clients `json:"allow,omitempty"`
	// Deny are clients that are bots whatever else says.
	Deny *Clients `json:"deny,omitempty"`
	// Count counts bots' views too, each on a list of its own. The first entry
	// that has the bot's class counts it.
	Count []BotCount `json:"count,omitempty"`
}

// Clients names clients.
type Clients struct {
	// UserAgents are texts that a User-Agent has in it, in any case.
	UserAgents []string `json:"user_agents,omitempty"`
	// CIDRs are ranges of addresses, such as 192.0.2.0/24, or single ones.
	CIDRs []string `json:"cidrs,omitempty"`

	prefixes []netip.Prefix
}

// Prefixes returns the CIDRs.
func (c *Clients) Prefixes() []netip.Prefix { return c.prefixes }

// BotCount counts the views of bots of some classes on a list.
type BotCount struct {
	// List is a list without pages: the items are those of the list that the
	// request is a page of.
	List string `json:"list"`
	// Classes are those of package bots, such as ai_crawler. Default: all.
	Classes []string `json:"classes,omitempty"`
}

// BotClasses is every class of bot.
var BotClasses = []string{
	"ai_crawler", "search_engine", "seo_tool", "feed_reader", "http_library", "monitor",
	"headless_browser", "link_preview", "crawler", "scanner", "archiver", "empty", "denied", "other",
}

// CountBot returns the list that bots of a class are counted on, or nil.
func (r *Ruleset) CountBot(class string) *List {
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

// CountsBots reports whether a list is one that bots are counted on. Beacons
// are none of its business.
func (r *Ruleset) CountsBots(list string) bool {
	return r.Bots != nil && slices.ContainsFunc(r.Bots.Count, func(c BotCount) bool { return c.List == list })
}

func (b *Bots) provision(at *problemList, r *Ruleset) {
	b.Allow.provision(at, "allow")
	b.Deny.provision(at, "deny")
	for i, c := range b.Count {
		path := fmt.Sprintf("count[%d].", i)
		switch l := r.List(c.List); {
		case l == nil:
			at.addf(path+"list", "there is no list %q", c.List)
		case len(l.Pages) > 0 || l.ID != "" || l.Votes != nil:
			at.addf(path+"list", "the list %q counts views or votes of people: bots are counted on one without pages, id and votes", c.List)
		}
		for j, class := range c.Classes {
			if !slices.Contains(BotClasses, class) {
				at.addf(fmt.Sprintf("%sclasses[%d]", path, j), "%q is not one of %s", class, join(BotClasses))
			}
		}
	}
}

func (c *Clients) provision(at *problemList, path string) {
	if c == nil {
		return
	}
	for i, ua := range c.UserAgents {
		if len(ua) < 2 {
			at.addf(fmt.Sprintf("%s.user_agents[%d]", path, i), "%q is in nearly every User-Agent: write more of it", ua)
		}
	}
	c.prefixes = c.prefixes[:0]
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
		c.prefixes = append(c.prefixes, p.Masked())
	}
}
