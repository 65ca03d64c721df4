package limit

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// attacker returns the address of the nth attacker.
func attacker(n int) netip.Addr {
	var a [16]byte
	a[0] = 0x20
	binary.BigEndian.PutUint64(a[:], 0x2000<<48|uint64(n))
	return netip.AddrFrom16(a)
}

func perIP(name string, w ruleset.Window) *ruleset.Limit {
	return &ruleset.Limit{Name: name, By: []ruleset.Dimension{ruleset.ByIP}, Windows: []ruleset.Window{w}}
}

// TestFlood is an attack with many more keys than there is room for. Clients that
// were there before keep what they have used up, new ones get about what the limit
// says, attackers gain nothing, and all is as before when it is over.
func TestFlood(t *testing.T) {
	t.Parallel()
	const max = 10
	for _, test := range []struct {
		name   string
		window ruleset.Window
		over   time.Duration // until the window is
	}{
		{"calendar", ruleset.Window{Max: max, Per: "day"}, 12 * time.Hour},
		{"campaign", ruleset.Window{Max: max, Per: "campaign"}, 0},
		{"rate", ruleset.Window{Max: max, Per: "minute"}, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			keys := 100_000
			if raceEnabled || testing.Short() {
				keys = 20_000
			}
			l := New(keys)
			r, articles, _ := bind(t, l, perIP("test", test.window))
			h := func(n int) *Hit { return &Hit{List: articles, IP: attacker(n)} }
			const honest, newcomer, greedy = -1, -2, -3

			take(r, h(honest), noon, max-3)
			// The flood: five times as many keys as there is room for, and one
			// attacker among them who wants all.
			refused := 0
			got := 0
			for n := range 5 * keys {
				refused += 1 - take(r, h(n), noon, 1)
				if n > 2*keys {
					got += take(r, h(greedy), noon, 1)
				}
			}
			s := l.Stats()
			if s.Keys != keys || s.Estimated == 0 {
				t.Errorf("%+v in the flood, want %d keys, and estimates", s, keys)
			}
			if n := take(r, h(honest), noon, max); n != 3 {
				t.Errorf("%d hits of a client admitted who had %d of %d left", n, 3, max)
			}
			mean := 4 * keys / (sketchCells * len(l.shards)) // see sketch
			if n := take(r, h(newcomer), noon, 10*max+10*mean); n < max/2 || n > max+mean+1 {
				t.Errorf("%d hits of a new client admitted, want %d or %d more", n, max, mean)
			}
			if got > max+mean+1 {
				t.Errorf("%d hits of a new attacker admitted, want %d or %d more", got, max, mean)
			}
			if refused > keys/100 {
				t.Errorf("%d first hits of %d keys refused, want less than 1 %%", refused, 5*keys)
			}
			if test.over == 0 {
				return
			}
			later := noon.Add(test.over)
			for n := range 2 * keys {
				if take(r, h(n), later, 1) != 1 {
					t.Fatalf("the first hit of key %d is refused when the window is over", n)
				}
			}
			if n := take(r, h(1), later, 2*max); n != max-1 {
				t.Errorf("%d more hits of a key admitted after the flood, want %d", n, max-1)
			}
			if after := l.Stats(); after.Keys > keys || after.Reclaimed == 0 {
				t.Errorf("%+v after the flood, want %d keys at most, some reclaimed", after, keys)
			}
			r.Release()
			if n := l.Stats().Keys; n != 0 {
				t.Errorf("%d keys after Release", n)
			}
		})
	}
}

