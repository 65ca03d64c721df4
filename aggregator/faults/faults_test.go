package faults

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type fixture struct {
	*Registry
	metrics *prometheus.Registry
	log     bytes.Buffer
	clock   time.Time
}

func newFixture() *fixture {
	f := &fixture{metrics: prometheus.NewRegistry(), clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	f.Registry = New(slog.New(slog.NewTextHandler(&f.log, nil)), f.metrics)
	f.now = func() time.Time { return f.clock }
	return f
}

func (f *fixture) pass(d time.Duration) { f.clock = f.clock.Add(d) }

// value returns the value of one kind's series, which has to exist.
func value(t *testing.T, reg *prometheus.Registry, name string, kind Kind) float64 {
	t.Helper()
	families, err := reg.Gather()
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
	r := newFixture()
	r.Set(StoreAway, "", "connection refused")
	began := r.clock
	r.pass(10 * EventShown)
	r.Set(StoreAway, "", "i/o timeout")

	got := r.Active()
	if len(got) != 1 || got[0].Message != "i/o timeout" || !got[0].Since.Equal(began) {
		t.Errorf("Active() = %+v, want the last message and the first time", got)
	}
	if n := strings.Count(r.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d log lines for one condition:\n%s", n, r.log.String())
	}
	r.Clear(StoreAway, "")
	r.Clear(StoreAway, "") // not a fault: nothing to say
	if got := r.Active(); len(got) != 0 {
		t.Errorf("Active() = %+v after Clear", got)
	}
	if n := strings.Count(r.log.String(), "fault is over"); n != 1 {
		t.Errorf("%d log lines for one end:\n%s", n, r.log.String())
	}
	if n := value(t, r.metrics, "hotboard_faults_total", StoreAway); n != 1 {
		t.Errorf("counted %v times, want 1", n)
	}
	for _, k := range Kinds {
		if n := value(t, r.metrics, "hotboard_fault", k); n != 0 {
			t.Errorf("hotboard_fault of %s = %v, want 0", k, n)
		}
	}
}

func TestEventIsShownForAMinute(t *testing.T) {
	t.Parallel()
	r := newFixture()
	r.Event(Poisoned, "shard 1", "first")
	r.pass(EventShown - time.Second)
	r.Event(Poisoned, "shard 1", "second")
	r.Event(Poisoned, "shard 0", "other place")
	r.pass(EventShown - time.Second)

	got := r.Active()
	if len(got) != 2 || got[0].Where != "shard 0" || got[1].Message != "second" {
		t.Errorf("Active() = %+v, want the last event of each place, in order", got)
	}
	if n := value(t, r.metrics, "hotboard_fault", Poisoned); n != 2 {
		t.Errorf("metric = %v, want 2", n)
	}
	r.pass(time.Second)
	if got := r.Active(); len(got) != 0 {
		t.Errorf("Active() = %+v after a minute", got)
	}
	if n := value(t, r.metrics, "hotboard_faults_total", Poisoned); n != 3 {
		t.Errorf("counted %v times, want 3", n)
	}
}
