package ruleset

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		&Limit{Name: "address", By: []Dimension{ByIP}, Windows: []Window{{Max: 10, Per: "10s"}, {Max: 5, Per: "minute", Burst: 2}, {Max: 7, Per: "minute", Calendar: true}, {Max: 9, Per: "day", Calendar: true}}},
		&Limit{Name: "narrow", By: []Dimension{ByItem, ByIP}, IPv4Prefix: 24, IPv6Prefix: 48, Windows: []Window{{Max: 1, Per: "campaign"}}},
		&Limit{Name: "person", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: "week"}}})
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
		{Window{Per: "second"}, true, time.Second},
		{Window{Per: "minute"}, true, time.Minute},
		{Window{Per: "minute", Calendar: true}, false, 0},
		{Window{Per: "1ms"}, true, time.Millisecond},
		{Window{Per: "90s"}, true, 0}, // longer than a rate can be: refused
		{Window{Per: "1m"}, true, time.Minute},
		{Window{Per: "-1s"}, true, 0},
		{Window{Per: "moon"}, true, 0},
		{Window{Per: "hour"}, false, 0},
		{Window{Per: "day"}, false, 0},
		{Window{Per: "week"}, false, 0},
		{Window{Per: "month"}, false, 0},
		{Window{Per: "campaign"}, false, 0},
	} {
		if rate, length := c.window.IsRate(), c.window.Rate(); rate != c.rate || length != c.length {
			t.Errorf("%+v: rate %v of %v, want %v of %v", c.window, rate, length, c.rate, c.length)
		}
	}
	l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: "minute"}, {Max: 2, Per: "minute", Calendar: true}, {Max: 3, Per: "day"}}}).Limits[0]
	for id, max := range map[string]int64{"minute": 2, "day": 3, "hour": 0, "second": 0, "": 0} {
		if w := l.Window(id); (w == nil) != (max == 0) || w != nil && w.Max != max {
			t.Errorf("window %q: %+v, want a max of %d", id, w, max)
		}
	}
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
		l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: "day"}}, When: c.when}).Limits[0]
		if got := l.Applies(c.list, c.channel, c.device); got != c.want {
			t.Errorf("%+v: applies to %s, %q, %s: %v", c.when, c.list, c.channel, c.device, got)
		}
		if got := l.AppliesToList(c.list); got != c.wantList {
			t.Errorf("%+v: applies to hits of %s: %v", c.when, c.list, got)
		}
	}
	l := limited(t, &Limit{Name: "a", By: []Dimension{ByUser}, Windows: []Window{{Max: 3, Per: "day"}}, Bonus: map[string]int64{"letter": 2}}).Limits[0]
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
				{Max: 1, Per: "second"}, {Max: 2, Per: "minute"}, {Max: 3, Per: "day"}, {Max: 4, Per: "week"},
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
