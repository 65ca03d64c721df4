package limit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

// model does what the limits of one configuration should, as plainly as possible:
// a key is a text, a calendar window a list of times, and a bucket a fraction of
// whole numbers.
type model struct {
	rules  *ruleset.Rules
	states map[string]*modelState // by counter and key
	ids    map[modelID]string     // see modelIdentity
}

type modelID struct {
	window *ruleset.Window
	list   string
}

func (m *model) identity(l *ruleset.Limit, w *ruleset.Window, list string) string {
	id := m.ids[modelID{w, list}]
	if id == "" {
		id = modelIdentity(l, w, list) + " of "
		m.ids[modelID{w, list}] = id
	}
	return id
}

type modelState struct {
	times []time.Time // of the hits of a calendar window, all that ever were
	// known is how many an aggregator has spoken of, by the label of the window.
	known map[string]int64
	// level is what is in a bucket, in hits times the nanoseconds of its window.
	level int64
	last  time.Time
	made  bool
}

// modelWindow is a window that a hit is charged to.
type modelWindow struct {
	limit  *ruleset.Limit
	window *ruleset.Window
	list   *ruleset.List
	state  *modelState
	bonus  int64
}

// windows returns the windows of limits that apply, or of the one of a name. The
// keys of votes are other ones when there is another secret.
func (m *model) windows(h *Hit, only string, t time.Time) []*modelWindow {
	var all []*modelWindow
	for _, l := range m.rules.Limits {
		if only != "" && l.Name != only || !applies(l, h) {
			continue
		}
		key := modelKey(l, h)
		for i := range l.Windows {
			w := &l.Windows[i]
			id := m.identity(l, w, h.List.Name) + key
			if h.List.Votes != nil && !w.IsRate() {
				per := w.Per
				if per == "minute" || per == "hour" {
					per = "day"
				}
				id += modelLabel(per, t, h.List.Location())
			}
			if m.states[id] == nil {
				m.states[id] = new(modelState)
			}
			all = append(all, &modelWindow{l, w, h.List, m.states[id], l.Bonus[h.Channel]})
		}
	}
	return all
}

func applies(l *ruleset.Limit, h *Hit) bool {
	one := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return l.When == nil || one(l.When.Lists, h.List.Name) && one(l.When.Channels, h.Channel) && one(l.When.Devices, h.Device)
}

// modelIdentity is what has to be the same for a new configuration to take over a
// count.
func modelIdentity(l *ruleset.Limit, w *ruleset.Window, list string) string {
	by := slices.Clone(l.By)
	slices.Sort(by)
	id := fmt.Sprint(l.Name, by, l.IPv4Prefix, l.IPv6Prefix, list, w.Per, w.IsRate())
	if w.IsRate() {
		id += fmt.Sprint(w.Max, w.Burst)
	}
	return id
}

func modelKey(l *ruleset.Limit, h *Hit) string {
	masked := func(ip netip.Addr, ipv4, ipv6 int) string {
		if ip = ip.Unmap(); !ip.IsValid() {
			return "none"
		}
		bits := ipv4
		if ip.Is6() {
			bits = ipv6
		}
		p, err := ip.Prefix(bits)
		if err != nil {
			panic(err)
		}
		return p.String()
	}
	// No text here has a quote in it.
	visitor := "visitor " + masked(h.VisitorIP, 32, 64) + "'" + h.VisitorText + "'"
	key := ""
	for _, d := range ruleset.Dimensions {
		if !slices.Contains(l.By, d) {
			continue
		}
		switch d {
		case ruleset.ByIP:
			key += "ip " + masked(h.IP, l.IPv4Prefix, l.IPv6Prefix)
		case ruleset.ByUser:
			if h.User == "" {
				key += visitor
			} else {
				key += "user '" + h.User + "'"
			}
		case ruleset.ByVisitor:
			key += visitor
		case ruleset.ByChannel:
			key += "channel '" + h.Channel + "'"
		case ruleset.ByDevice:
			key += "device '" + h.Device + "'"
		case ruleset.ByItem:
			key += "item '" + h.Item + "'"
		}
	}
	return key
}

// modelLabel names the calendar window that holds t by what a calendar shows.
func modelLabel(per string, t time.Time, zone *time.Location) string {
	l := t.In(zone)
	switch per {
	case "minute":
		return l.Format("2006-01-02 15:04 -0700")
	case "hour":
		return l.Format("2006-01-02 15 -0700")
	case "day":
		return l.Format("2006-01-02")
	case "week":
		year, week := l.ISOWeek()
		return fmt.Sprint(year, " week ", week)
	case "month":
		return l.Format("2006-01")
	}
	return "all"
}

// at returns the time that a hit at t counts at: a key of which an aggregator has
// told something later is at that time already.
func (w *modelWindow) at(t time.Time) time.Time {
	for _, c := range w.state.times {
		if c.After(t) {
			t = c
		}
	}
	return t
}

func (w *modelWindow) max() int64 {
	if w.window.IsRate() {
		return w.window.Burst + w.bonus
	}
	return w.window.Max + w.bonus
}

