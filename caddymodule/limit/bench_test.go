package limit

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// four binds four limits, two of rates and two of calendar windows, and returns a
// hit that all apply to.
func four(tb testing.TB) (r *Limits, view, vote *Hit) {
	r, articles, poll := bind(tb, New(1_000_000),
		&ruleset.Limit{Name: "ip", By: []ruleset.Dimension{ruleset.ByIP}, Windows: []ruleset.Window{{Max: 1e9, Per: "minute"}}},
		&ruleset.Limit{Name: "visitor", By: []ruleset.Dimension{ruleset.ByVisitor}, Windows: []ruleset.Window{{Max: 1e9, Per: "second"}}},
		&ruleset.Limit{Name: "item", By: []ruleset.Dimension{ruleset.ByVisitor, ruleset.ByItem}, Windows: []ruleset.Window{{Max: 1e9, Per: "hour"}}},
		&ruleset.Limit{Name: "day", By: []ruleset.Dimension{ruleset.ByIP}, Windows: []ruleset.Window{{Max: 1e9, Per: "day"}}},
	)
	ip := netip.MustParseAddr("2001:db8::1")
	view = &Hit{
		List: articles, Item: "rust-in-caddy", Device: "desktop", IP: ip, VisitorIP: ip,
		VisitorText: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
	}
	v := *view
	v.List = poll
	return r, view, &v
}

// BenchmarkTake compares four limits with a single limiter of package rate.
func BenchmarkTake(b *testing.B) {
	var alone float64 // ns
	perOp := func(b *testing.B) float64 { return float64(b.Elapsed()) / float64(b.N) }
	b.Run("rate", func(b *testing.B) {
		lim, now := rate.NewLimiter(1e9, 1e9), noon
		for b.Loop() {
			now = now.Add(time.Microsecond)
			lim.AllowN(now, 1)
		}
		alone = perOp(b)
	})
	compare := func(name string, h func() *Hit, r *Limits, quotas func(h *Hit, now time.Time) []hit.Quota) {
		b.Run(name, func(b *testing.B) {
			now := noon
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				h := h()
				if d := r.Take(h, quotas(h, now), now); d.Refused != nil {
					b.Fatal("refused")
				}
			}
			if alone > 0 {
				b.ReportMetric(perOp(b)/alone, "times-rate")
			}
		})
	}
	r, view, vote := four(b)
	none := func(*Hit, time.Time) []hit.Quota { return nil }
	compare("four", func() *Hit { return view }, r, none)
	// A key that is not in the processor's cache: one of a hundred thousand.
	n, other := 0, *view
	compare("four-of-many", func() *Hit {
		n = (n + 7919) % 100_000
		other.IP, other.VisitorIP = attacker(n), attacker(n)
		return &other
	}, r, none)
	var quotas []hit.Quota
	key := []byte("a secret of thirty-two bytes ...")
	compare("vote", func() *Hit { return vote }, r, func(h *Hit, now time.Time) []hit.Quota {
		quotas, _ = r.AppendQuotas(quotas[:0], h, now, func(calendar.Period, time.Time) []byte { return key })
		return quotas
	})
}

func BenchmarkTakeParallel(b *testing.B) {
	r, view, _ := four(b)
	b.RunParallel(func(pb *testing.PB) {
		now := noon
		for pb.Next() {
			now = now.Add(time.Microsecond)
			r.Take(view, nil, now)
		}
	})
}

func TestTakeDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	r, view, _ := four(t)
	r.Take(view, nil, noon)
	if n := testing.AllocsPerRun(1000, func() { r.Take(view, nil, noon) }); n >= 1 {
		t.Errorf("an admitted view allocates %v times", n)
	}
}
