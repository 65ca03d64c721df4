// Package bots decides from a User-Agent and an address whether a request comes
// from a program instead of a person. It names the sort of program and the
// reason.
//
// The operator's allow list takes precedence, then the deny list. Next are the
// patterns of a file, and last the built-in rules, which check the syntax of
// User-Agents, the words in them, and the names of known families of programs.
package bots

import (
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/hotboard/hotboard/ruleset"
)

// maxUserAgent is the length in bytes of the longest User-Agent that the cache
// takes. Rules ignore the rest of a longer one. Browsers send 60 to 300.
const maxUserAgent = 1024

// Classification describes the client of a request.
type Classification struct {
	Bot bool
	// Class is the sort of bot, one of [ruleset.BotClasses]. It is empty for a
	// person.
	Class string
	// Reason names the rule that decided, in our own words or those of the
	// operator's file, never of the request: "no_user_agent", "deny cidr", "deny
	// user_agent", "pattern …", "token …", "word …" or "structure: …". For a
	// person it is empty, "allow cidr" or "allow user_agent".
	Reason string
	// Device is one of [ruleset.Devices].
	Device string
}

// Classifier classifies clients, and caches the results per User-Agent. It is safe
// for concurrent use.
type Classifier struct {
	allow, deny clients
	cacheSize   int
	known       *builtIn
	rules       atomic.Pointer[rules]
}

// rules holds the patterns and the cache of the results that depend on them. Both
// change together, so that no cached result outlives its patterns.
type rules struct {
	patterns *Patterns // nil when there are none
	cache    *otter.Cache[string, agent]
}

// New returns a Classifier that caches the results of about cacheSize
// User-Agents, at least one. A site sees some thousand different ones a day. The
// rules, which may be nil, must be provisioned. New does not read their File, see
// [LoadFile] and [Classifier.SetPatterns].
func New(b *ruleset.Bots, cacheSize int) *Classifier {
	c := &Classifier{cacheSize: max(1, cacheSize), known: newBuiltIn()}
	if b != nil {
		c.allow, c.deny = newClients(b.Allow), newClients(b.Deny)
	}
	c.SetPatterns(nil)
	return c
}

// SetPatterns replaces the patterns of the file and clears the cache. Nil means
// no patterns.
func (c *Classifier) SetPatterns(p *Patterns) {
	c.rules.Store(&rules{patterns: p, cache: otter.Must(&otter.Options[string, agent]{MaximumSize: c.cacheSize})})
}

// Classify classifies a client. An unknown ip is the zero Addr. A cached User-Agent
// costs no allocation.
func (c *Classifier) Classify(userAgent string, ip netip.Addr) Classification {
	r := c.rules.Load()
	var known agent
	if len(userAgent) > maxUserAgent {
		known = c.judge(userAgent[:maxUserAgent], r.patterns)
	} else {
		var ok bool
		if known, ok = r.cache.GetIfPresent(userAgent); !ok {
			known = c.judge(userAgent, r.patterns)
			// A clone, because userAgent may be part of a larger string, such as a
			// line of a log, which must not stay in memory.
			r.cache.Set(strings.Clone(userAgent), known)
		}
	}
	// The cache must not depend on the address: the next client with this
	// User-Agent has another.
	switch v := known.Classification; {
	case known.allowed:
		return v
	case c.allow.has(ip):
		return Classification{Reason: "allow cidr", Device: v.Device}
	case known.denied:
		return v
	case c.deny.has(ip):
		return Classification{Bot: true, Class: "denied", Reason: "deny cidr", Device: v.Device}
	default:
		return v
	}
}

// agent is the result for a User-Agent alone.
type agent struct {
	Classification
	// allowed and denied mark decisions of the operator's lists.
	allowed, denied bool
}

func (c *Classifier) judge(userAgent string, p *Patterns) agent {
	text := newText(userAgent)
	device := text.device()
	switch {
	case c.allow.named(text.lower):
		return agent{Classification: Classification{Reason: "allow user_agent", Device: device}, allowed: true}
	case c.deny.named(text.lower):
		return agent{Classification: Classification{Bot: true, Class: "denied", Reason: "deny user_agent", Device: device}, denied: true}
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
	return agent{Classification: Classification{Bot: class != "", Class: class, Reason: reason, Device: device}}
}
