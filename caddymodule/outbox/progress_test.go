package outbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// kinds returns the kinds of the faults that an outbox has.
func (o *Outbox) kinds() (kinds []faults.Kind) {
	for _, f := range o.opts.Faults.Active() {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// heard returns what the aggregator heard last.
func (b *fakeBus) heard() hit.Waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

func (o *Outbox) fault(kind faults.Kind) string {
	for _, f := range o.opts.Faults.Active() {
		if f.Kind == kind {
			return f.Message
		}
	}
	return ""
}

// Whatever keeps accepted hits from being counted is a fault, which ends with it.
func TestWhatIsNotAppliedInTimeIsAFault(t *testing.T) {
	t.Parallel()
	down := errors.Join(errNoConnection)
	for name, tt := range map[string]struct {
		hurt   func(*fakeBus)
		soon   []faults.Kind // after ten seconds
		reason string        // of behind, after a minute
		silent bool          // no aggregator hears of it
	}{
		"the log refuses": {
			func(b *fakeBus) { b.publish = func(int) (bool, error) { return false, errBus } },
			[]faults.Kind{faults.LogRefuses}, "publishing fails: " + errBus.Error(), false,
		},
		"nothing is applied": {
			func(b *fakeBus) { b.publish = func(int) (bool, error) { return false, nil } },
			nil, "they are not applied", false,
		},
		"no aggregator": {func(b *fakeBus) { b.away = true }, nil, errBus.Error(), true},
		"no connection": {
			func(b *fakeBus) {
				b.down, b.away, b.publish = down, true, func(int) (bool, error) { return false, down }
			},
			[]faults.Kind{faults.LogAway}, errNoConnection.Error(), true,
		},
		"no stream": {
			func(b *fakeBus) { b.publish = func(int) (bool, error) { return false, jetstream.ErrStreamNotFound } },
			[]faults.Kind{faults.LogAway}, "stream not found", false,
		},
		"other shards": {
			func(b *fakeBus) { b.publish = func(int) (bool, error) { return false, ErrShards } },
			[]faults.Kind{faults.LogShards}, ErrShards.Error(), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bus := newFakeBus()
				o := open(t, Options{Dir: t.TempDir()})
				stop := start(t, o, bus)
				mustAppend(t, o, "before")
				time.Sleep(2 * time.Minute) // all is counted and trimmed: the outbox rests

				bus.set(func() { tt.hurt(bus) })
				mustAppend(t, o, names("i", 100)...)
				time.Sleep(15 * time.Second)
				if got := o.kinds(); !slices.Equal(got, tt.soon) {
					t.Errorf("after 15 s: %v, want %v", got, tt.soon)
				}
				time.Sleep(hit.BehindAfter)
				if got := o.fault(faults.Behind); !strings.Contains(got, " batches wait to be counted") || !strings.Contains(got, tt.reason) {
					t.Errorf("behind: %q, want the reason %q", got, tt.reason)
				}
				if w := bus.heard(); !tt.silent && (w.Batches == 0 || w.OldestMillis < hit.BehindAfter.Milliseconds()) {
					t.Errorf("the aggregator hears %+v", w)
				}
				if refused := bus.heard().Refused; (name == "the log refuses") != strings.Contains(refused, "restart nats-server") {
					t.Errorf("the aggregator hears of the log: %q", refused)
				}

				bus.set(func() { bus.publish, bus.away, bus.down = nil, false, nil })
				time.Sleep(90 * time.Second) // the edge sends lost batches again after a while
				if got := o.opts.Faults.Active(); len(got) != 0 {
					t.Errorf("after it was mended: %+v", got)
				}
				if w := bus.heard(); w.Batches != 0 || w.Refused != "" {
					t.Errorf("the aggregator hears %+v", w)
				}
				stop()
				closeNow(t, o)
			})
		})
	}
}

// listener is a bus that remembers the oldest backlog that an edge reported.
type listener struct {
	*fakeBus
	oldest int64
}

