package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSamples()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	taken := 0
	for second := range 20 {
		now := start.Add(time.Duration(second) * time.Second)
		for i := range 100 {
			r := s.ring(ruleset.Bot)
			if r.admits(now.Add(time.Duration(i) * time.Millisecond)) {
				r.add(sample{Time: now, Reason: ruleset.Bot, Item: fmt.Sprint(taken)})
				taken++
			}
		}
	}
	if taken != 20*samplesPerSecond {
		t.Errorf("%d samples in 20 seconds, want %d", taken, 20*samplesPerSecond)
	}
	got := s.latest("", "", 10*samplesKept)
	if len(got) != samplesKept {
		t.Fatalf("%d samples are kept, want %d", len(got), samplesKept)
	}
	oldest := start.Add(time.Duration(20-samplesKept/samplesPerSecond) * time.Second)
	if first, last := got[0].Time, got[len(got)-1].Time; !first.Equal(start.Add(19*time.Second)) || !last.Equal(oldest) {
		t.Errorf("the samples are of %v to %v, want the latest first, and none older than %v", first, last, oldest)
	}
}

func TestLatestSamples(t *testing.T) {
	t.Parallel()
	s := newSamples()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, x := range []sample{
		{List: "a", Reason: "counted"}, {List: "b", Reason: "counted"}, {List: "a", Reason: "limited:one"},
		{List: "a", Reason: "limited:two"}, {List: "b", Reason: "bot"},
	} {
		x.Time = start.Add(time.Duration(i) * time.Second)
		s.ring(x.Reason).add(x)
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
		for _, x := range s.latest(tt.list, tt.reason, tt.limit) {
			got = append(got, x.List+" "+string(x.Reason))
		}
		if strings.Join(got, ",") != tt.want {
			t.Errorf("latest(%q, %q, %d) = %v, want %s", tt.list, tt.reason, tt.limit, got, tt.want)
		}
	}
}

func TestSamplesAreConcurrent(t *testing.T) {
	t.Parallel()
	s := newSamples()
	now := time.Now()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				r := s.ring(ruleset.Reason(fmt.Sprint("reason", i%3)))
				if r.admits(now.Add(time.Duration(i/100) * time.Second)) {
					r.add(sample{Time: now})
				}
				if i%100 == g {
					s.latest("", "", 10)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.latest("", "", 10_000)); n == 0 || n > 3*samplesKept {
		t.Errorf("%d samples", n)
	}
}

func TestSample(t *testing.T) {
	log := startLog(t, 1)
	const list = "sampled"
	e := startEdge(t, log, site(list, "channel {query.c}"))
	latest := func(reason ruleset.Reason) sample {
		t.Helper()
		got := e.app.rt.Load().samples.latest(list, reason, 1)
		if reason == ruleset.NoItem {
			got = e.app.rt.Load().samples.latest("", reason, 1)
		}
		if len(got) != 1 {
			t.Fatalf("no sample of %s", reason)
		}
		return got[0]
	}
	e.do(browse("/" + list + "/a%20b?c=mail&token=secret"))
	s := latest(ruleset.Counted)
	if s.Item != "a b" || s.Path != "/"+list+"/a%20b" || s.Method != "GET" || s.Channel != "mail" || s.Device != "desktop" || s.Visitor == "" || s.Bot != nil || s.Time.IsZero() {
		t.Errorf("sample %+v", s)
	}
	e.do(browse("/"+list+"/x", "User-Agent", googlebot))
	if b := latest(ruleset.Bot); b.Bot == nil || b.Bot.Class != "search_engine" || b.Bot.Reason == "" || b.Visitor == s.Visitor {
		t.Errorf("sample %+v of a bot", b)
	}
	e.do(fetch(http.MethodPost, "/api/views", `{"page":"/about/us?token=secret"}`))
	if n := latest(ruleset.NoItem); n.Path != "/api/views" || n.Page != "/about/us" || n.List != "" || n.Visitor != s.Visitor {
		t.Errorf("sample %+v of a page without an item", n)
	}
	e.do(browse("/" + list + "/" + strings.Repeat("x", 300)))
	if b := latest(ruleset.BadItem); len(b.Path) != maxSamplePath {
		t.Errorf("a path of %d bytes", len(b.Path))
	}
}

func BenchmarkSample(b *testing.B) {
	s := newSamples()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() { // in one second, so that nearly none is taken
		if r := s.ring(ruleset.Counted); r.admits(now) {
			r.add(sample{Time: now})
		}
	}
}
