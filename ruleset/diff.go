package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Change is one setting that differs between two sets of rules.
type Change struct {
	// Path names the setting by the names of its list, limit and window, for
	// example lists.articles.dedup or limits.person.windows.day.max.
	Path string
	// Was and Is are the values, "none" for a missing one. If Path names a whole
	// list, poll, limit or window that one side lacks, Was is empty, and Is is
	// "added" or "removed".
	Was, Is string
	// Effect is what the change does, above all to counts that are already there.
	Effect string
}

// String returns the change on one line, without its effect.
func (c Change) String() string {
	if c.Was == "" {
		return c.Path + " " + c.Is
	}
	return c.Path + ": " + short(c.Was) + " → " + short(c.Is)
}

// Changes are the differences between two sets of rules.
type Changes []Change

// String returns the first three changes on one line, and the number of the
// others. It is empty if there are none.
func (c Changes) String() string {
	const most = 3
	texts := make([]string, min(len(c), most))
	for i := range texts {
		texts[i] = c[i].String()
	}
	if n := len(c) - most; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(texts, "; ")
}

// short cuts a long value.
func short(value string) string {
	const most = 40
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}

// Effects of a change on counts.
const (
	atOnce   = "the live list changes at once; counts stay"
	rebuilt  = "the live list is rebuilt from the kept hour and day boards; counts stay"
	fromNow  = " from now on; counts stay"
	newCount = "the limit begins to count anew"
)

// Diff returns what changes for an installation when the rules is replace the
// rules was: nothing if both have the same document. Nil stands for rules without
// settings.
func Diff(was, is *Rules) Changes {
	var d differ
	if was == nil {
		was = new(Rules)
	}
	if is == nil {
		is = new(Rules)
	}
	diffNamed(&d, "lists", was.Lists, is.Lists, func(l *List) string { return l.Name }, d.list, [3]string{
		"the list counts from now on",
		"the counts stay, and are not shown",
		"a question that names no list gets the first one; counts stay",
	})
	diffNamed(&d, "limits", was.Limits, is.Limits, func(l *Limit) string { return l.Name }, d.limit, [3]string{
		"the limit counts from now on",
		"the limit refuses nothing" + fromNow,
		"a hit that several limits refuse can get its reason from another one" + fromNow,
	})
	var from, to Bots
	if was.Bots != nil {
		from = *was.Bots
	}
	if is.Bots != nil {
		to = *is.Bots
	}
	d.clients("bots.allow", from.Allow, to.Allow)
	d.clients("bots.deny", from.Deny, to.Deny)
	diffSlice(&d, "bots.count", texts(from.Count), texts(to.Count), "views of bots count on other lists"+fromNow)
	return d.changes
}

// differ collects changes.
type differ struct{ changes Changes }

func (d *differ) add(path, was, is, effect string) {
	d.changes = append(d.changes, Change{path, was, is, effect})
}

