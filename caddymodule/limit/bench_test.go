package limit

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/ruleset"
)

func mustRuleset(tb testing.TB, rs *ruleset.Ruleset) *ruleset.Ruleset {
	tb.Helper()
	if err := rs.Provision(); err != nil {
		tb.Fatal(err)
	}
	return rs
}

func fourLimits(tb testing.TB) *ruleset.Ruleset {
	return mustRuleset(tb, &ruleset.Ruleset{
		Lists: []*ruleset.List{{Name: "articles", Pages: []string{"/articles/{id}"}}},
		Limits: []*ruleset.Limit{
			{Name: "ip", By: []ruleset.Dimension{ruleset.ByIP}, Windows: []ruleset.Window{{Max: 1e9, Per: ruleset.PerMinute}}},
			{Name: "visitor", By: []ruleset.Dimension{ruleset.ByVisitor}, Windows: []ruleset.Window{{Max: 1e9, Per: ruleset.PerSecond}}},
			{Name: "item", By: []ruleset.Dimension{ruleset.ByVisitor, ruleset.ByItem}, Windows: []ruleset.Window{{Max: 1e9, Per: ruleset.PerHour}}},
			{Name: "day", By: []ruleset.Dimension{ruleset.ByIP}, Windows: []ruleset.Window{{Max: 1e9, Per: ruleset.PerDay}}},
		},
	})
}

func BenchmarkTake(b *testing.B) {
	now := time.Now()
	b.Run("rate", func(b *testing.B) {
		lim := rate.NewLimiter(1e9, 1e9)
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Microsecond)
			lim.AllowN(now, 1)
		}
	})
	b.Run("four", func(b *testing.B) {
		rs := fourLimits(b)
		r := New(1e6).Bind(rs.Limits, rs.Lists)
		h := Hit{
			List: rs.Lists[0], Item: "rust-in-caddy", IP: netip.MustParseAddr("2001:db8::1"), VisitorIP: netip.MustParseAddr("2001:db8::1"),
			VisitorText: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
		}
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Microsecond)
			if d := r.Take(&h, nil, now); d.Refused != nil {
				b.Fatal("refused")
			}
		}
	})
}