// TestNoRoom has room for no key at all: everything is an estimate, which is exact
// as long as there are few keys.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for _, w := range []ruleset.Window{{Max: 5, Per: "day"}, {Max: 5, Per: "minute"}, {Max: 5, Per: "second"}} {
		l := New(0)
		r, articles, poll := bind(t, l, perIP("test", w))
		for day := range 2 {
			now := noon.AddDate(0, 0, day)
			for n := range 20 {
				h := &Hit{List: articles, IP: attacker(n)}
				if got := take(r, h, now, 9); got != 5 {
					t.Errorf("per %s, day %d: %d hits of key %d admitted, want 5", w.Per, day, got, n)
				}
				if d := r.Take(h, nil, now); d.Refused == nil || d.RetryAfter <= 0 || d.Remaining != 0 {
					t.Errorf("per %s: %+v, want a refusal with RetryAfter", w.Per, d)
				}
				if s := r.Look("test", h, nil, now); len(s) != 1 || !s[0].Estimated || s[0].Held || s[0].Remaining != 0 {
					t.Errorf("per %s: Look = %+v, want an estimate with nothing remaining", w.Per, s)
				}
			}
		}
		if s := l.Stats(); s.Keys != 0 || s.Estimated == 0 {
			t.Errorf("%+v, want no keys, and estimates", s)
		}
		// Learned counts find no room either.
		if !w.IsRate() {
			h := &Hit{List: poll, IP: attacker(1)}
			quotas, _ := r.AppendQuotas(nil, h, noon, secret)
			start, _ := w.Period().Bounds(noon.AddDate(0, 0, 1), time.UTC)
			r.Learn(hit.UsedQuota{List: "poll", Limit: "test", Window: w.ID(), Start: start.Unix(), Key: quotas[0].Key, Count: 5})
			if d := r.Take(h, quotas, noon.AddDate(0, 0, 1)); d.Refused == nil {
				t.Error("a key that is used up is admitted")
			}
		}
		// When there is room, the estimate counts.
		h := &Hit{List: articles, IP: attacker(100)}
		now := noon.AddDate(0, 0, 2)
		take(r, h, now, 3)
		l.SetMaxKeys(100)
		if got := take(r, h, now, 9); got != 2 {
			t.Errorf("per %s: %d hits admitted when there is room, want the 2 that are left", w.Per, got)
		}
		if s := l.Stats(); s.Keys != 1 {
			t.Errorf("%+v when there is room, want 1 key", s)
		}
	}
}

// TestHeldIsNeverForgotten lowers how many keys there may be.
func TestHeldIsNeverForgotten(t *testing.T) {
	t.Parallel()
	l := New(100)
	r, articles, _ := bind(t, l, perIP("test", ruleset.Window{Max: 5, Per: "day"}))
	for n := range 100 {
		take(r, &Hit{List: articles, IP: attacker(n)}, noon, 4)
	}
	l.SetMaxKeys(10)
	for n := range 120 { // of the last 20, estimates are exact: they are too few to collide
		want := 5
		if n < 100 {
			want = 1
		}
		if got := take(r, &Hit{List: articles, IP: attacker(n)}, noon, 9); got != want {
			t.Errorf("%d hits of key %d admitted, want %d", got, n, want)
		}
	}
	for n := range 300 { // all others are worth nothing a day later
		take(r, &Hit{List: articles, IP: attacker(1000 + n)}, noon.AddDate(0, 0, 1), 1)
	}
	if s := l.Stats(); s.Keys != 10 {
		t.Errorf("%+v a day later, want 10 keys", s)
	}
}

// TestChurn is a site with more visitors in an hour than in a minute: keys that are
// worth nothing make way before the table grows.
func TestChurn(t *testing.T) {
	t.Parallel()
	l := New(1 << 20)
	r, articles, _ := bind(t, l, perIP("test", ruleset.Window{Max: 60, Per: "minute"}))
	for n := range 200_000 { // 100 new ones a second, each is worth nothing after one
		take(r, &Hit{List: articles, IP: attacker(n)}, noon.Add(time.Duration(n)*10*time.Millisecond), 1)
	}
	if s := l.Stats(); s.Keys > 3000 || s.Estimated != 0 {
		t.Errorf("%+v, want the keys of some seconds", s)
	}
}

// BenchmarkMillionKeys reports how much memory a million keys take.
func BenchmarkMillionKeys(b *testing.B) {
	for _, test := range memory {
		b.Run(test.name, func(b *testing.B) {
			for range b.N {
				b.ReportMetric(float64(fillUp(b, 1_000_000, test.window))/1e6, "MB")
			}
		})
	}
}

var memory = []struct {
	name   string
	window ruleset.Window
}{
	{"rate", ruleset.Window{Max: 10, Per: "minute"}},
	{"calendar", ruleset.Window{Max: 10, Per: "day"}},
}

// TestMillionKeys holds the memory of a million keys, and of as many that found no
// room, to what the documentation says. It is not parallel, so that no other test
// allocates meanwhile.
func TestMillionKeys(t *testing.T) {
	keys := uint64(1_000_000)
	if raceEnabled || testing.Short() {
		keys /= 4
	}
	for _, test := range memory {
		if got := fillUp(t, int(keys), test.window) / keys; got > 150 {
			t.Errorf("%d keys of a %s take %d bytes each, want at most 150", keys, test.name, got)
		}
	}
}

