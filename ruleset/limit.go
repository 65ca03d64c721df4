package ruleset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limit refuses what comes too often. It counts the hits of each key (what By
// names of a hit) in each list apart, in one or more windows of time. A hit is
// accepted when every window of every limit that applies has room for it, and
// only then uses any up.
type Limit struct {
	// Name is 1 to 32 of a-z, 0-9, - and _; unique. What the limit refuses has the
	// reason "limited:<name>".
	Name string `json:"name"`
	// By is what makes two hits the same to this limit, one or more of: ip, user,
	// visitor, channel, device, item. Where nobody is signed in, user is the
	// visitor.
	By []Dimension `json:"by"`
	// IPv4Prefix is how many bits of an IPv4 address count. Default: 32.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`
	// IPv6Prefix is how many bits of an IPv6 address count. Default: 64, which is
	// what one household has.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`
	// Windows are how many hits there may be in which time. All of them hold.
	Windows []Window `json:"windows"`
	// When restricts the limit to some hits. Default: all.
	When *When `json:"when,omitempty"`
	// Bonus allows hits of a channel more than Max, in every window.
	Bonus map[string]int64 `json:"bonus,omitempty"`
	// Shadow counts what the limit would refuse, and refuses nothing.
	Shadow bool `json:"shadow,omitempty"`
}

// Window is how many hits of a key there may be in a time.
type Window struct {
	// Max is the number of hits.
	Max int64 `json:"max"`
	// Per is the time: second, minute, hour, day, week, month, campaign (as long
	// as the list exists), or a duration of up to a minute such as 10s. Up to a
	// minute it is a rate: what was used up comes back evenly. Longer ones are
	// calendar windows, which begin and end with the clock in the list's zone.
	Per Span `json:"per"`
	// Burst is how many hits may come at once, for a rate. Default: Max.
	Burst int64 `json:"burst,omitempty"`
	// Calendar makes a minute begin and end with the clock, as longer windows do.
	Calendar bool `json:"calendar,omitempty"`
}

// When restricts a limit to hits that have one of each of those that it names.
type When struct {
	Lists    []string `json:"lists,omitempty"`
	Channels []string `json:"channels,omitempty"`
	Devices  []string `json:"devices,omitempty"`
}

// Dimension is a property of a hit that a limit counts by.
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

// Dimensions is every dimension.
var Dimensions = []Dimension{ByIP, ByUser, ByVisitor, ByChannel, ByDevice, ByItem}

// Devices is every kind of device that a User-Agent is told to be.
var Devices = []string{"desktop", "mobile", "tablet", "tv", "other"}

// Span is the length of a window, by name or as a duration.
type Span string

// The spans that have a name.
const (
	PerSecond   Span = "second"
	PerMinute   Span = "minute"
	PerHour     Span = "hour"
	PerDay      Span = "day"
	PerWeek     Span = "week"
	PerMonth    Span = "month"
	PerCampaign Span = "campaign"
)

// Duration returns the length of a rate's window; 0 for a calendar span, and for
// what is no span.
func (s Span) Duration() time.Duration {
	switch s {
	case PerSecond:
		return time.Second
	case PerMinute:
		return time.Minute
	}
	d, err := ParseDuration(string(s))
	if err != nil || d < Duration(time.Millisecond) || d > Duration(time.Minute) {
		return 0
	}
	return time.Duration(d)
}

func (s Span) long() bool {
	switch s {
	case PerHour, PerDay, PerWeek, PerMonth, PerCampaign:
		return true
	}
	return false
}

// IsRate reports whether the window is a rate, and not a calendar window.
func (w *Window) IsRate() bool { return !w.Calendar && !w.Per.long() }

// ID names a calendar window among those of its limit.
func (w *Window) ID() string { return string(w.Per) }

// Bounds returns when the calendar window that holds t begins and ends, in UTC.
// A campaign begins at the zero time and has no end: the zero time too.
func (w *Window) Bounds(t time.Time, zone *time.Location) (start, end time.Time) {
	switch w.Per {
	case PerCampaign:
		return time.Time{}, time.Time{}
	case PerMinute:
		start = t.Truncate(time.Minute).UTC() // zones have had whole minutes since 1972
		return start, start.Add(time.Minute)
	}
	p := Period(w.Per)
	start = p.Start(t, zone)
	return start, p.Add(start, 1, zone)
}

// Applies reports whether the limit is one for hits of a list, channel and device.
func (l *Limit) Applies(list, channel, device string) bool {
	w := l.When
	return w == nil ||
		(len(w.Lists) == 0 || slices.Contains(w.Lists, list)) &&
			(len(w.Channels) == 0 || slices.Contains(w.Channels, channel)) &&
			(len(w.Devices) == 0 || slices.Contains(w.Devices, device))
}

// AppliesToList reports whether the limit is one for some hits of a list.
func (l *Limit) AppliesToList(list string) bool {
	return l.When == nil || len(l.When.Lists) == 0 || slices.Contains(l.When.Lists, list)
}

// Max returns how many hits of a channel a window has room for.
func (l *Limit) Max(w *Window, channel string) int64 { return w.Max + l.Bonus[channel] }

// Window returns the calendar window of an id, or nil.
func (l *Limit) Window(id string) *Window {
	for i := range l.Windows {
		if w := &l.Windows[i]; !w.IsRate() && w.ID() == id {
			return w
		}
	}
	return nil
}

// Reason is the reason for what the limit refuses.
func (l *Limit) Reason() Reason { return Limited + Reason(":"+l.Name) }

// Limit returns the limit of a name, or nil.
func (r *Ruleset) Limit(name string) *Limit {
	for _, l := range r.Limits {
		if l.Name == name {
			return l
		}
	}
	return nil
}

const (
	maxMax     = 1_000_000_000
	maxChannel = 64 // as hit.MaxChannelBytes
)

var limitName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

func (l *Limit) provision(at *problemList, lists []*List) {
	if !limitName.MatchString(l.Name) {
		at.addf("name", "%q is not a name: 1 to 32 of a-z, 0-9, - and _", l.Name)
	}
	if len(l.By) == 0 {
		at.addf("by", "it is missing: name one or more of %s", join(Dimensions))
	}
	for i, d := range l.By {
		switch path := fmt.Sprintf("by[%d]", i); {
		case !slices.Contains(Dimensions, d):
			at.addf(path, "%q is not one of %s", d, join(Dimensions))
		case slices.Contains(l.By[:i], d):
			at.addf(path, "%s is there twice", d)
		}
	}
	l.provisionPrefixes(at)
	if len(l.Windows) == 0 {
		at.addf("windows", "it is missing: a limit has one window at least, such as max 10 per minute")
	}
	for i := range l.Windows {
		l.provisionWindow(at, i)
	}
	if l.When != nil {
		l.When.provision(at, lists)
	}
	for _, channel := range slices.Sorted(maps.Keys(l.Bonus)) {
		if extra := l.Bonus[channel]; extra < 1 || extra > maxMax || channel == "" || len(channel) > maxChannel {
			at.addf("bonus", "%q: %d: a bonus is 1 to %d more, for a channel of 1 to %d bytes", channel, extra, maxMax, maxChannel)
		}
	}
}

func (l *Limit) provisionPrefixes(at *problemList) {
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
			at.addf(p.path, "the limit does not count by ip: leave it out")
		case *p.bits < 1 || *p.bits > p.max:
			at.addf(p.path, "%d is not between 1 and %d", *p.bits, p.max)
		}
	}
}

