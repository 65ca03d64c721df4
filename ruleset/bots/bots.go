// Package bots tells from a User-Agent and an address whether a request comes
// from a program instead of a person, what sort of program, and why it is held
// to be one.
//
// The operator's own words come first: who is allowed, then who is denied. Then
// come the patterns of a file, then the rules that are built in, which look at
// how browsers write User-Agents, at the words in them, and at the names of
// families of programs.
package bots

import (
	"net/netip"
	"sync/atomic"

	"github.com/hotboard/hotboard/ruleset"
)

// maxUserAgent is the longest User-Agent whose verdict is remembered, and how
// much of a longer one is looked at, in bytes. Browsers send 60 to 300.
const maxUserAgent = 1024

// Verdict is what is known about who sent a request.
type Verdict struct {
	Bot bool
	// Class is the sort of bot, one of [ruleset.BotClasses]. It is empty for a
	// person.
	Class string
	// Reason says what gave the bot away, in words of ours or of the operator's
	// file, never of the request: "no_user_agent", "deny cidr", "deny user_agent",
	// "pattern …", "token …", "word …" or "structure: …". For a person it is
	// empty, or says what allowed them: "allow cidr" or "allow user_agent".
	Reason string
	// Device is one of [ruleset.Devices].
	Device string
}

// Classifier gives verdicts and remembers them per User-Agent. It is safe for
// concurrent use.
type Classifier struct {
	allow, deny clients
	cacheSize   int
	known       *builtIn
	rules       atomic.Pointer[rules]
}

// rules are what a verdict on a User-Agent follows from, and the verdicts that
// did. They change together, so that no verdict outlives the patterns it
// followed from.
type rules struct {
	patterns *Patterns // nil when there are none
	cache    *cache
}

// New returns a Classifier that remembers the verdicts of about cacheSize
// User-Agents, at least of one. A site sees some thousand different ones a day.
// The rules, which may be nil, are provisioned; their File is not read here, see
// [LoadFile] and [Classifier.SetPatterns].
func New(b *ruleset.Bots, cacheSize int) *Classifier {
	c := &Classifier{cacheSize: max(1, cacheSize), known: newBuiltIn()}
	if b != nil {
		c.allow, c.deny = newClients(b.Allow), newClients(b.Deny)
	}
	c.SetPatterns(nil)
	return c
}

// SetPatterns puts the patterns of a file in force, in place of those before,
// and forgets the verdicts. Nil means none.
func (c *Classifier) SetPatterns(p *Patterns) {
	c.rules.Store(&rules{patterns: p, cache: newCache(c.cacheSize)})
}

// Classify returns the verdict on a client; ip is the zero Addr where it is not
// known. A User-Agent that was seen before costs no allocation.
func (c *Classifier) Classify(userAgent string, ip netip.Addr) Verdict {
	r := c.rules.Load()
	var known agent
	if len(userAgent) > maxUserAgent {
		known = c.judge(userAgent[:maxUserAgent], r.patterns)
	} else {
		var ok bool
		if known, ok = r.cache.get(userAgent); !ok {
			known = c.judge(userAgent, r.patterns)
			r.cache.put(userAgent, known)
		}
	}
	// An address is no part of what is remembered: the next client with this
	// User-Agent has another.
	switch v := known.verdict; {
	case known.allowed:
		return v
	case c.allow.has(ip):
		return Verdict{Reason: "allow cidr", Device: v.Device}
	case known.denied:
		return v
	case c.deny.has(ip):
		return Verdict{Bot: true, Class: "denied", Reason: "deny cidr", Device: v.Device}
	default:
		return v
	}
}

// agent is what a User-Agent alone says.
type agent struct {
	verdict Verdict
	// allowed and denied say that the verdict is the operator's word.
	allowed, denied bool
}

func (c *Classifier) judge(userAgent string, p *Patterns) agent {
	text := newText(userAgent)
	device := text.device()
	switch {
	case c.allow.named(text.lower):
		return agent{verdict: Verdict{Reason: "allow user_agent", Device: device}, allowed: true}
	case c.deny.named(text.lower):
		return agent{verdict: Verdict{Bot: true, Class: "denied", Reason: "deny user_agent", Device: device}, denied: true}
	}
	class, reason := c.known.judge(&text)
	if p != nil {
		if pattern := p.match(userAgent); pattern != nil {
			if pattern.class != "" {
				class = pattern.class
			} else if class == "" {
				class = "crawler"
			}
			reason = pattern.reason
		}
	}
	return agent{verdict: Verdict{Bot: class != "", Class: class, Reason: reason, Device: device}}
}
