package pending

import (
	"net/netip"
	"net/url"
	"testing"
	"time"
)

// newViews returns Views that count in ended, by list and outcome.
func newViews(ended map[string]int) *Views {
	return New(func(list, outcome string) { ended[list+" "+outcome]++ })
}

func TestViews(t *testing.T) {
	t.Parallel()
	const list = "pending-unit"
	ended := make(map[string]int)
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	view := func(item string) []View { return []View{{List: list, Item: item}} }
	p := newViews(ended)
	for i, item := range []string{"a", "b", "c"} {
		p.Put(Key(i), start, view(item))
	}
	if n := p.Len(start); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	if got := shown(p, 0, start.Add(Life-1)); len(got) != 1 || got[0].Item != "a" {
		t.Errorf("took %v, want a", got)
	}
	if got := shown(p, 0, start.Add(Life-1)); got != nil {
		t.Errorf("took %v twice", got)
	}
	p.Put(3, start.Add(Life-1), view("d")) // with the others in the young generation
	if got := shown(p, 1, start.Add(Life)); got != nil {
		t.Errorf("took %v, which is too old", got)
	}
	if got := shown(p, 3, start.Add(2*Life-2)); len(got) != 1 || got[0].Item != "d" {
		t.Errorf("took %v, want d from the old generation", got)
	}
	p.Put(4, start.Add(2*Life-1), view("e"))
	if n := p.Len(start.Add(20 * Life)); n != 0 {
		t.Errorf("%d wait after a long time", n)
	}
	for outcome, want := range map[string]int{confirmed: 2, expired: 3, dropped: 0} {
		if got := ended[list+" "+outcome]; got != want {
			t.Errorf("%d %s, want %d", got, outcome, want)
		}
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	const list, flood = "pending-flood", 3 * maxPages
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ended := make(map[string]int)
	p := newViews(ended)
	most := 0
	for i := range flood {
		p.Put(Key(i), now, []View{{List: list}})
		most = max(most, len(p.young)+len(p.old))
	}
	if most > maxPages || most < maxPages/2 {
		t.Errorf("%d waited at most, want %d", most, maxPages)
	}
	if got := ended[list+" "+dropped] + p.Len(now); got != flood {
		t.Errorf("%d of %d are waiting or dropped", got, flood)
	}
	if got := shown(p, flood-1, now); len(got) != 1 {
		t.Error("the last is not there")
	}
}

func TestKeyOf(t *testing.T) {
	t.Parallel()
	p := newViews(nil)
	page := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	key := func(ip, userAgent, host, uri string) Key {
		return p.KeyOf(netip.MustParseAddr(ip), userAgent, host, page(uri))
	}
	one := key("192.0.2.1", "x", "example.com", "/a?b=c")
	if key("192.0.2.1", "x", "example.com", "/a?b=c") != one {
		t.Error("the same page has two keys")
	}
	for _, other := range []Key{
		key("192.0.2.2", "x", "example.com", "/a?b=c"), key("192.0.2.1", "y", "example.com", "/a?b=c"),
		key("192.0.2.1", "x", "example.org", "/a?b=c"), key("192.0.2.1", "x", "example.com", "/a?b=d"),
		key("192.0.2.1", "x", "example.com", "/a"), key("192.0.2.1", "xexample", ".com", "/a?b=c"),
		newViews(nil).KeyOf(netip.MustParseAddr("192.0.2.1"), "x", "example.com", page("/a?b=c")),
	} {
		if other == one {
			t.Error("two pages have one key")
		}
	}
}

// shown takes the views that waited for a page, and has them settled.
func shown(p *Views, k Key, now time.Time) []View {
	w := p.Take(k, now)
	w.Settled()
	return w.Views
}
