// Package ruleset defines what Hotboard counts and how: lists, the requests that
// are views of their items, limits, bots, scoring and boards.
//
// It is declarative and pure. It opens no file and no connection, and does not
// depend on Caddy or a store. A [Config] has three spellings: a YAML file, Caddy's
// JSON and the Caddyfile. [Compile] makes [Rules] of it, which decide about
// requests and hits.
package ruleset

import (
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Rules are a compiled configuration: valid, and with all defaults filled in. They
// are read-only and safe for concurrent use. The zero Rules count nothing.
type Rules struct {
	// Lists are in the order of the configuration.
	Lists []*List `json:"lists,omitempty"`
	// Limits are in the order of the configuration.
	Limits []*Limit `json:"limits,omitempty"`
	// Bots is nil if the configuration has no rules for bots.
	Bots *Bots `json:"bots,omitempty"`

	document []byte
	id       hit.RulesID
}

// List is one set of items that Hotboard ranks against each other, for example
// the articles of a site.
type List struct {
	ListConfig // with all defaults filled in

	patterns  []*pattern // compiled Pages
	anyType   bool       // ContentTypes has "*"
	anyOption bool       // Votes accepts any option
	periods   calendar.Cache
}

// List returns the list with a name, or nil.
func (r *Rules) List(name string) *List {
	for _, l := range r.Lists {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Limit returns the limit with a name, or nil.
func (r *Rules) Limit(name string) *Limit {
	for _, l := range r.Limits {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Keeps reports whether the list has a board of the period p.
func (l *List) Keeps(p calendar.Period) bool { return slices.Contains(l.Boards, p) }

// Starts returns the beginning of every period that contains the instant ms, in
// milliseconds since the Unix epoch, in the list's zone.
func (l *List) Starts(ms int64) *calendar.Starts { return l.periods.Starts(ms) }

// Location returns the list's zone.
func (l *List) Location() *time.Location { return l.periods.Zone }