func (d *differ) list(path string, was, is *List) {
	path += "."
	diffSlice(d, path+"pages", was.Pages, is.Pages, "other requests count"+fromNow)
	diffValue(d, path+"id", was.ID, is.ID, "views count for other items"+fromNow)
	switch {
	case was.Votes == nil && is.Votes == nil:
		diffSlice(d, path+"statuses", was.Statuses, is.Statuses, "other responses count"+fromNow)
		diffSlice(d, path+"content_types", was.ContentTypes, is.ContentTypes, "other responses count"+fromNow)
		diffValue(d, path+"published_header", was.PublishedHeader, is.PublishedHeader, "responses name publish times in another header"+fromNow)
	case was.Votes == nil:
		d.add(path+"votes", "", "added", "only votes count from now on, on top of the counts that are already there")
	case is.Votes == nil:
		d.add(path+"votes", "", "removed", "only views count from now on, on top of the counts that are already there")
	default:
		d.votes(path+"votes.", was.Votes, is.Votes)
	}
	diffValue(d, path+"dedup", was.Dedup, is.Dedup, "another time decides which hits are duplicates"+fromNow)
	diffValue(d, path+"zone", was.Zone, is.Zone, "day, week and month boards begin anew, and so do windows of limits of these lengths; all-time counts stay")

	live := atOnce
	switch is.Score.Model {
	case Accumulate, HalfLife:
		live = rebuilt
	}
	weights := live
	if is.Score.Model == Count {
		weights = "nothing changes: the model count ranks by the number of hits"
	}
	diffValue(d, path+"weights.pv", was.Weights.PV, is.Weights.PV, weights)
	diffValue(d, path+"weights.uv", was.Weights.UV, is.Weights.UV, weights)
	diffValue(d, path+"score.model", was.Score.Model, is.Score.Model, live)
	if was.Score.Model == is.Score.Model { // other models have other settings
		diffValue(d, path+"score.base", was.Score.Base, is.Score.Base, live)
		diffValue(d, path+"score.gamma", was.Score.Gamma, is.Score.Gamma, live)
		diffValue(d, path+"score.half_life", was.Score.HalfLife, is.Score.HalfLife, live)
		diffValue(d, path+"score.damping", was.Score.Damping, is.Score.Damping, live)
	}
	diffValue(d, path+"score.min_views", was.Score.MinViews, is.Score.MinViews, atOnce)
	d.boards(path, was, is)
}

func (d *differ) votes(path string, was, is *Votes) {
	diffSlice(d, path+"options", was.Options, is.Options, "votes for other options count"+fromNow)
	diffValue(d, path+"opens", moment(was.Opens), moment(is.Opens), "votes count from another time on; counts stay")
	diffValue(d, path+"closes", moment(was.Closes), moment(is.Closes), "votes count until another time; counts stay")
	users := "votes without a user count too" + fromNow
	if is.RequireUser {
		users = "votes without a user are refused" + fromNow
	}
	diffValue(d, path+"require_user", was.RequireUser, is.RequireUser, users)
}

func (d *differ) boards(path string, was, is *List) {
	var effects []string
	for _, p := range calendar.Periods {
		switch {
		case was.Keeps(p) == is.Keeps(p):
		case p == calendar.All && is.Keeps(p):
			effects = append(effects, "all-time counts, which were kept, are shown")
		case p == calendar.All:
			effects = append(effects, "all-time counts stay, and are not shown")
		case is.Keeps(p):
			effects = append(effects, fmt.Sprintf("%s boards begin empty", p))
		default:
			effects = append(effects, fmt.Sprintf("%s boards are deleted", p))
		}
	}
	diffSlice(d, path+"boards", was.Boards, is.Boards, strings.Join(effects, "; "))
	for _, p := range calendar.Periods {
		if was.Keep[p] == 0 || is.Keep[p] == 0 {
			continue // there are no such boards on one side
		}
		effect := fmt.Sprintf("more %s boards are kept from now on; deleted ones do not come back", p)
		if is.Keep[p] < was.Keep[p] {
			effect = fmt.Sprintf("older %s boards are deleted", p)
		}
		diffValue(d, path+"keep."+string(p), was.Keep[p], is.Keep[p], effect)
	}
}

