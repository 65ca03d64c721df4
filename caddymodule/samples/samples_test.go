package samples

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

func TestBounded(t *testing.T) {
	t.Parallel()
	s := New()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	taken := 0
	for second := range 20 {
		now := start.Add(time.Duration(second) * time.Second)
		for i := range 100 {
			if s.Admits(ruleset.Bot, now.Add(time.Duration(i)*time.Millisecond)) {
				s.Add(Sample{Time: now, Reason: ruleset.Bot, Item: fmt.Sprint(taken)})
				taken++
			}
		}
	}
	if taken != 20*perSecond {
		t.Errorf("%d samples in 20 seconds, want %d", taken, 20*perSecond)
	}
	got := s.Latest("", "", 10*maxKept)
	if len(got) != maxKept {
		t.Fatalf("%d samples are kept, want %d", len(got), maxKept)
	}
	oldest := start.Add(time.Duration(20-maxKept/perSecond) * time.Second)
	if first, last := got[0].Time, got[len(got)-1].Time; !first.Equal(start.Add(19*time.Second)) || !last.Equal(oldest) {
		t.Errorf("the samples are of %v to %v, want the latest first, and none older than %v", first, last, oldest)
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	s := New()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, x := range []Sample{
		{List: "a", Reason: "counted"}, {List: "b", Reason: "counted"}, {List: "a", Reason: "limited:one"},
		{List: "a", Reason: "limited:two"}, {List: "b", Reason: "bot"},
	} {
		x.Time = start.Add(time.Duration(i) * time.Second)
		s.Add(x)
	}
	for _, tt := range []struct {
		list   string
		reason ruleset.Reason
		limit  int
		want   string
	}{
		{"", "", 10, "b bot,a limited:two,a limited:one,b counted,a counted"},
		{"", "", 2, "b bot,a limited:two"},
		{"a", "", 10, "a limited:two,a limited:one,a counted"},
		{"", "counted", 10, "b counted,a counted"},
		{"a", "limited", 10, "a limited:two,a limited:one"},
		{"a", "limited:one", 10, "a limited:one"},
		{"b", "limited", 10, ""},
		{"", "unheard_of", 10, ""},
	} {
		var got []string
		for _, x := range s.Latest(tt.list, tt.reason, tt.limit) {
			got = append(got, x.List+" "+string(x.Reason))
		}
		if strings.Join(got, ",") != tt.want {
			t.Errorf("Latest(%q, %q, %d) = %v, want %s", tt.list, tt.reason, tt.limit, got, tt.want)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := New()
	now := time.Now()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				reason := ruleset.Reason(fmt.Sprint("reason", i%3))
				if s.Admits(reason, now.Add(time.Duration(i/100)*time.Second)) {
					s.Add(Sample{Time: now, Reason: reason})
				}
				if i%100 == g {
					s.Latest("", "", 10)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.Latest("", "", 10_000)); n == 0 || n > 3*maxKept {
		t.Errorf("%d samples", n)
	}
}

func TestLongPaths(t *testing.T) {
	t.Parallel()
	s := New()
	s.Add(Sample{Path: strings.Repeat("x", maxPath+1), Page: strings.Repeat("y", maxPath)})
	if got := s.Latest("", "", 1)[0]; len(got.Path) != maxPath || len(got.Page) != maxPath {
		t.Errorf("paths of %d and %d bytes, want %d", len(got.Path), len(got.Page), maxPath)
	}
}

func BenchmarkAdmits(b *testing.B) {
	s := New()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() { // in one second, so that nearly none is taken
		if s.Admits(ruleset.Counted, now) {
			s.Add(Sample{Time: now, Reason: ruleset.Counted})
		}
	}
}