// fillUp returns how many bytes a limiter takes that is full of keys.
func fillUp(tb testing.TB, keys int, w ruleset.Window) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := New(keys)
	r, articles, _ := bind(tb, l, perIP("test", w))
	h := &Hit{List: articles}
	for n := range keys + keys/4 {
		h.IP = attacker(n)
		r.Take(h, nil, noon)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if s := l.Stats(); s.Keys != keys {
		tb.Fatalf("%+v, want %d keys", s, keys)
	}
	r.Release()
	return after.HeapAlloc - before.HeapAlloc
}

// TestLongFlood is one that has filled the sketch many times over: new clients are
// still told apart from those that come too often.
func TestLongFlood(t *testing.T) {
	t.Parallel()
	const max, flood = 10, 40 * sketchCells
	r, articles, _ := bind(t, New(0), perIP("test", ruleset.Window{Max: max, Per: "day"}))
	for n := range flood {
		take(r, &Hit{List: articles, IP: attacker(n)}, noon, 1)
	}
	refused := 0
	for n := range 1000 {
		refused += 1 - take(r, &Hit{List: articles, IP: attacker(flood + n)}, noon, 1)
	}
	if refused > 10 {
		t.Errorf("the first hits of %d of 1000 new clients refused, want 1 %% at most", refused)
	}
	if n := take(r, &Hit{List: articles, IP: attacker(-1)}, noon, 1000); n < max/2 || n > max+41+1 {
		t.Errorf("%d hits of one client admitted, want %d, or as many more as the flood has hits a cell, 41", n, max)
	}
}

// TestEstimateOfShortRate is of a rate that fills up in less than the second that
// an estimate goes by.
func TestEstimateOfShortRate(t *testing.T) {
	t.Parallel()
	r, articles, _ := bind(t, New(0), perIP("test", ruleset.Window{Max: 2, Per: "100ms"}))
	h := &Hit{List: articles, IP: attacker(1)}
	for i := range 20 {
		if d := r.Take(h, nil, noon); d.Refused != nil || d.Remaining > 2 || d.Max != 2 {
			t.Fatalf("hit %d in a second: %+v, want it admitted, with a max of 2", i, d)
		}
	}
	if d := r.Take(h, nil, noon); d.Refused == nil || d.RetryAfter != time.Second {
		t.Errorf("hit 21 in a second: %+v, want it refused for this second", d)
	}
}

// TestOthersMakeRoom is of keys of a list that nobody looks at any more.
func TestOthersMakeRoom(t *testing.T) {
	t.Parallel()
	l := New(100)
	r, articles, poll := bind(t, l, perIP("test", ruleset.Window{Max: 5, Per: "day"}))
	for n := range 100 {
		take(r, &Hit{List: articles, IP: attacker(n)}, noon, 1)
	}
	for n := range 100 {
		take(r, &Hit{List: poll, IP: attacker(n)}, noon.AddDate(0, 0, 1), 1)
	}
	if s := l.Stats(); s.Estimated > 20 || s.Reclaimed < 80 {
		t.Errorf("%+v, want most of 100 keys of the day before reclaimed", s)
	}
}

func TestLearnWhatIsOver(t *testing.T) {
	t.Parallel()
	l := New(100)
	r, _, poll := bind(t, l, perIP("test", ruleset.Window{Max: 5, Per: "day"}))
	take(r, &Hit{List: poll, IP: attacker(1)}, noon, 1)
	for _, used := range []hit.UsedQuota{
		{List: "poll", Limit: "test", Window: "day", Start: noon.AddDate(0, 0, -1).Truncate(24 * time.Hour).Unix(), Key: 1, Count: 5},
		{List: "other", Limit: "test", Window: "day", Start: noon.Unix(), Key: 2, Count: 5},
		{List: "poll", Limit: "other", Window: "day", Start: noon.Unix(), Key: 3, Count: 5},
		{List: "poll", Limit: "test", Window: "week", Start: noon.Unix(), Key: 4, Count: 5},
	} {
		r.Learn(used)
		if s := l.Stats(); s.Keys != 1 {
			t.Errorf("%d keys after Learn(%+v), want 1 as before", s.Keys, used)
		}
	}
}