func (l *Limit) provisionWindow(at *problemList, i int) {
	w := &l.Windows[i]
	path := fmt.Sprintf("windows[%d].", i)
	if w.Max < 1 || w.Max > maxMax {
		at.addf(path+"max", "%d is not between 1 and %d", w.Max, maxMax)
	}
	rate := w.IsRate()
	switch {
	case rate && w.Per.Duration() == 0:
		at.addf(path+"per", "%q is not one of second, minute, hour, day, week, month and campaign, nor a duration of up to a minute such as 10s", w.Per)
		return
	case w.Calendar && w.Per.long():
		w.Calendar = false // it is one anyway
	case w.Calendar && w.Per != PerMinute:
		at.addf(path+"calendar", "only a minute can be one: leave it out")
	}
	switch {
	case !rate && w.Burst != 0:
		at.addf(path+"burst", "a calendar window has none: leave it out")
	case rate && w.Burst == 0:
		w.Burst = w.Max
	case rate && (w.Burst < 1 || w.Burst > maxMax):
		at.addf(path+"burst", "%d is not between 1 and %d", w.Burst, maxMax)
	}
	for j := range l.Windows[:i] {
		if other := &l.Windows[j]; other.Per == w.Per && other.IsRate() == rate {
			at.addf(path+"per", "windows[%d] is per %s already", j, w.Per)
		}
	}
}

func (w *When) provision(at *problemList, lists []*List) {
	for i, name := range w.Lists {
		if !slices.ContainsFunc(lists, func(l *List) bool { return l != nil && l.Name == name }) {
			at.addf(fmt.Sprintf("when.lists[%d]", i), "there is no list %q", name)
		}
	}
	for i, c := range w.Channels {
		if len(c) > maxChannel {
			at.addf(fmt.Sprintf("when.channels[%d]", i), "%.80q has more than %d bytes", c, maxChannel)
		}
	}
	for i, d := range w.Devices {
		if !slices.Contains(Devices, d) {
			at.addf(fmt.Sprintf("when.devices[%d]", i), "%q is not one of %s", d, join(Devices))
		}
	}
}

// join lists names in a sentence: "a, b and c".
func join[S ~string](names []S) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
