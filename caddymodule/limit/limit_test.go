package limit

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bind returns limits of the list articles, of pages, and of the list poll, of
// votes.
func bind(tb testing.TB, l *Limiter, limits ...*ruleset.Limit) (r *Limits, articles, poll *ruleset.List) {
	tb.Helper()
	rs := ruleset.MustCompile(ruleset.Config{
		Lists:  []*ruleset.ListConfig{{Name: "articles", Pages: []string{"/{id}"}}, {Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}}},
		Limits: limits,
	})
	return l.Bind(rs.Limits, rs.Lists), rs.Lists[0], rs.Lists[1]
}

func perUser(name string, windows ...ruleset.Window) *ruleset.Limit {
	return &ruleset.Limit{Name: name, By: []ruleset.Dimension{ruleset.ByUser}, Windows: windows}
}

// take counts how many of n hits are admitted.
func take(r *Limits, h *Hit, now time.Time, n int) (admitted int) {
	for range n {
		if d := r.Take(h, nil, now); d.Refused == nil {
			admitted++
		}
	}
	return admitted
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		windows []ruleset.Window
		bonus   int64
		want    time.Duration // when max is used up at noon; 0 is never
	}{
		{"rate", []ruleset.Window{{Max: 10, Per: "minute"}}, 0, 6 * time.Second},
		{"rate with burst", []ruleset.Window{{Max: 1, Per: "10s", Burst: 3}}, 0, 10 * time.Second},
		{"rate with bonus", []ruleset.Window{{Max: 2, Per: "second"}}, 3, time.Second / 2},
		{"calendar minute", []ruleset.Window{{Max: 3, Per: "minute", Calendar: true}}, 0, time.Minute},
		{"day", []ruleset.Window{{Max: 3, Per: "day"}}, 0, 12 * time.Hour},
		{"campaign", []ruleset.Window{{Max: 3, Per: "campaign"}}, 0, 0},
		{"the longest", []ruleset.Window{{Max: 3, Per: "day"}, {Max: 3, Per: "hour"}, {Max: 3, Per: "second"}}, 0, 12 * time.Hour},
		{"never is the longest", []ruleset.Window{{Max: 3, Per: "campaign"}, {Max: 3, Per: "hour"}}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			limit := perUser("test", test.windows...)
			if test.bonus > 0 {
				limit.Bonus = map[string]int64{"mail": test.bonus}
			}
			r, articles, _ := bind(t, New(100), limit)
			h := &Hit{List: articles, User: "ann", Channel: "mail"}
			var d Decision
			for d = r.Take(h, nil, noon); d.Refused == nil; d = r.Take(h, nil, noon) {
			}
			// A nanosecond goes to rounding up.
			if got := d.RetryAfter.Truncate(time.Microsecond); got != test.want {
				t.Fatalf("RetryAfter = %v, want %v", d.RetryAfter, test.want)
			}
			if test.want == 0 {
				if d := r.Take(h, nil, noon.AddDate(100, 0, 0)); d.Refused == nil {
					t.Error("a hit is admitted after a hundred years")
				}
				return
			}
			if d := r.Take(h, nil, noon.Add(d.RetryAfter-time.Microsecond)); d.Refused == nil {
				t.Error("a hit is admitted before RetryAfter")
			}
			if d := r.Take(h, nil, noon.Add(d.RetryAfter)); d.Refused != nil {
				t.Errorf("a hit is refused after RetryAfter: %+v", d)
			}
		})
	}
}

// TestShared is a bonus over a shared count: hits of all channels use it up.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, per := range []string{"minute", "day"} {
		limit := perUser("test", ruleset.Window{Max: 3, Per: per})
		limit.Bonus = map[string]int64{"mail": 2}
		r, articles, _ := bind(t, New(100), limit)
		plain, mail := Hit{List: articles, User: "ann"}, Hit{List: articles, User: "ann", Channel: "mail"}
		if n := take(r, &plain, noon, 9); n != 3 {
			t.Errorf("per %s: %d hits admitted, want 3", per, n)
		}
		if n := take(r, &mail, noon, 9); n != 2 {
			t.Errorf("per %s: %d hits more of a channel with a bonus of 2", per, n)
		}
		if per == "minute" { // the bucket is 2 below empty, and fills 3 a minute
			if n := take(r, &plain, noon.Add(59*time.Second), 9); n != 0 {
				t.Errorf("%d hits admitted before the bonus came back, want 0", n)
			}
			if n := take(r, &plain, noon.Add(60*time.Second), 9); n != 1 {
				t.Errorf("%d hits admitted when one came back", n)
			}
		}
	}
}

