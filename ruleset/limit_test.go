package ruleset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/hit"
)

// limited returns rules of a list of pages, one of votes, and limits.
func limited(t testing.TB, limits ...*Limit) *Rules {
	t.Helper()
	return MustCompile(Config{Lists: []*ListConfig{{Name: "articles", Pages: []string{"/a/{id}"}}, {Name: "poll", Votes: &Votes{Options: []string{"*"}}}}, Limits: limits})
}

func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	r := limited(t,
		&Limit{Name: "address", By: []Dimension{ByIP}, Windows: []Window{{Max: 10, Per: "10s"}, {Max: 5, Per: PerMinute, Burst: 2}, {Max: 7, Per: PerMinute, Calendar: true}, {Max: 9, Per: PerDay, Calendar: true}}},
		&Limit{Name: "narrow", By: []Dimension{ByItem, ByIP}, IPv4Prefix: 24, IPv6Prefix: 48, Windows: []Window{{Max: 1, Per: PerCampaign}}},
		&Limit{Name: "person", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: PerWeek}}})
	const want = `[{"name":"address","by":["ip"],"ipv4_prefix":32,"ipv6_prefix":64,"windows":[{"max":10,"per":"10s","burst":10},{"max":5,"per":"minute","burst":2},{"max":7,"per":"minute","calendar":true},{"max":9,"per":"day"}]},` +
		`{"name":"narrow","by":["item","ip"],"ipv4_prefix":24,"ipv6_prefix":48,"windows":[{"max":1,"per":"campaign"}]},` +
		`{"name":"person","by":["user"],"windows":[{"max":1,"per":"week"}]}]`
	if got := strings.NewReplacer("\n", "", " ", "").Replace(toJSON(t, r.Limits)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Limit("person") != r.Limits[2] || r.Limit("nobody") != nil {
		t.Error("Limit does not find what has the name")
	}
	if got := r.Limits[0].Reason(); got != "limited:address" {
		t.Errorf("reason %q", got)
	}
}

func TestWindowKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window Window
		rate   bool
		length time.Duration
	}{
		{Window{Per: PerSecond}, true, time.Second},
		{Window{Per: PerMinute}, true, time.Minute},
		{Window{Per: PerMinute, Calendar: true}, false, time.Minute},
		{Window{Per: "1ms"}, true, time.Millisecond},
		{Window{Per: "90s"}, true, 0}, // longer than a rate can be: refused
		{Window{Per: "1m"}, true, time.Minute},
		{Window{Per: "-1s"}, true, 0},
		{Window{Per: "moon"}, true, 0},
		{Window{Per: PerHour}, false, 0},
		{Window{Per: PerDay}, false, 0},
		{Window{Per: PerWeek}, false, 0},
		{Window{Per: PerMonth}, false, 0},
		{Window{Per: PerCampaign}, false, 0},
	} {
		if rate, length := c.window.IsRate(), c.window.Per.Duration(); rate != c.rate || length != c.length {
			t.Errorf("%+v: rate %v of %v, want %v of %v", c.window, rate, length, c.rate, c.length)
		}
	}
	l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: PerMinute}, {Max: 2, Per: PerMinute, Calendar: true}, {Max: 3, Per: PerDay}}}).Limits[0]
	for id, max := range map[string]int64{"minute": 2, "day": 3, "hour": 0, "second": 0, "": 0} {
		if w := l.Window(id); (w == nil) != (max == 0) || w != nil && w.Max != max {
			t.Errorf("window %q: %+v, want a max of %d", id, w, max)
		}
	}
}

func TestWindowBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		per              Span
		zone, at         string
		wantFrom, wantTo string
	}{
		{PerMinute, "Asia/Kathmandu", "2026-11-20T13:29:59.9Z", "2026-11-20T13:29:00Z", "2026-11-20T13:30:00Z"},
		{PerHour, "Asia/Kolkata", "2026-11-20T13:29:59Z", "2026-11-20T12:30:00Z", "2026-11-20T13:30:00Z"},
		{PerDay, "Europe/Berlin", "2026-11-20T22:59:59Z", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z"},
		{PerDay, "Europe/Berlin", "2026-11-20T23:00:00Z", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"},
		{PerDay, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // of 25 hours
		{PerWeek, "UTC", "2027-01-01T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{PerMonth, "America/New_York", "2026-12-01T04:59:59Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"},
	} {
		w := Window{Max: 1, Per: c.per, Calendar: c.per == PerMinute}
		from, to := w.Bounds(utc(t, c.at), loadZone(t, c.zone))
		if !from.Equal(utc(t, c.wantFrom)) || !to.Equal(utc(t, c.wantTo)) || from.Location() != time.UTC || to.Location() != time.UTC {
			t.Errorf("%s of %s in %s: %v to %v, want %s to %s", c.per, c.at, c.zone, from, to, c.wantFrom, c.wantTo)
		}
	}
	w := Window{Max: 1, Per: PerCampaign}
	if from, to := w.Bounds(utc(t, "2026-11-20T13:00:00Z"), time.UTC); !from.IsZero() || !to.IsZero() {
		t.Errorf("a campaign has bounds: %v to %v", from, to)
	}
}

// The bounds of a window contain the requested time, and every time between them
// has the same bounds: otherwise a count would restart in the middle, or one hit
// would count in two windows.
func TestWindowsDivideTime(t *testing.T) {
	t.Parallel()
	spans := []Span{PerMinute, PerHour, PerDay, PerWeek, PerMonth}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(testZones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		per := rapid.SampledFrom(spans).Draw(t, "per")
		w := Window{Max: 1, Per: per, Calendar: per == PerMinute}
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at")) // 1970 to 2096
		from, to := w.Bounds(at, zone)
		if at.Before(from) || !at.Before(to) {
			t.Fatalf("%s of %v: %v to %v", per, at.UTC(), from, to)
		}
		within := from.Add(time.Duration(rapid.Int64Range(0, int64(to.Sub(from))-1).Draw(t, "within")))
		for _, other := range []time.Time{from, within, to.Add(-1)} {
			if f, e := w.Bounds(other, zone); !f.Equal(from) || !e.Equal(to) {
				t.Fatalf("%s of %v: %v to %v, and of %v, which is in it: %v to %v", per, at.UTC(), from, to, other, f, e)
			}
		}
		if next, _ := w.Bounds(to, zone); !next.Equal(to) {
			t.Fatalf("%s: one ends at %v, the next begins at %v", per, to, next)
		}
	})
}

func TestLimitApplies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when                  *When
		list, channel, device string
		want, wantList        bool
	}{
		{nil, "poll", "", "mobile", true, true},
		{&When{}, "poll", "", "mobile", true, true},
		{&When{Lists: []string{"poll"}}, "poll", "x", "tv", true, true},
		{&When{Lists: []string{"poll"}}, "articles", "x", "tv", false, false},
		{&When{Channels: []string{"x", "y"}}, "poll", "y", "tv", true, true},
		{&When{Channels: []string{"x", "y"}}, "poll", "z", "tv", false, true},
		{&When{Channels: []string{"x"}}, "poll", "", "tv", false, true},
		{&When{Channels: []string{""}}, "poll", "", "tv", true, true}, // those without a channel
		{&When{Devices: []string{"mobile"}}, "poll", "", "mobile", true, true},
		{&When{Devices: []string{"mobile"}}, "poll", "", "tablet", false, true},
		{&When{Lists: []string{"poll"}, Devices: []string{"mobile"}}, "poll", "", "mobile", true, true},
		{&When{Lists: []string{"poll"}, Devices: []string{"mobile"}}, "poll", "", "other", false, true},
		{&When{Lists: []string{"poll"}, Devices: []string{"mobile"}}, "articles", "", "mobile", false, false},
	} {
		l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: PerDay}}, When: c.when}).Limits[0]
		if got := l.Applies(c.list, c.channel, c.device); got != c.want {
			t.Errorf("%+v: applies to %s, %q, %s: %v", c.when, c.list, c.channel, c.device, got)
		}
		if got := l.AppliesToList(c.list); got != c.wantList {
			t.Errorf("%+v: applies to hits of %s: %v", c.when, c.list, got)
		}
	}
	l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 3, Per: PerDay}}, Bonus: map[string]int64{"letter": 2}}).Limits[0]
	if with, without := l.Max(&l.Windows[0], "letter"), l.Max(&l.Windows[0], ""); with != 5 || without != 3 {
		t.Errorf("max %d with the bonus and %d without", with, without)
	}
}

// A vote has room for hit.MaxQuotas counts. Compile refuses rules that need
// more.
func TestQuotasOfAVoteAreBounded(t *testing.T) {
	t.Parallel()
	build := func(limits int, when *When) error {
		r := Config{Lists: []*ListConfig{{Name: "articles", Pages: []string{"/a/{id}"}}, {Name: "poll", Votes: &Votes{Options: []string{"*"}}}}}
		for i := range limits {
			r.Limits = append(r.Limits, &Limit{Name: fmt.Sprint("l", i), By: []Dimension{ByUser}, When: when, Windows: []Window{
				{Max: 1, Per: PerSecond}, {Max: 2, Per: PerMinute}, {Max: 3, Per: PerDay}, {Max: 4, Per: PerWeek},
			}})
		}
		_, err := Compile(r)
		return err
	}
	fit := hit.MaxQuotas / 2 // two calendar windows each
	if err := build(fit, nil); err != nil {
		t.Errorf("%d limits: %v", fit, err)
	}
	err := build(fit+1, nil)
	if want := fmt.Sprintf("lists[1]: %d calendar windows of limits apply to its votes, more than %d", 2*fit+2, hit.MaxQuotas); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d limits: %v, want %q", fit+1, err, want)
	}
	if err := build(fit+1, &When{Lists: []string{"articles"}}); err != nil {
		t.Errorf("limits of views alone: %v", err)
	}
}