func (l *listener) Applied(ctx context.Context, w hit.Waiting) (map[int]uint64, error) {
	l.set(func() { l.oldest = max(l.oldest, w.OldestMillis) })
	return l.fakeBus.Applied(ctx, w)
}

// Batches of an earlier process are no backlog, however old they are, until an
// aggregator has answered that it lacks them.
func TestRestartIsNoBacklog(t *testing.T) {
	t.Parallel()
	for _, lacks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			bus, dir := newFakeBus(), t.TempDir()
			o := open(t, Options{Dir: dir})
			stop := start(t, o, bus)
			mustAppend(t, o, names("i", 10)...)
			time.Sleep(10 * time.Second)
			stop()
			closeNow(t, o) // within the minute for which applied batches are kept
			time.Sleep(time.Hour)

			if lacks {
				bus.set(func() {
					clear(bus.applied)
					bus.publish = func(int) (bool, error) { return false, nil }
				})
			}
			again := &listener{fakeBus: bus}
			o = open(t, Options{Dir: dir})
			stop = start(t, o, again)
			time.Sleep(5 * time.Second)
			var oldest int64
			bus.set(func() { oldest = again.oldest })
			if old := oldest >= hit.BehindAfter.Milliseconds(); old != lacks {
				t.Errorf("the aggregator lacks batches: %v; the edge reported that they wait for %d ms", lacks, oldest)
			}
			if behind := o.fault(faults.Behind) != ""; behind != lacks {
				t.Errorf("the aggregator lacks batches: %v; the faults are %v", lacks, o.kinds())
			}
			stop()
			closeNow(t, o)
		})
	}
}

// No connection is a fault also while there is nothing to send.
func TestNoConnectionIsAFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		o := open(t, Options{Dir: t.TempDir()})
		stop := start(t, o, bus)
		bus.set(func() { bus.down = errNoConnection })
		time.Sleep(20 * time.Second)
		if got := o.fault(faults.LogAway); got == "" {
			t.Error("no fault")
		}
		bus.set(func() { bus.down = nil })
		time.Sleep(10 * time.Second)
		if got := o.kinds(); len(got) != 0 {
			t.Errorf("after it came back: %v", got)
		}
		stop()
		closeNow(t, o)
	})
}

func TestWhatTheAggregatorHearsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		bus.publish = func(int) (bool, error) { return false, errors.New(strings.Repeat("é", 1<<16)) }
		o := open(t, Options{Dir: t.TempDir()})
		stop := start(t, o, bus)
		mustAppend(t, o, "i")
		time.Sleep(10 * time.Second)
		if n := len(bus.heard().Refused); n == 0 || n > hit.MaxRefused {
			t.Errorf("%d bytes", n)
		}
		stop()
		closeNow(t, o)
	})
}

// A full stream refuses messages. The edge raises faults about it, and
// none when there is room again.
func TestNATSFull(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, js := connect(t, server)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: hit.Stream, Subjects: []string{hit.SubjectHits + ".*.*"}, MaxBytes: 8 << 10, Discard: jetstream.DiscardNew,
		Metadata: map[string]string{hit.StreamShards: strconv.Itoa(natsShards)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, Options{Dir: t.TempDir(), Shards: natsShards, BehindAfter: 2 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx, NewNATS(func() *nats.Conn { return nc }, natsShards)) }()
	for range 100 {
		mustAppend(t, o, names("an item with a long name", 50)...)
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		deadline, tick := time.After(30*time.Second), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for !ok() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s: %+v, %+v", what, o.opts.Faults.Active(), o.Stats())
			}
		}
	}
	wait("no faults", func() bool {
		return strings.Contains(o.fault(faults.LogRefuses), "nats.max_bytes") &&
			strings.Contains(o.fault(faults.Behind), "publishing fails")
	})
	config := stream.CachedInfo().Config
	config.MaxBytes = 64 << 20
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	wait("the fault stays", func() bool { return o.fault(faults.LogRefuses) == "" && o.Stats().Unsent == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	closeNow(t, o)
}
