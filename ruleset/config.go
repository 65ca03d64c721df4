package ruleset

import "github.com/hotboard/hotboard/ruleset/calendar"

// Config is a configuration: rules as somebody wrote them, in a YAML file, in
// Caddy's JSON or in a Caddyfile. It is everything an operator can tune while
// Hotboard runs. [Compile] makes [Rules] of it.
type Config struct {
	// Lists are tried in order. A request may be a view in several of them.
	Lists []*ListConfig `json:"lists,omitempty"`
	// Limits cap hits per key. A hit must pass all limits that apply to it.
	Limits []*Limit `json:"limits,omitempty"`
	// Bots configures which clients are bots. Default: the built-in rules alone.
	Bots *Bots `json:"bots,omitempty"`
}

// ListConfig configures one [List].
type ListConfig struct {
	// Name is 1 to 64 of a-z, 0-9, - and _; unique.
	Name string `json:"name"`
	// Pages are path patterns such as /blog/{year}/{slug} or /news/{id}.html. A
	// named part matches one path segment or the part of it between literal text;
	// a last segment {name...} matches the rest of the path. The item's id is the
	// part named {id}, or else all named parts joined by "/". Patterns match the
	// decoded path, case-sensitively and ignoring a trailing slash on either
	// side. The first matching pattern names the item. Without Pages, ID and
	// Votes only beacons count.
	Pages []string `json:"pages,omitempty"`
	// ID names the item by a Caddy placeholder in its full form, for example
	// {http.request.uri.query.id}, if the path alone does not name it. Pages then
	// only select the requests and need no named parts. Only an edge can evaluate
	// a placeholder; an import skips such a list with an error.
	ID string `json:"id,omitempty"`
	// Statuses are the response statuses that count. Default: 200 and 304.
	Statuses []int `json:"statuses,omitempty"`
	// ContentTypes are the media types that count if a response has one. Default:
	// text/html and application/xhtml+xml. "*" counts all.
	ContentTypes []string `json:"content_types,omitempty"`
	// PublishedHeader is the response header in which the site names an item's
	// publish time, as an RFC 3339 or HTTP date. Default: Hotboard-Published.
	PublishedHeader string `json:"published_header,omitempty"`

	// Votes makes this list a poll. A poll has no pages, ranks by count unless
	// Score sets another model, and belongs to one shard, so that its quotas are
	// exact.
	Votes *Votes `json:"votes,omitempty"`

	// Dedup is the time after a counted view in which the same visitor's next
	// view of the same item is a duplicate. Default: 10m for views, none for
	// votes, which have limits instead. At most 24h.
	Dedup Duration `json:"dedup,omitempty"`
	// Zone is the IANA time zone in which days, weeks and months begin. Default: UTC.
	Zone string `json:"zone,omitempty"`
	// Weights turn views into points. Default: 1 a view and 2 more a unique view.
	Weights *Weights `json:"weights,omitempty"`
	// Score configures the hot board. Default: gravity; for votes count.
	Score Score `json:"score,omitzero"`
	// Boards are the period boards to keep: hour, day, week, month, all. Default:
	// all five.
	Boards []calendar.Period `json:"boards,omitempty"`
	// Keep is the number of closed periods to keep beside the current one.
	// Default: hour 48, day 35, week 10, month 13.
	Keep map[calendar.Period]int `json:"keep,omitempty"`
}

// Weights turn views into points: a counted view adds PV, a unique one UV more. A
// weight missing from a configuration has its default.
type Weights struct {
	PV float64 `json:"pv"` // default 1
	UV float64 `json:"uv"` // default 2
}

// Model is the formula of the hot score.
type Model string

// The models. Ages are in hours.
const (
	// Gravity scores points/(age now + base)^gamma. The board computes it when
	// read.
	Gravity Model = "gravity"
	// Accumulate scores the sum, over hits, of inc/(age at the hit + base)^gamma.
	Accumulate Model = "accumulate"
	// HalfLife scores the sum, over hits, of inc·2^(−(now − time of the hit)/half_life).
	HalfLife Model = "halflife"
	// Count scores the number of counted views.
	Count Model = "count"
)

// Score configures how the hot board of a list ranks.
type Score struct {
	Model Model `json:"model,omitempty"` // default gravity
	// Base, in hours, keeps a new item's score finite. Default 2.
	// For gravity and accumulate.
	Base float64 `json:"base,omitempty"`
	// Gamma is the strength of the decay with age. Default 1.5. For gravity and
	// accumulate.
	Gamma float64 `json:"gamma,omitempty"`
	// HalfLife is the time in which a hit loses half its weight. Default 24h.
	HalfLife Duration `json:"half_life,omitempty"`
	// MinViews is the number of counted views that an item needs to rank on the
	// hot board. Default 0.
	MinViews int64 `json:"min_views,omitempty"`
	// Damping "log" ranks gravity by ln(1 + points), so that one outlier does not
	// hold the top for days. Default: none. Gravity only.
	Damping string `json:"damping,omitempty"`
}

// DampingLog is the value of [Score.Damping] that ranks by ln(1 + points).
const DampingLog = "log"
