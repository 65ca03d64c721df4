// Package bots tells from a User-Agent whether a request comes from a program
// instead of a person.
package bots

import (
	"net/netip"
	"strings"

	"github.com/mileusna/useragent"

	"github.com/hotboard/hotboard/ruleset"
)

// maxUserAgent is the longest User-Agent whose verdict is remembered, and how
// much of a longer one is looked at, in bytes. Browsers send 60 to 300.
const maxUserAgent = 1024

// Verdict is what a User-Agent says about who sent it.
type Verdict struct {
	Bot bool
	// Class is the sort of bot: "crawler" for one that says so, "empty" for no
	// User-Agent at all. It is empty for a person.
	Class string
	// Reason says what gave the bot away: "name" when a User-Agent names a bot
	// that is known or has a bot's address, "no_user_agent" when there is none.
	// It is empty for a person.
	Reason string
	// Device is one of [ruleset.Devices].
	Device string
}

// Classifier gives verdicts and remembers them per User-Agent. It is safe for
// concurrent use.
type Classifier struct{ cache *cache }

// New returns a Classifier that remembers the verdicts of about cacheSize
// User-Agents, at least of one. A site sees some thousand different ones a day.
// The rules, which may be nil, are provisioned; their File is not read here.
func New(rules *ruleset.Bots, cacheSize int) *Classifier {
	return &Classifier{cache: newCache(max(1, cacheSize))}
}

// Classify returns the verdict on a client; ip is the zero Addr where it is not
// known. A User-Agent that was seen before costs no allocation.
func (c *Classifier) Classify(userAgent string, ip netip.Addr) Verdict {
	if len(userAgent) > maxUserAgent {
		return classify(userAgent[:maxUserAgent])
	}
	if v, ok := c.cache.get(userAgent); ok {
		return v
	}
	v := classify(userAgent)
	c.cache.put(userAgent, v)
	return v
}

func classify(userAgent string) Verdict {
	switch {
	case strings.TrimSpace(userAgent) == "" || userAgent == "-":
		return Verdict{Bot: true, Class: "empty", Reason: "no_user_agent"}
	case useragent.Parse(userAgent).Bot:
		return Verdict{Bot: true, Class: "crawler", Reason: "name"}
	}
	return Verdict{}
}