// TestTimeGoesBack is several processors' hits getting here in another order, and
// a clock that was wrong.
func TestTimeGoesBack(t *testing.T) {
	t.Parallel()
	limit := perUser("test", ruleset.Window{Max: 60, Per: "minute"})
	r, articles, _ := bind(t, New(100), limit)
	h := &Hit{List: articles, User: "ann"}
	take(r, h, noon, 60)
	n := 0
	for i := range 40 { // 0 s, 9 s, 1 s, 10 s … : fifty seconds in all
		n += take(r, h, noon.Add(time.Duration(i%2*9+i/4)*time.Second), 60)
	}
	if n > 18 {
		t.Errorf("%d hits admitted in 18 s of a hit a second", n)
	}

	day := perUser("test", ruleset.Window{Max: 3, Per: "day"}, ruleset.Window{Max: 3, Per: "10s"})
	r, articles, _ = bind(t, New(100), day)
	h = &Hit{List: articles, User: "ann"}
	take(r, h, noon.AddDate(10, 0, 0), 3)
	if n := take(r, h, noon, 4); n != 0 {
		t.Errorf("%d hits admitted: the bucket is empty, whatever the clock says", n)
	}
	if n := take(r, h, noon.Add(time.Minute), 4); n != 3 {
		t.Errorf("%d hits admitted by a clock that was put right, want 3", n)
	}
	if n := take(r, h, noon.Add(2*time.Minute), 4); n != 0 {
		t.Errorf("%d hits admitted, but the day is used up", n)
	}
}

func TestUnboundList(t *testing.T) {
	t.Parallel()
	r, _, _ := bind(t, New(100), perUser("test", ruleset.Window{Max: 1, Per: "day"}))
	h := &Hit{List: &ruleset.List{ListConfig: ruleset.ListConfig{Name: "other"}}, User: "ann"}
	if n := take(r, h, noon, 3); n != 3 {
		t.Errorf("%d hits of a list without limits admitted, want all", n)
	}
	if s := r.Look("test", h, nil, noon); s != nil {
		t.Errorf("Look = %v for a list without limits", s)
	}
	if q, ok := r.AppendQuotas(nil, h, noon, secret); len(q) != 0 || !ok {
		t.Errorf("AppendQuotas = %v, %v for a list without limits", q, ok)
	}
}