func (d *differ) limit(path string, was, is *Limit) {
	path += "."
	diffSlice(d, path+"by", was.By, is.By, newCount)
	if slices.Contains(was.By, ByIP) == slices.Contains(is.By, ByIP) {
		diffValue(d, path+"ipv4_prefix", was.IPv4Prefix, is.IPv4Prefix, newCount)
		diffValue(d, path+"ipv6_prefix", was.IPv6Prefix, is.IPv6Prefix, newCount)
	}
	name := func(w *Window) string {
		if w.Calendar {
			return "calendar-" + w.Per
		}
		return w.Per
	}
	diffNamed(d, path+"windows", pointers(was.Windows), pointers(is.Windows), name, func(path string, was, is *Window) {
		effect := "the new maximum applies at once; counts stay"
		if is.IsRate() {
			effect = "the rate begins to count anew"
		}
		diffValue(d, path+".max", was.Max, is.Max, effect)
		diffValue(d, path+".burst", was.Burst, is.Burst, effect)
	}, [3]string{
		"the window counts from now on",
		"the window refuses nothing" + fromNow,
		"nothing changes: all windows apply, in any order",
	})
	var from, to When
	if was.When != nil {
		from = *was.When
	}
	if is.When != nil {
		to = *is.When
	}
	diffSlice(d, path+"when.lists", from.Lists, to.Lists, "the limit applies to other lists"+fromNow)
	diffSlice(d, path+"when.channels", from.Channels, to.Channels, "the limit applies to other channels"+fromNow)
	diffSlice(d, path+"when.devices", from.Devices, to.Devices, "the limit applies to other devices"+fromNow)
	channels := slices.AppendSeq(slices.Collect(maps.Keys(was.Bonus)), maps.Keys(is.Bonus))
	slices.Sort(channels)
	for _, channel := range slices.Compact(channels) {
		diffValue(d, path+"bonus."+channel, was.Bonus[channel], is.Bonus[channel], "the channel's new maximum applies at once; counts stay")
	}
	shadow := "the limit refuses hits" + fromNow
	if is.Shadow {
		shadow = "the limit refuses nothing" + fromNow
	}
	diffValue(d, path+"shadow", was.Shadow, is.Shadow, shadow)
}

func (d *differ) clients(path string, was, is *Clients) {
	if was == nil {
		was = new(Clients)
	}
	if is == nil {
		is = new(Clients)
	}
	const effect = "other clients are bots" + fromNow
	diffSlice(d, path+".user_agents", was.UserAgents, is.UserAgents, effect)
	diffSlice(d, path+".cidrs", was.CIDRs, is.CIDRs, effect)
}

// diffValue compares a setting of one value.
func diffValue[T comparable](d *differ, path string, was, is T, effect string) {
	if was == is {
		return
	}
	text := func(v T) string {
		if s := fmt.Sprint(v); s != "" {
			return s
		}
		return "none"
	}
	d.add(path, text(was), text(is), effect)
}

// diffSlice compares a setting of several values.
func diffSlice[T ~string | ~int](d *differ, path string, was, is []T, effect string) {
	if slices.Equal(was, is) {
		return
	}
	text := func(values []T) string {
		if len(values) == 0 {
			return "none"
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if texts[i] = fmt.Sprint(v); texts[i] == "" { // a channel
				texts[i] = `""`
			}
		}
		return strings.Join(texts, ", ")
	}
	d.add(path, text(was), text(is), effect)
}

// diffNamed compares parts by their names. The effects are those of a part that is
// added or removed, and of another order.
func diffNamed[T any](d *differ, path string, was, is []*T, name func(*T) string, diff func(path string, was, is *T), effects [3]string) {
	find := func(parts []*T, n string) *T {
		if i := slices.IndexFunc(parts, func(p *T) bool { return name(p) == n }); i >= 0 {
			return parts[i]
		}
		return nil
	}
	var order [2][]string // of the parts on both sides
	for _, p := range was {
		if n := name(p); find(is, n) == nil {
			d.add(path+"."+n, "", "removed", effects[1])
		} else {
			order[0] = append(order[0], n)
		}
	}
	for _, p := range is {
		n := name(p)
		before := find(was, n)
		if before == nil {
			d.add(path+"."+n, "", "added", effects[0])
			continue
		}
		order[1] = append(order[1], n)
		diff(path+"."+n, before, p)
	}
	diffSlice(d, path, order[0], order[1], effects[2])
}

func pointers[T any](values []T) []*T {
	p := make([]*T, len(values))
	for i := range values {
		p[i] = &values[i]
	}
	return p
}

func texts(counts []BotCount) []string {
	texts := make([]string, len(counts))
	for i, c := range counts {
		texts[i] = strings.Join(append([]string{c.List}, c.Classes...), " ")
	}
	return texts
}

// moment formats a time, or returns nothing for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
