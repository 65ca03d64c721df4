package faults

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type fixture struct {
	*Registry
	metrics *prometheus.Registry
	log     bytes.Buffer
}

// newFixture must be called in a bubble.
func newFixture() *fixture {
	f := &fixture{metrics: prometheus.NewRegistry()}
	f.Registry = New(slog.New(slog.NewTextHandler(&f.log, nil)), "hotboard", Aggregator)
	f.metrics.MustRegister(f.Registry)
	return f
}

// lines returns the log lines with all of the texts, once every timer has run.
func (f *fixture) lines(texts ...string) (found []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range strings.Lines(f.log.String()) {
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
			found = append(found, line)
		}
	}
	return found
}

// value returns the value of one kind's series, which must exist.
func (f *fixture) value(t *testing.T, name string, kind Kind) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == string(kind) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series %s of %s", name, kind)
	return 0
}

func TestConditionHoldsUntilCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture()
		r.Set(StoreAway, 3, "connection refused")
		began := time.Now()
		time.Sleep(10 * EventShown)
		r.Set(StoreAway, 3, "i/o timeout")

		got := r.Active()
		if len(got) != 1 || got[0].Message != "i/o timeout" || !got[0].Since.Equal(began) || !slices.Equal(got[0].Shards, []int{3}) {
			t.Errorf("Active() = %+v, want the last message and the first time", got)
		}
		r.Clear(StoreAway, 3)
		r.Clear(StoreAway, 3) // not an active fault any more
		if got := r.Active(); len(got) != 0 {
			t.Errorf("Active() = %+v after Clear", got)
		}
		if begin, end := r.lines("level=ERROR"), r.lines("fault is over"); len(begin) != 1 || len(end) != 1 {
			t.Errorf("the log has %d beginnings and %d ends of one condition:\n%s", len(begin), len(end), r.log.String())
		}
		if n := r.value(t, "hotboard_faults_total", StoreAway); n != 1 {
			t.Errorf("counted %v times, want 1", n)
		}
		for _, k := range Aggregator {
			if n := r.value(t, "hotboard_fault", k); n != 0 {
				t.Errorf("hotboard_fault of %s = %v, want 0", k, n)
			}
		}
	})
}

func TestEventIsShownForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture()
		r.Event(Poisoned, 1, "first")
		time.Sleep(EventShown - time.Second)
		r.Event(Poisoned, 1, "second")
		r.Event(Poisoned, 0, "other place")
		time.Sleep(EventShown - time.Second)

		got := r.Active()
		if len(got) != 2 || got[0].Message != "other place" || got[1].Message != "second" {
			t.Errorf("Active() = %+v, want the last event of each place, in order", got)
		}
		if n := r.value(t, "hotboard_fault", Poisoned); n != 2 {
			t.Errorf("metric = %v, want 2", n)
		}
		time.Sleep(time.Second)
		if got := r.Active(); len(got) != 0 {
			t.Errorf("Active() = %+v after a minute", got)
		}
		if n := r.value(t, "hotboard_faults_total", Poisoned); n != 3 {
			t.Errorf("counted %v times, want 3", n)
		}
	})
}

func TestOneCauseIsOneFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture()
		for shard := range 16 {
			r.Set(StoreAway, shard, "connection refused")
		}
		r.Set(StoreAway, Whole, "another cause")
		got := r.Active()
		if len(got) != 2 || len(got[1].Shards) != 16 || len(got[0].Shards) != 0 {
			t.Errorf("Active() = %+v, want one fault of 16 shards and one of none", got)
		}
		if n := len(r.lines("level=ERROR")); n != 1 {
			t.Errorf("%d log lines at once, want 1", n)
		}
		time.Sleep(LogEvery)
		if n := len(r.lines("level=ERROR", "times=16", "[1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]")); n != 1 {
			t.Errorf("no summary of the other 16 places:\n%s", r.log.String())
		}
	})
}

func TestTheLogIsNotFlooded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFixture()
		for range 1000 { // comes and goes for 100 s
			r.Set(StoreAway, 0, "the disk is full")
			time.Sleep(50 * time.Millisecond)
			r.Clear(StoreAway, 0)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * LogEvery)
		begin, end := r.lines("level=ERROR"), r.lines("fault is over")
		if len(begin) > 11 || len(end) < 1 {
			t.Errorf("%d beginnings and %d ends in the log:\n%s", len(begin), len(end), r.log.String())
		}
		if last := r.lines(); !strings.Contains(last[len(last)-1], "fault is over") {
			t.Errorf("the log does not end with the end of the fault: %s", last[len(last)-1])
		}
	})
}

func TestWriteReady(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		found  []Fault
		status int
		body   string
	}{
		{nil, 200, `{"ready":true,"faults":[]}`},
		{[]Fault{{Kind: Gap, Shards: []int{0, 2}, Message: "m"}}, 503, `{"ready":false,"faults":[{"kind":"gap","shards":[0,2],"message":"m","since":"0001-01-01T00:00:00Z"}]}`},
	} {
		w := httptest.NewRecorder()
		WriteReady(w, tc.found)
		if w.Code != tc.status || strings.TrimSpace(w.Body.String()) != tc.body {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, tc.status, tc.body)
		}
	}
}

func TestWithoutConsequences(t *testing.T) {
	t.Parallel()
	kinds := func(found []Fault) (k []Kind) {
		for _, f := range found {
			k = append(k, f.Kind)
		}
		return k
	}
	for _, tc := range []struct{ found, want []Kind }{
		{[]Kind{StoreAway, LogAway, Behind}, []Kind{StoreAway, LogAway, Behind}},
		{[]Kind{BackendAway, StoreAway, LogAway, LogRefuses, RulesUnknown, SpoolFailing}, []Kind{BackendAway, SpoolFailing}},
	} {
		var found []Fault
		for _, k := range tc.found {
			found = append(found, Fault{Kind: k})
		}
		if got := kinds(WithoutConsequences(found)); !slices.Equal(got, tc.want) {
			t.Errorf("of %v: %v, want %v", tc.found, got, tc.want)
		}
	}
}