// TestOneStep takes hits from many goroutines: not one too many, not one too few,
// and what one limit refuses uses up nothing of the others.
func TestOneStep(t *testing.T) {
	t.Parallel()
	const (
		goroutines, hits = 16, 400
		all, each        = 500, 60
	)
	for _, per := range []string{"second", "day"} {
		r, articles, _ := bind(t, New(1<<18),
			perUser("each", ruleset.Window{Max: each, Per: per}, ruleset.Window{Max: 1e9, Per: "month"}),
			&ruleset.Limit{Name: "all", By: []ruleset.Dimension{ruleset.ByItem}, Windows: []ruleset.Window{{Max: all, Per: per}}},
			&ruleset.Limit{Name: "watch", By: []ruleset.Dimension{ruleset.ByChannel}, Windows: []ruleset.Window{{Max: 7, Per: per}}, Shadow: true},
		)
		var admitted, shadowed [goroutines]int // of each user
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range hits {
					user := (g + i) % goroutines
					h := &Hit{List: articles, Item: "a", User: fmt.Sprint(user)}
					d := r.Take(h, nil, noon)
					mu.Lock()
					if d.Refused == nil {
						admitted[user]++
					}
					if d.Refused == nil && len(d.Shadowed) > 0 {
						shadowed[user]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		sum, sumShadowed := 0, 0
		for user, n := range admitted {
			sum += n
			sumShadowed += shadowed[user]
			h := &Hit{List: articles, Item: "a", User: fmt.Sprint(user)}
			for i, s := range r.Look("each", h, nil, noon) {
				if got := s.Max - s.Remaining; got != int64(n) {
					t.Errorf("per %s: user %d had %d hits admitted, window %d counts %d", per, user, n, i, got)
				}
			}
			if n > each {
				t.Errorf("per %s: user %d had %d hits admitted, max is %d", per, user, n, each)
			}
		}
		if sum != all {
			t.Errorf("per %s: %d hits admitted, want %d", per, sum, all)
		}
		if sum-sumShadowed != 7 {
			t.Errorf("per %s: the limit in shadow would have admitted %d, want 7", per, sum-sumShadowed)
		}
	}
}

// TestEverythingAtOnce is for the race detector, and for locks taken in a wrong
// order.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	l := New(300) // fewer than there are keys
	limits := []*ruleset.Limit{
		perUser("a", ruleset.Window{Max: 10, Per: "second"}, ruleset.Window{Max: 50, Per: "day"}),
		{Name: "b", By: []ruleset.Dimension{ruleset.ByItem, ruleset.ByChannel}, Windows: []ruleset.Window{{Max: 5, Per: "hour"}}, Shadow: true},
	}
	var current atomic.Pointer[Limits]
	r, articles, poll := bind(t, l, limits...)
	current.Store(r)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				r, now := current.Load(), noon.Add(time.Duration(i)*50*time.Millisecond)
				h := &Hit{List: articles, Item: fmt.Sprint(i % 17), User: fmt.Sprint(i * g % 1000)}
				var quotas []hit.Quota
				if i%2 == 0 {
					h.List = poll
					quotas, _ = r.AppendQuotas(nil, h, now, secret)
				}
				d := r.Take(h, quotas, now)
				switch i % 50 {
				case 0:
					r.Undo(h, quotas, now, d.Shadowed...)
				case 1:
					r.Look("a", h, quotas, now)
				case 2:
					r.Reset("a", h, quotas)
				case 4:
					for _, q := range quotas {
						start, _ := limits[0].Window("day").Period().Bounds(now, time.UTC)
						r.Learn(hit.UsedQuota{List: "poll", Limit: q.Limit, Window: q.Window, Key: q.Key, Start: start.Unix(), Count: 50})
					}
				case 5:
					l.Stats()
				}
			}
		})
	}
	for i := range 100 {
		next, _, _ := bind(t, l, perUser("a", ruleset.Window{Max: int64(10 + i%2), Per: "second"}, ruleset.Window{Max: 50, Per: "day"}))
		current.Swap(next).Release()
	}
	wg.Wait()
	current.Load().Release()
	if s := l.Stats(); s.Keys < 0 || s.Keys > s.MaxKeys {
		t.Errorf("%d keys of at most %d", s.Keys, s.MaxKeys)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	l := New(100)
	day := ruleset.Window{Max: 3, Per: "day"}
	old, articles, _ := bind(t, l, perUser("test", day), perUser("gone", day))
	h := &Hit{List: articles, User: "ann"}
	take(old, h, noon, 2)
	day.Max = 5
	next, _, _ := bind(t, l, perUser("test", day))
	if n := take(next, h, noon, 9); n != 3 {
		t.Errorf("%d hits admitted after the max was raised by 2, want 3", n)
	}
	if n := take(old, h, noon, 1); n != 0 {
		t.Error("the old configuration does not see what the new one counted")
	}
	old.Release()
	old.Release()
	if s := l.Stats(); s.Keys != 1 {
		t.Errorf("%d keys after a limit is gone, want 1", s.Keys)
	}
	next.Release()
	if s := l.Stats(); s.Keys != 0 {
		t.Errorf("%d keys after the last Release, want none", s.Keys)
	}
	again, _, _ := bind(t, l, perUser("test", day))
	if n := take(again, h, noon, 9); n != 5 {
		t.Errorf("%d hits admitted after all was given up, want 5", n)
	}
}