// room returns how many hits there is room for; how long until there is room for
// one, 0 when there is, -1 when never; and how long until all of it is there.
func (w *modelWindow) room(t time.Time) (n int64, wait, full time.Duration) {
	if w.window.IsRate() {
		per := int64(w.window.Rate())
		w.refill(t)
		level := w.state.level + w.bonus*per
		if level >= 0 {
			n = level / per
		}
		if level < per {
			wait = time.Duration(ceil(per-level, w.window.Max))
		}
		return n, wait, time.Duration(ceil(w.max()*per-level, w.window.Max))
	}
	at := w.at(t)
	n = w.max()
	for _, c := range w.state.times {
		if modelLabel(w.window.Per, c, w.list.Location()) == modelLabel(w.window.Per, at, w.list.Location()) {
			n--
		}
	}
	n = max(n, 0)
	if w.window.Per == "campaign" {
		full = -1
	} else {
		_, end := w.window.Period().Bounds(t, w.list.Location())
		full = end.Sub(t)
	}
	if n == 0 {
		wait = full
	}
	return n, wait, full
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// refill lets time pass for a bucket.
func (w *modelWindow) refill(t time.Time) {
	s, capacity := w.state, w.window.Burst*int64(w.window.Rate())
	if !s.made {
		s.made, s.level, s.last = true, capacity, t
	}
	if passed := t.Sub(s.last); int64(passed) > (capacity-s.level)/w.window.Max {
		s.level = capacity
	} else {
		s.level += int64(passed) * w.window.Max
	}
	s.last = t
}

func (w *modelWindow) charge(t time.Time, n int64) {
	if w.window.IsRate() {
		w.refill(t)
		per := int64(w.window.Rate())
		w.state.level = min(w.state.level-n*per, w.window.Burst*per)
		return
	}
	if n > 0 {
		w.state.times = append(w.state.times, w.at(t))
		return
	}
	for i, c := range w.state.times { // take one of the same window back
		if modelLabel(w.window.Per, c, w.list.Location()) == modelLabel(w.window.Per, t, w.list.Location()) {
			w.state.times = slices.Delete(w.state.times, i, i+1)
			return
		}
	}
}

// modelDecision is the model's decision about a hit.
type modelDecision struct {
	refused  *ruleset.Limit
	wait     time.Duration // -1 for never
	shadowed []*ruleset.Limit
	windows  []*modelWindow // all that are no shadows
}

func (m *model) take(h *Hit, t time.Time) modelDecision {
	var d modelDecision
	all := m.windows(h, "", t)
	for _, w := range all {
		if !w.limit.Shadow {
			d.windows = append(d.windows, w)
		}
		n, wait, _ := w.room(t)
		switch {
		case n > 0:
		case w.limit.Shadow:
			if !slices.Contains(d.shadowed, w.limit) {
				d.shadowed = append(d.shadowed, w.limit)
			}
		default:
			if d.refused == nil {
				d.refused = w.limit
			}
			if d.wait >= 0 && (wait < 0 || wait > d.wait) {
				d.wait = wait
			}
		}
	}
	if d.refused == nil {
		for _, w := range all {
			if !slices.Contains(d.shadowed, w.limit) {
				w.charge(t, 1)
			}
		}
	}
	return d
}

func (m *model) undo(h *Hit, t, now time.Time, shadowed []*ruleset.Limit) {
	for _, w := range m.windows(h, "", t) {
		switch {
		case slices.Contains(shadowed, w.limit):
		case w.window.IsRate():
			w.charge(now, -1)
		default:
			label := w.label(w.at(t))
			if w.used(label) > w.state.known[label] {
				w.charge(t, -1)
			}
		}
	}
}

func (w *modelWindow) label(t time.Time) string {
	return fmt.Sprint(modelLabel(w.window.Per, t, w.list.Location()))
}

// used returns how many hits are counted in the window of a label.
func (w *modelWindow) used(label string) (n int64) {
	for _, c := range w.state.times {
		if w.label(c) == label {
			n++
		}
	}
	return n
}

// learn takes over that a key has had n hits in the window that holds t.
func (w *modelWindow) learn(t time.Time, n int64) {
	if w.at(t) != t && modelLabel(w.window.Per, w.at(t), w.list.Location()) != modelLabel(w.window.Per, t, w.list.Location()) {
		return
	}
	label := w.label(t)
	if w.state.known == nil {
		w.state.known = make(map[string]int64)
	}
	w.state.known[label] = max(w.state.known[label], n)
	for n -= w.used(label); n > 0; n-- {
		w.state.times = append(w.state.times, t)
	}
}

func (m *model) forget(h *Hit, limit string, t time.Time) {
	for _, w := range m.windows(h, limit, t) {
		*w.state = modelState{}
	}
}

// reload goes on with another configuration.
func (m *model) reload(rules *ruleset.Rules) {
	kept := make(map[string]*modelState)
	for _, list := range rules.Lists {
		for _, l := range rules.Limits {
			if !l.AppliesToList(list.Name) {
				continue
			}
			for i := range l.Windows {
				prefix := m.identity(l, &l.Windows[i], list.Name)
				for id, s := range m.states {
					if strings.HasPrefix(id, prefix) {
						kept[id] = s
					}
				}
			}
		}
	}
	m.rules, m.states, m.ids = rules, kept, make(map[modelID]string)
}
