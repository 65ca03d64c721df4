package ruleset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Limit caps hits per key. A key is the values that By selects from a hit; each
// list counts its keys separately, in one or more windows. A hit is accepted if
// every window of every applicable limit has room, and only an accepted hit uses
// up room.
type Limit struct {
	// Name is 1 to 32 of a-z, 0-9, - and _; unique. Refused hits have the reason
	// "limited:<name>".
	Name string `json:"name"`
	// By selects the values that form the key, one or more of: ip, user, visitor,
	// channel, device, item. For visitors who are not signed in, user is the
	// visitor.
	By []Dimension `json:"by"`
	// IPv4Prefix is the number of significant bits of an IPv4 address. Default:
	// 32.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`
	// IPv6Prefix is the number of significant bits of an IPv6 address. Default:
	// 64, the usual prefix of one household.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`
	// Windows cap the hits of a key. All of them apply.
	Windows []Window `json:"windows"`
	// When restricts the limit to some hits. Default: all.
	When *When `json:"when,omitempty"`
	// Bonus raises Max for the hits of a channel, in every window.
	Bonus map[string]int64 `json:"bonus,omitempty"`
	// Shadow makes the limit count the hits that it would refuse, and refuse
	// none.
	Shadow bool `json:"shadow,omitempty"`
}

// Window caps the hits of a key over a length of time.
type Window struct {
	// Max is the number of hits.
	Max int64 `json:"max"`
	// Per is the length: second, minute, hour, day, week, month, campaign (the
	// lifetime of the list), or a duration of up to a minute such as 10s. Windows
	// of up to a minute are rates: room comes back evenly. Longer ones are
	// calendar windows, which begin and end with the clock in the list's zone.
	Per string `json:"per"`
	// Burst is the number of hits a rate admits at once. Default: Max.
	Burst int64 `json:"burst,omitempty"`
	// Calendar makes a window of a minute begin and end with the clock, as longer
	// windows do.
	Calendar bool `json:"calendar,omitempty"`
}

// When restricts a limit to hits that match one value of each field that is set.
type When struct {
	Lists    []string `json:"lists,omitempty"`
	Channels []string `json:"channels,omitempty"`
	Devices  []string `json:"devices,omitempty"`
}

// Dimension is a property of a hit that can be part of a key.
type Dimension string

// The dimensions.
const (
	ByIP      Dimension = "ip"
	ByUser    Dimension = "user"
	ByVisitor Dimension = "visitor"
	ByChannel Dimension = "channel"
	ByDevice  Dimension = "device"
	ByItem    Dimension = "item"
)

// Dimensions lists every dimension.
var Dimensions = []Dimension{ByIP, ByUser, ByVisitor, ByChannel, ByDevice, ByItem}

// Devices lists every kind of device that Hotboard recognises in a User-Agent.
var Devices = []string{"desktop", "mobile", "tablet", "tv", "other"}

// Period returns the period of a calendar window, or "" for a rate.
func (w *Window) Period() calendar.Period {
	p, _ := calendar.Parse(w.Per, calendar.Campaign)
	if p == calendar.Minute && !w.Calendar {
		return ""
	}
	return p
}

// IsRate reports whether the window is a rate rather than a calendar window.
func (w *Window) IsRate() bool { return w.Period() == "" }

// Rate returns the length of a rate's window, or 0 for a calendar window or an
// invalid length.
func (w *Window) Rate() time.Duration {
	switch {
	case !w.IsRate():
		return 0
	case w.Per == "second":
		return time.Second
	case w.Per == "minute":
		return time.Minute
	}
	d, err := ParseDuration(w.Per)
	if err != nil || d < Duration(time.Millisecond) || d > Duration(time.Minute) {
		return 0
	}
	return time.Duration(d)
}

// ID identifies a calendar window within its limit.
func (w *Window) ID() string { return w.Per }

// Applies reports whether the limit applies to hits of a list, channel and
// device.
func (l *Limit) Applies(list, channel, device string) bool {
	w := l.When
	return w == nil ||
		(len(w.Lists) == 0 || slices.Contains(w.Lists, list)) &&
			(len(w.Channels) == 0 || slices.Contains(w.Channels, channel)) &&
			(len(w.Devices) == 0 || slices.Contains(w.Devices, device))
}

// AppliesToList reports whether the limit applies to any hits of a list.
func (l *Limit) AppliesToList(list string) bool {
	return l.When == nil || len(l.When.Lists) == 0 || slices.Contains(l.When.Lists, list)
}

// Max returns the number of hits of a channel that a window admits.
func (l *Limit) Max(w *Window, channel string) int64 { return w.Max + l.Bonus[channel] }

// Window returns the calendar window with an id, or nil.
func (l *Limit) Window(id string) *Window {
	for i := range l.Windows {
		if w := &l.Windows[i]; !w.IsRate() && w.ID() == id {
			return w
		}
	}
	return nil
}

// Reason is the reason of the hits that the limit refuses.
func (l *Limit) Reason() Reason { return Limited + Reason(":"+l.Name) }