func TestAppendQuotas(t *testing.T) {
	t.Parallel()
	limits := []*ruleset.Limit{
		perUser("many", ruleset.Window{Max: 9, Per: "second"}, ruleset.Window{Max: 9, Per: "minute", Calendar: true}, ruleset.Window{Max: 9, Per: "hour"},
			ruleset.Window{Max: 9, Per: "day"}, ruleset.Window{Max: 9, Per: "week"}, ruleset.Window{Max: 9, Per: "month"}, ruleset.Window{Max: 9, Per: "campaign"}),
		{Name: "mail", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{{Max: 9, Per: "day"}}, When: &ruleset.When{Channels: []string{"mail"}}},
		{Name: "watch", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{{Max: 9, Per: "day"}}, Shadow: true},
	}
	rs := ruleset.MustCompile(ruleset.Config{
		Lists: []*ruleset.ListConfig{
			{Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}, Zone: "Europe/Berlin"},
			{Name: "other", Votes: &ruleset.Votes{Options: []string{"*"}}, Zone: "Europe/Berlin"},
		},
		Limits: limits,
	})
	one, two := New(100).Bind(rs.Limits, rs.Lists), New(100).Bind(rs.Limits, rs.Lists)
	h := &Hit{List: rs.Lists[0], Item: "a", User: "ann"}
	var asked []string
	quotas, ok := one.AppendQuotas(nil, h, noon, func(p calendar.Period, start time.Time) []byte {
		asked = append(asked, fmt.Sprint(p, " ", start.Format(time.RFC3339)))
		return secret(p, start)
	})
	if !ok || len(quotas) != 7 {
		t.Fatalf("AppendQuotas = %v, %v, want 7", quotas, ok)
	}
	want := []string{
		"day 2026-11-19T23:00:00Z", "day 2026-11-19T23:00:00Z", "day 2026-11-19T23:00:00Z",
		"week 2026-11-15T23:00:00Z", "month 2026-10-31T23:00:00Z", "all 0001-01-01T00:00:00Z",
		"day 2026-11-19T23:00:00Z",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("secrets that were asked for (-want +got):\n%s", diff)
	}
	keys := map[uint64]bool{}
	for _, q := range quotas {
		keys[q.Key] = true
	}
	if len(keys) != len(quotas) {
		t.Errorf("keys of several windows or limits are the same: %v", quotas)
	}
	if same, _ := two.AppendQuotas(nil, h, noon, secret); !cmp.Equal(quotas, same, cmp.AllowUnexported(hit.Quota{})) {
		t.Errorf("two edges have other keys for the same vote: %v and %v", quotas, same)
	}
	h.List = rs.Lists[1]
	if other, _ := one.AppendQuotas(nil, h, noon, secret); other[0].Key == quotas[0].Key {
		t.Error("two lists have the same key")
	}

	before := []hit.Quota{{Limit: "before"}}
	if got, ok := one.AppendQuotas(before, h, noon, func(p calendar.Period, start time.Time) []byte {
		if p == calendar.Month {
			return nil
		}
		return secret(p, start)
	}); ok || len(got) != 1 {
		t.Errorf("AppendQuotas without the secret of a month = %v, %v, want what was there, false", got, ok)
	}
}

// TestKeyIsStable holds the keys of quotas to what they were: edges of two versions
// work side by side, and aggregators have counts under them.
func TestKeyIsStable(t *testing.T) {
	t.Parallel()
	limit := &ruleset.Limit{Name: "test", By: ruleset.Dimensions, Windows: []ruleset.Window{{Max: 9, Per: "day"}}}
	r, _, poll := bind(t, New(100), limit)
	h := &Hit{
		List: poll, Item: "a", Channel: "mail", Device: "mobile", IP: netip.MustParseAddr("192.0.2.1"),
		VisitorIP: netip.MustParseAddr("2001:db8::1"), VisitorText: "Firefox",
	}
	quotas, _ := r.AppendQuotas(nil, h, noon, func(calendar.Period, time.Time) []byte { return []byte("secret") })
	if want := uint64(4319549467916112113); len(quotas) != 1 || quotas[0].Key != want {
		t.Errorf("AppendQuotas = %v, want the key %d", quotas, want)
	}
}

func TestWriteHeader(t *testing.T) {
	t.Parallel()
	refused := &ruleset.Limit{Name: "test"}
	day, campaign := &ruleset.Window{Per: "day"}, &ruleset.Window{Per: "campaign"}
	for _, test := range []struct {
		name string
		d    Decision
		want http.Header
	}{
		{"no limit", Decision{}, http.Header{}},
		{"admitted", Decision{Window: day, Max: 10, Remaining: 9, Reset: time.Hour},
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"9"}, "Ratelimit-Reset": {"3600"}}},
		{"rounded up", Decision{Refused: refused, RetryAfter: 1, Window: day, Max: 10, Reset: time.Second + 1},
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"2"}, "Retry-After": {"1"}}},
		{"never", Decision{Refused: refused, Window: campaign, Max: 10},
			http.Header{"Ratelimit-Limit": {"10"}, "Ratelimit-Remaining": {"0"}}},
	} {
		h := http.Header{}
		test.d.WriteHeader(h)
		if diff := cmp.Diff(test.want, h); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
