package limit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

var oneSequence = flag.Uint64("sequence", 0, "play only this random sequence, and print it")

// TestModel plays random sequences of hits, reloads and everything else that
// changes counts, and compares each answer with that of the model.
func TestModel(t *testing.T) {
	t.Parallel()
	sequences := uint64(100_000)
	if raceEnabled || testing.Short() {
		sequences = 4_000
	}
	if *oneSequence != 0 {
		newPlay(*oneSequence, t.Logf).run(t)
		return
	}
	parts := uint64(runtime.GOMAXPROCS(0))
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			for seed := 1 + part; seed <= sequences && !t.Failed(); seed += parts {
				newPlay(seed, func(string, ...any) {}).run(t)
			}
		})
	}
}

// play is one random sequence.
type play struct {
	*rand.Rand
	seed  uint64
	log   func(format string, args ...any)
	now   time.Time
	rules *Limits
	model *model
	l     *Limiter
	taken []taken
}

// taken is a hit that was admitted.
type taken struct {
	h        Hit
	quotas   []hit.Quota
	at       time.Time
	shadowed []*ruleset.Limit
	model    []*ruleset.Limit
}

// starts are times just before something happens to a calendar.
var starts = []string{
	"2026-11-20T10:00:00Z",
	"2026-03-29T00:30:00Z", // Berlin skips an hour
	"2026-10-25T00:30:00Z", // and repeats one
	"2026-11-01T05:50:00Z", // New York repeats one
	"2026-04-04T14:50:00Z", // Lord Howe Island repeats half an hour
	"2026-12-31T22:59:59Z", // a year ends in the middle of a week
	"2011-12-30T09:59:00Z", // Apia skips a day
}

var zones = []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"}

func newPlay(seed uint64, log func(string, ...any)) *play {
	p := &play{Rand: rand.New(rand.NewPCG(seed, 3)), seed: seed, log: log}
	p.now, _ = time.Parse(time.RFC3339, pick(p, starts))
	keys := 4000 // with few shards
	if p.IntN(20) == 0 {
		keys = 1 << 20
	}
	p.l = New(keys)
	return p
}

func pick[T any](p *play, from []T) T { return from[p.IntN(len(from))] }

// some returns a few of from, in any order.
func some[T any](p *play, from []T, least int) []T {
	n := least + p.IntN(min(len(from)-least, 3)+1)
	chosen := make([]T, 0, n)
	for _, i := range p.Perm(len(from))[:n] {
		chosen = append(chosen, from[i])
	}
	return chosen
}

var (
	channels = []string{"", "mail", "partner"}
	devices  = []string{"mobile", "desktop"}
	items    = []string{"a", "b"}
	users    = []string{"", "", "ann", "bob"}
	texts    = []string{"Firefox", "Safari"}
	ips      = []netip.Addr{
		{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("192.0.3.1"),
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8:0:1::1"), netip.MustParseAddr("2001:db9::1"),
	}
)

func (p *play) limit(name string) *ruleset.Limit {
	l := &ruleset.Limit{Name: name, By: some(p, ruleset.Dimensions, 1), Shadow: p.IntN(4) == 0}
	if slices.Contains(l.By, ruleset.ByIP) {
		l.IPv4Prefix = pick(p, []int{0, 32, 24, 23, 8})
		l.IPv6Prefix = pick(p, []int{0, 128, 64, 63, 33, 32})
	}
	spans := []string{"second", "minute", "10s", "1500ms", "hour", "day", "week", "month", "campaign"}
	for _, span := range some(p, spans, 1) {
		w := ruleset.Window{Per: span, Max: 1 + p.Int64N(4)}
		if w.IsRate() && p.IntN(2) == 0 {
			w.Burst = 1 + p.Int64N(6)
		}
		if span == "minute" && p.IntN(2) == 0 {
			w.Calendar, w.Burst = true, 0
		}
		l.Windows = append(l.Windows, w)
	}
	if p.IntN(3) == 0 {
		l.When = &ruleset.When{}
		if p.IntN(2) == 0 {
			l.When.Lists = []string{pick(p, []string{"articles", "poll"})}
		}
		if p.IntN(2) == 0 {
			l.When.Channels = some(p, channels, 1)
		}
		if p.IntN(2) == 0 {
			l.When.Devices = some(p, devices, 1)
		}
	}
	if p.IntN(3) == 0 {
		l.Bonus = map[string]int64{"mail": 1 + p.Int64N(3)}
	}
	return l
}

func (p *play) newRules(t *testing.T) *ruleset.Rules {
	rs := ruleset.Config{Lists: []*ruleset.ListConfig{
		{Name: "articles", Pages: []string{"/{id}"}, Zone: p.zone(1)},
		{Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}, Zone: p.zone(2)},
	}}
	for i := range 1 + p.IntN(4) {
		rs.Limits = append(rs.Limits, p.limit(fmt.Sprint("limit-", i)))
	}
	return ruleset.MustCompile(rs)
}

