// Package ruleset says what is counted and how: lists, the requests that are
// views of their items, bots, scoring and boards.
//
// It is declarative and pure. It opens no file and no connection, knows nothing
// of Caddy or of a store, and is safe for concurrent use once [Ruleset.Provision]
// has returned. One schema has three spellings: a YAML file, Caddy's JSON and
// the Caddyfile; all three end in a [Ruleset].
package ruleset

import (
	"slices"
	"time"
)

// Ruleset is everything an operator can tune while Hotboard runs.
type Ruleset struct {
	// Lists are tried in order. A request may be a view in several of them.
	Lists []*List `json:"lists,omitempty"`
	// Limits refuse what comes too often. All that apply to a hit have to admit it.
	Limits []*Limit `json:"limits,omitempty"`
	// Bots says which clients are no people. Default: the built-in rules alone.
	Bots *Bots `json:"bots,omitempty"`
}

// List is one set of items that are ranked against each other, for example the
// articles of a site.
type List struct {
	// Name is 1 to 64 of a-z, 0-9, - and _; unique.
	Name string `json:"name"`
	// Pages are path patterns such as /blog/{year}/{slug} or /news/{id}.html. A
	// named part matches one path segment or the part of it between literal
	// text; a last segment {name...} matches the rest of the path. The item's id
	// is the part named {id}, or else all named parts joined by "/". Patterns are
	// compared with the decoded path, case counts, and a trailing slash on either
	// side makes no difference. The first that matches names the item. Without
	// Pages, ID and Votes only beacons count.
	Pages []string `json:"pages,omitempty"`
	// ID names the item by a Caddy placeholder in its full form, for example
	// {http.request.uri.query.id}, where the path alone does not; Pages, if there
	// are any, then only say which requests are looked at and need no named
	// parts. Only an edge can evaluate it; an import skips such a list with an
	// error.
	ID string `json:"id,omitempty"`
	// Statuses are the response statuses that count. Default: 200 and 304.
	Statuses []int `json:"statuses,omitempty"`
	// ContentTypes are the media types that count when a response has one.
	// Default: text/html and application/xhtml+xml. "*" counts all.
	ContentTypes []string `json:"content_types,omitempty"`
	// PublishedHeader is the response header in which the site names an item's
	// publish time, as an RFC 3339 or HTTP date. Default: Hotboard-Published.
	PublishedHeader string `json:"published_header,omitempty"`

	// Votes makes this a list of options that are voted for. Such a list has no
	// pages, ranks by count unless Score says otherwise, and every vote of it is
	// counted by one shard, so that quotas are exact.
	Votes *Votes `json:"votes,omitempty"`

	// Dedup is how long after a counted view the same visitor's next view of the
	// same item is a duplicate. Default: 10m; for votes none, their limits say how
	// many there may be. At most 24h.
	Dedup Duration `json:"dedup,omitempty"`
	// Zone is the IANA time zone in which days, weeks and months begin. Default: UTC.
	Zone string `json:"zone,omitempty"`
	// Weights turn views into points. Default: 1 a view and 2 more a unique view.
	Weights *Weights `json:"weights,omitempty"`
	// Score is how the hot board ranks. Default: gravity; for votes count.
	Score Score `json:"score,omitzero"`
	// Boards are the period boards that are kept: hour, day, week, month, all.
	// Default: all five.
	Boards []Period `json:"boards,omitempty"`
	// Keep is how many closed periods are kept beside the current one.
	// Default: hour 48, day 35, week 10, month 13.
	Keep map[Period]int `json:"keep,omitempty"`

	// Set by Provision.
	patterns []*pattern // compiled Pages
	anyType  bool       // ContentTypes has "*"
	zone     *time.Location
	periods  periodCache
}

// Weights turn views into points: a counted view adds PV, a unique one UV more.
// One that is left out of a configuration has its default.
type Weights struct {
	PV float64 `json:"pv"` // default 1
	UV float64 `json:"uv"` // default 2
}

// Model is a way to turn views and age into a score.
type Model string

// The models. Ages are in hours.
const (
	// Gravity scores points/(age now + base)^gamma. It is evaluated when read.
	Gravity Model = "gravity"
	// Accumulate scores the sum, over hits, of inc/(age at the hit + base)^gamma.
	Accumulate Model = "accumulate"
	// HalfLife scores the sum, over hits, of inc·2^(−(now − time of the hit)/half_life).
	HalfLife Model = "halflife"
	// Count scores the number of counted views.
	Count Model = "count"
)

// Score is how the hot board of a list ranks.
type Score struct {
	Model Model `json:"model,omitempty"` // default gravity
	// Base, in hours, keeps a new item's score finite. Default 2.
	// For gravity and accumulate.
	Base float64 `json:"base,omitempty"`
	// Gamma is how hard age pulls. Default 1.5. For gravity and accumulate.
	Gamma float64 `json:"gamma,omitempty"`
	// HalfLife is the time in which a hit loses half its weight. Default 24h.
	HalfLife Duration `json:"half_life,omitempty"`
	// MinViews is how many counted views an item needs before it ranks on the
	// hot board. Default 0.
	MinViews int64 `json:"min_views,omitempty"`
	// Damping "log" ranks gravity by ln(1 + points), so that one outlier does
	// not hold the top for days. Default: none. Gravity only.
	Damping string `json:"damping,omitempty"`
}

// DampingLog is the value of [Score.Damping] that ranks by ln(1 + points).
const DampingLog = "log"

// Period is a calendar period in a list's zone.
type Period string

// The periods. A week is an ISO 8601 week and begins on Monday.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
	All   Period = "all"
)

// Keeps reports whether the list has a board of the period p.
func (l *List) Keeps(p Period) bool { return slices.Contains(l.Boards, p) }