const (
	maxMax     = 1_000_000_000
	maxChannel = 64 // same as hit.MaxChannelBytes
)

var limitName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// compileLimit returns a limit with all defaults filled in.
func compileLimit(c *Limit, at *problemList, lists []*ListConfig) *Limit {
	l := new(Limit)
	*l = *c
	if !limitName.MatchString(l.Name) {
		at.addf("name", "invalid name %q: use 1 to 32 of a-z, 0-9, - and _", l.Name)
	}
	if len(l.By) == 0 {
		at.addf("by", "missing: name one or more of %s", join(Dimensions))
	}
	for i, d := range l.By {
		switch path := fmt.Sprintf("by[%d]", i); {
		case !slices.Contains(Dimensions, d):
			at.addf(path, "%q is not one of %s", d, join(Dimensions))
		case slices.Contains(l.By[:i], d):
			at.addf(path, "duplicate %s", d)
		}
	}
	l.compilePrefixes(at)
	if len(l.Windows) == 0 {
		at.addf("windows", "missing: a limit needs at least one window, such as max 10 per minute")
	}
	l.Windows = slices.Clone(l.Windows)
	for i := range l.Windows {
		l.compileWindow(at, i)
	}
	if l.When != nil {
		l.When.check(at, lists)
		if w := l.When; len(w.Lists)+len(w.Channels)+len(w.Devices) == 0 {
			l.When = nil
		}
	}
	for _, channel := range slices.Sorted(maps.Keys(l.Bonus)) {
		switch extra := l.Bonus[channel]; {
		case extra < 1 || extra > maxMax || channel == "" || len(channel) > maxChannel:
			at.addf("bonus", "%q: %d: a bonus must be 1 to %d, for a channel of 1 to %d bytes", channel, extra, maxMax, maxChannel)
		case !utf8.ValidString(channel):
			at.addf("bonus", "%q is not valid UTF-8", channel)
		}
	}
	return l
}

func (l *Limit) compilePrefixes(at *problemList) {
	for _, p := range []struct {
		path       string
		bits       *int
		deflt, max int
	}{{"ipv4_prefix", &l.IPv4Prefix, 32, 32}, {"ipv6_prefix", &l.IPv6Prefix, 64, 128}} {
		switch {
		case *p.bits == 0 && slices.Contains(l.By, ByIP):
			*p.bits = p.deflt
		case *p.bits == 0:
		case !slices.Contains(l.By, ByIP):
			at.addf(p.path, "the limit does not count by ip: remove it")
		case *p.bits < 1 || *p.bits > p.max:
			at.addf(p.path, "%d is not between 1 and %d", *p.bits, p.max)
		}
	}
}

func (l *Limit) compileWindow(at *problemList, i int) {
	w := &l.Windows[i]
	path := fmt.Sprintf("windows[%d].", i)
	if w.Max < 1 || w.Max > maxMax {
		at.addf(path+"max", "%d is not between 1 and %d", w.Max, maxMax)
	}
	rate := w.IsRate()
	switch {
	case rate && w.Calendar:
		at.addf(path+"calendar", "only for windows per minute: remove it")
	case rate && w.Rate() == 0:
		at.addf(path+"per", "%q is not one of second, minute, hour, day, week, month and campaign, nor a duration of up to a minute such as 10s", w.Per)
		return
	case w.Per != "minute":
		w.Calendar = false // an hour or more is a calendar window anyway
	}
	switch {
	case !rate && w.Burst != 0:
		at.addf(path+"burst", "a calendar window has no burst: remove it")
	case rate && w.Burst == 0:
		w.Burst = w.Max
	case rate && (w.Burst < 1 || w.Burst > maxMax):
		at.addf(path+"burst", "%d is not between 1 and %d", w.Burst, maxMax)
	}
	for j := range l.Windows[:i] {
		if other := &l.Windows[j]; other.Per == w.Per && other.Calendar == w.Calendar {
			at.addf(path+"per", "duplicate window per %s: see windows[%d]", w.Per, j)
		}
	}
}

func (w *When) check(at *problemList, lists []*ListConfig) {
	for i, name := range w.Lists {
		if !slices.ContainsFunc(lists, func(l *ListConfig) bool { return l != nil && l.Name == name }) {
			at.addf(fmt.Sprintf("when.lists[%d]", i), "unknown list %q", name)
		}
	}
	for i, c := range w.Channels {
		switch path := fmt.Sprintf("when.channels[%d]", i); {
		case len(c) > maxChannel:
			at.addf(path, "%.80q has more than %d bytes", c, maxChannel)
		case !utf8.ValidString(c):
			at.addf(path, "%q is not valid UTF-8", c)
		}
	}
	for i, d := range w.Devices {
		if !slices.Contains(Devices, d) {
			at.addf(fmt.Sprintf("when.devices[%d]", i), "%q is not one of %s", d, join(Devices))
		}
	}
}

// join lists names as in a sentence: "a, b and c".
func join[S ~string](names []S) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