// zone returns the zone of a list, which no reload changes.
func (p *play) zone(list uint64) string {
	return zones[rand.New(rand.NewPCG(p.seed, list)).IntN(len(zones))]
}

// changed returns the rules as an operator may change it.
func (p *play) changed(t *testing.T) *ruleset.Rules {
	old := p.model.rules
	var rs ruleset.Config
	for _, list := range old.Lists {
		rs.Lists = append(rs.Lists, &ruleset.ListConfig{Name: list.Name, Pages: list.Pages, Votes: list.Votes, Zone: list.Zone})
	}
	for _, limit := range old.Limits {
		l := *limit
		l.Windows = slices.Clone(l.Windows)
		switch p.IntN(8) {
		case 0:
			continue
		case 1:
			l = *p.limit(l.Name)
		case 2:
			l.Shadow = !l.Shadow
		case 3:
			l.Windows[0].Max++
		case 4:
			l.By = slices.Clone(l.By)
			slices.Reverse(l.By)
		}
		rs.Limits = append(rs.Limits, &l)
	}
	return ruleset.MustCompile(rs)
}

func (p *play) hit() Hit {
	h := Hit{
		List: pick(p, p.model.rules.Lists), Item: pick(p, items), Channel: pick(p, channels), Device: pick(p, devices),
		IP: pick(p, ips), User: pick(p, users), VisitorText: pick(p, texts),
	}
	h.VisitorIP = h.IP
	if p.IntN(4) == 0 {
		h.VisitorIP = netip.Addr{} // a cookie
	}
	return h
}

// wait lets time pass, in whole milliseconds, which buckets of all rates here count
// exactly.
func (p *play) wait() {
	most := pick(p, []time.Duration{0, 0, time.Second, 20 * time.Second, time.Minute, time.Hour, 26 * time.Hour, 10 * 24 * time.Hour})
	if most > 0 {
		p.now = p.now.Add(time.Duration(p.Int64N(int64(most/time.Millisecond))) * time.Millisecond)
	}
}

func secret(p calendar.Period, start time.Time) []byte {
	return fmt.Appendf(nil, "secret of the %s of %v", p, start)
}

func (p *play) quotas(t *testing.T, h *Hit, at time.Time) []hit.Quota {
	if h.List.Votes == nil {
		return nil
	}
	quotas, ok := p.rules.AppendQuotas(nil, h, at, secret)
	if !ok {
		t.Fatalf("sequence %d: AppendQuotas = %v, false", p.seed, quotas)
	}
	return quotas
}

func (p *play) run(t *testing.T) {
	p.model = &model{rules: p.newRules(t), states: make(map[string]*modelState), ids: make(map[modelID]string)}
	p.rules = p.l.Bind(p.model.rules.Limits, p.model.rules.Lists)
	for _, l := range p.model.rules.Limits {
		p.log("limit %+v when %+v", *l, l.When)
	}
	few := []Hit{p.hit(), p.hit(), p.hit()} // so that keys come again
	for range 8 + p.IntN(24) {
		p.wait()
		h := pick(p, few)
		if p.IntN(3) == 0 {
			h = p.hit()
		}
		h.List = p.model.rules.Lists[slices.IndexFunc(p.model.rules.Lists, func(l *ruleset.List) bool { return l.Name == h.List.Name })]
		switch p.IntN(40) {
		case 0:
			p.reload(t)
		case 1, 11:
			p.undo()
		case 2, 12:
			p.learn(t, &h)
		case 3, 13:
			p.look(t, &h)
		case 4, 14:
			name := pick(p, []string{"limit-0", "limit-1"})
			p.log("%v reset %s of %+v", p.now, name, h)
			p.rules.Reset(name, &h, p.quotas(t, &h, p.now))
			p.model.forget(&h, name, p.now)
		default:
			p.take(t, h)
		}
		if t.Failed() {
			t.Logf("play it with -run TestModel -sequence %d -v", p.seed)
			return
		}
	}
	p.rules.Release()
	if s := p.l.Stats(); s.Keys != 0 || s.Estimated != 0 {
		t.Errorf("sequence %d: %+v after the last Release, want no keys, no estimates", p.seed, s)
	}
}

func (p *play) take(t *testing.T, h Hit) {
	quotas := p.quotas(t, &h, p.now)
	got := p.rules.Take(&h, quotas, p.now)
	want := p.model.take(&h, p.now)
	p.log("%v take %s %+v: %+v", p.now, h.List.Name, h, got)
	if got.Refused != want.refused || !slices.Equal(got.Shadowed, want.shadowed) {
		t.Errorf("sequence %d: hit %+v refused by %v, shadowed by %v, want %v, %v", p.seed, h, got.Refused, got.Shadowed, want.refused, want.shadowed)
		return
	}
	if !near(got.RetryAfter, want.wait) {
		t.Errorf("sequence %d: retry after %v, want %v", p.seed, got.RetryAfter, want.wait)
	}
	p.window(t, &got, &want)
	if got.Refused == nil {
		p.taken = append(p.taken, taken{h, quotas, p.now, got.Shadowed, want.shadowed})
	}
}

