package bots

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/ruleset"
)

// clients holds the clients that the operator listed.
type clients struct {
	userAgents []string // in lower case
	// prefixes are grouped by length, so that the thousands of ranges of a cloud
	// cost only one lookup for each length.
	prefixes map[netip.Prefix]struct{}
	v4, v6   []int // the lengths
}

func newClients(c *ruleset.Clients) clients {
	var n clients
	if c == nil {
		return n
	}
	for _, ua := range c.UserAgents {
		n.userAgents = append(n.userAgents, toLower(ua))
	}
	n.prefixes = make(map[netip.Prefix]struct{})
	for _, p := range c.Prefixes() {
		if p.Addr().Is4In6() && p.Bits() >= 96 { // Caddy and net/http write such clients as IPv4
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		n.prefixes[p] = struct{}{}
		lengths := &n.v6
		if p.Addr().Is4() {
			lengths = &n.v4
		}
		if !slices.Contains(*lengths, p.Bits()) {
			*lengths = append(*lengths, p.Bits())
		}
	}
	return n
}

// named reports whether a User-Agent, in lower case, contains one of the texts.
func (c *clients) named(lower string) bool {
	for _, text := range c.userAgents {
		if strings.Contains(lower, text) {
			return true
		}
	}
	return false
}

// has reports whether one of the ranges contains an address.
func (c *clients) has(ip netip.Addr) bool {
	if len(c.prefixes) == 0 || !ip.IsValid() {
		return false
	}
	ip = ip.Unmap().WithZone("")
	lengths := c.v6
	if ip.Is4() {
		lengths = c.v4
	}
	for _, n := range lengths {
		p, err := ip.Prefix(n)
		if err != nil {
			continue
		}
		if _, ok := c.prefixes[p]; ok {
			return true
		}
	}
	return false
}