// near compares times to a few nanoseconds; never is 0 and -1.
func near(got, want time.Duration) bool {
	if want < 0 {
		return got == 0
	}
	return (got - want).Abs() < 4
}

// window compares the reported window: with the least room, reset last.
func (p *play) window(t *testing.T, got *Decision, want *modelDecision) {
	if len(want.windows) == 0 {
		if got.Window != nil {
			t.Errorf("sequence %d: window %+v, but no limit applies", p.seed, got.Window)
		}
		return
	}
	least, last := int64(1<<62), time.Duration(0)
	for _, w := range want.windows {
		n, _, full := w.room(p.now)
		if n < least {
			least, last = n, full
		} else if n == least && last >= 0 && (full < 0 || full > last) {
			last = full
		}
	}
	if got.Remaining != least || !near(got.Reset, last) {
		t.Errorf("sequence %d: %d remaining, reset in %v, want %d, %v", p.seed, got.Remaining, got.Reset, least, last)
	}
	if !slices.ContainsFunc(want.windows, func(w *modelWindow) bool {
		n, _, full := w.room(p.now)
		return w.window == got.Window && w.max() == got.Max && n == least && near(got.Reset, full)
	}) {
		t.Errorf("sequence %d: window %+v with a max of %d is not one with the least room", p.seed, got.Window, got.Max)
	}
}

func (p *play) undo() {
	if len(p.taken) == 0 {
		return
	}
	i := p.IntN(len(p.taken))
	u := p.taken[i]
	p.taken = slices.Delete(p.taken, i, i+1)
	p.log("%v undo %v %+v", p.now, u.at, u.h)
	// The shards know no later time than that of their last hit, and the model
	// knows no shards: let them all have seen this moment.
	p.tick()
	p.rules.Undo(&u.h, u.quotas, u.at, u.shadowed...)
	p.model.undo(&u.h, u.at, p.now, u.model)
}

func (p *play) tick() {
	for i := range p.l.shards {
		p.l.shards[i].tick(p.now)
	}
}

func (p *play) learn(t *testing.T, h *Hit) {
	quotas := p.quotas(t, h, p.now)
	if len(quotas) == 0 {
		return
	}
	q := pick(p, quotas)
	n := p.Int64N(6)
	limit := p.model.rules.Limit(q.Limit)
	start, end := limit.Window(q.Window).Period().Bounds(p.now, h.List.Location())
	if !end.IsZero() {
		switch p.IntN(6) {
		case 0: // another edge's clock is ahead
			start = end
			for _, ahead := range p.quotas(t, h, start) {
				if ahead.Limit == q.Limit && ahead.Window == q.Window {
					q = ahead
				}
			}
		case 1: // a window that is over has no effect
			start = start.Add(-time.Second)
		}
	}
	used := hit.UsedQuota{List: h.List.Name, Limit: q.Limit, Window: q.Window, Key: q.Key, Count: n}
	if start.IsZero() {
		start = p.now
	} else {
		used.Start = start.Unix()
	}
	p.log("%v learn %+v of %+v", p.now, used, h)
	p.rules.Learn(used)
	for _, w := range p.model.windows(h, q.Limit, start) {
		if !w.window.IsRate() && w.window.ID() == q.Window {
			w.learn(start, n)
		}
	}
}

func (p *play) look(t *testing.T, h *Hit) {
	name := pick(p, p.model.rules.Limits).Name
	got := p.rules.Look(name, h, p.quotas(t, h, p.now), p.now)
	want := p.model.windows(h, name, p.now)
	p.log("%v look at %s %+v: %+v", p.now, name, h, got)
	if len(got) != len(want) {
		t.Errorf("sequence %d: Look has %d windows, want %d", p.seed, len(got), len(want))
		return
	}
	for i, w := range want {
		n, _, full := w.room(p.now)
		if w.window.IsRate() && n == w.max() || !w.window.IsRate() && n == w.max() {
			full = 0
		}
		if g := got[i]; g.Window != w.window || g.Max != w.max() || g.Remaining != n || !near(g.Reset, full) || g.Estimated {
			t.Errorf("sequence %d: Look = %+v, want %d of %d, reset %v", p.seed, g, n, w.max(), full)
		}
	}
}

func (p *play) reload(t *testing.T) {
	rs := p.changed(t)
	p.log("%v reload", p.now)
	for _, l := range rs.Limits {
		p.log("limit %+v when %+v", *l, l.When)
	}
	if len(rs.Limits) == 0 {
		return
	}
	next := p.l.Bind(rs.Limits, rs.Lists)
	if p.IntN(4) == 0 { // the configuration fails: it leaves no trace
		next.Release()
		return
	}
	p.rules.Release()
	p.rules, p.taken = next, nil
	p.model.reload(rs)
}
