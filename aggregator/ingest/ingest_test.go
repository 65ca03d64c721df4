package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

const testShards = 2

func rules(t *testing.T) *ruleset.Rules {
	t.Helper()
	return ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles"}}})
}

// fixture is a broker, an edge, and a store that an Ingest folds into.
type fixture struct {
	t      *testing.T
	server *brokertest.Server
	js     jetstream.JetStream
	store  *memstore.Store
	edge   *brokertest.Edge
	sent   int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := brokertest.NewServer(t)
	js := s.JetStream()
	return &fixture{t: t, server: s, js: js, store: memstore.New(testShards),
		edge: brokertest.NewEdge(t, js, "edge-1", testShards)}
}

func (f *fixture) ensure() {
	f.t.Helper()
	if err := EnsureStreams(f.t.Context(), f.js, testShards, LogOptions{MaxBytes: 64 << 20}); err != nil {
		f.t.Fatal(err)
	}
}

// start runs an Ingest until stop is called or the test ends.
func (f *fixture) start(s store.Store, owner string) (fl *faults.Registry, stop func()) {
	f.t.Helper()
	return f.startWith(s, owner, nil)
}

func (f *fixture) startWith(s store.Store, owner string, change func(*Options)) (fl *faults.Registry, stop func()) {
	f.t.Helper()
	log := slog.New(slog.NewTextHandler(f.t.Output(), nil))
	fl = faults.New(slog.New(slog.NewTextHandler(io.Discard, nil)), "hotboard", faults.Aggregator)
	r := rules(f.t)
	o := Options{
		Conn: f.server.Connect(), Store: s, Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return r, nil },
		Log: LogOptions{MaxBytes: 64 << 20}, Owner: owner, Faults: fl, Logger: log, Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	in, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { in.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	f.t.Cleanup(stop)
	return fl, stop
}

// send publishes n batches of one view each, each view by a new visitor.
func (f *fixture) send(n int) {
	f.t.Helper()
	for range n {
		f.edge.Send(f.view())
	}
}

func (f *fixture) view() hit.Hit {
	f.sent++
	return brokertest.View("articles", fmt.Sprintf("item-%d", f.sent%7), uint64(f.sent), time.Now())
}

func views(t *testing.T, s store.Store) int {
	t.Helper()
	totals, err := s.Totals(t.Context(), []store.Set{store.AllSet("articles")})
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, shard := range totals[0] {
		n += shard.Views
	}
	return int(n)
}

// counted waits until all sent hits are counted.
func (f *fixture) counted() {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		if n := views(f.t, f.store); n != f.sent {
			return fmt.Sprintf("%d of %d views are counted", n, f.sent)
		}
		return ""
	})
}

func (f *fixture) faulty(fl *faults.Registry, kind faults.Kind) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		for _, x := range fl.Active() {
			if x.Kind == kind {
				return ""
			}
		}
		return fmt.Sprintf("no fault %s, only %+v", kind, fl.Active())
	})
}

func TestCountsEachBatchOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, stop := f.start(f.store, "a")
	f.ensure()
	f.send(20)
	f.counted()
	f.edge.PublishAll()
	f.send(1)
	f.counted()
	stop()
	f.send(5)
	_, stop = f.start(f.store, "b") // the lease was given up: no need to wait for it to expire
	f.counted()
	stop()
	if got := fl.Active(); len(got) != 0 {
		t.Errorf("faults: %+v", got)
	}
}

func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(f.store, "a")
	f.ensure()
	f.send(20)
	f.counted()

	if err := f.js.DeleteStream(t.Context(), hit.Stream); err != nil {
		t.Fatal(err)
	}
	f.ensure()
	f.send(5)
	f.counted()
	f.faulty(fl, faults.LogReplaced)

	f.edge.PublishAll()
	f.send(1)
	f.counted()
}

func TestStreamDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(f.store, "a")
	f.ensure()
	f.send(3)
	f.counted()
	if err := f.js.DeleteStream(t.Context(), hit.Stream); err != nil {
		t.Fatal(err)
	}
	f.send(3) // waits until there is a stream
	f.counted()
}

func TestLogLosesItsTail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(f.store, "a")
	f.ensure()
	f.send(6)
	f.counted()
	f.server.Stop()
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(f.server.Dir)); err != nil {
		t.Fatal(err)
	}
	f.server.Start()
	f.send(6)
	f.counted()

	f.server.Stop()
	if err := os.RemoveAll(f.server.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(f.server.Dir, os.DirFS(older)); err != nil {
		t.Fatal(err)
	}
	f.server.Start()
	f.faulty(fl, faults.LogReplaced)
	f.send(6)
	f.counted()
}

func TestStoreEmptiedOrRolledBack(t *testing.T) {
	t.Parallel()
	for _, traffic := range []bool{false, true} {
		t.Run(fmt.Sprintf("traffic=%v", traffic), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			fl, _ := f.start(f.store, "a")
			f.ensure()
			empty := f.store.Snapshot()
			f.send(10)
			f.counted()
			older := f.store.Snapshot()
			f.send(10)
			f.counted()
			for _, snapshot := range []*memstore.Snapshot{older, empty} {
				f.store.Restore(snapshot)
				if traffic {
					f.send(4)
				}
				f.counted()
				f.faulty(fl, faults.StoreBehind)
			}
		})
	}
}

func TestPoisonedMessageIsSetAside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(f.store, "a")
	f.ensure()
	f.send(1)
	h := f.view()
	f.sent-- // this one will not be counted
	for shard, seq := range f.edge.Add(h) {
		f.edge.PublishRaw(shard, seq, []byte("not a batch"))
	}
	huge := nats.NewMsg(hit.Subject(0, "Not An Edge"))
	huge.Subject = hit.SubjectHits + ".0.UPPER"
	huge.Data = make([]byte, hit.MaxBatchBytes+100)
	if _, err := f.js.PublishMsg(t.Context(), huge); err != nil {
		t.Fatal(err)
	}
	f.send(5)
	f.counted()
	f.faulty(fl, faults.Poisoned)

	poison, err := f.js.Stream(t.Context(), hit.PoisonStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := poison.CachedInfo().State.Msgs; n != 2 {
		t.Fatalf("%d messages were set aside, want 2", n)
	}
	var sizes []int
	for seq := range uint64(2) {
		msg, err := poison.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(msg.Header.Get(HeaderPoisonSubject), hit.SubjectHits+".") ||
			msg.Header.Get(HeaderPoisonSequence) == "" || msg.Header.Get(HeaderPoisonError) == "" {
			t.Errorf("headers %v do not tell what was set aside", msg.Header)
		}
		sizes = append(sizes, len(msg.Data))
	}
	if max(sizes[0], sizes[1]) != hit.MaxBatchBytes || min(sizes[0], sizes[1]) != len("not a batch") {
		t.Errorf("set aside %v bytes", sizes)
	}

	// Read again, the messages are the same.
	f.store.Restore(memstore.New(testShards).Snapshot())
	f.counted()
	if poison, err = f.js.Stream(t.Context(), hit.PoisonStream); err != nil {
		t.Fatal(err)
	}
	if n := poison.CachedInfo().State.Msgs; n != 2 {
		t.Errorf("%d messages were set aside after reading again, want 2", n)
	}
}

// noLease lets every aggregator fold at once.
type noLease struct{ store.Store }

func (noLease) Lease(context.Context, int, string, time.Duration) (bool, error) { return true, nil }

func (noLease) Members(_ context.Context, owner string, _ time.Duration) ([]string, error) {
	return []string{owner}, nil
}

func TestTwoOwnersAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(noLease{f.store}, "a")
	f.start(noLease{f.store}, "b")
	f.ensure()
	for range 20 {
		f.send(10)
		f.edge.Publish(0, 1)
	}
	f.counted()
}

// moody fails often, before or after doing its work.
type moody struct{ store.Store }

var errMood = errors.New("connection reset by peer")

func (m moody) Commit(ctx context.Context, shard int, c *store.Commit) error {
	if rand.IntN(4) == 0 {
		return errMood
	}
	if err := m.Store.Commit(ctx, shard, c); err != nil {
		return err
	}
	if rand.IntN(4) == 0 {
		return errMood
	}
	return nil
}

func (m moody) Load(ctx context.Context, shard int) (store.State, error) {
	if rand.IntN(4) == 0 {
		return store.State{}, errMood
	}
	return m.Store.Load(ctx, shard)
}

func TestUnknownOutcomeOfACommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(moody{f.store}, "a")
	f.ensure()
	for range 10 {
		f.send(5)
		f.counted()
	}
	brokertest.Eventually(t, func() string { // idle and well again
		if a := fl.Active(); len(a) != 0 {
			return fmt.Sprintf("faults: %+v", a)
		}
		return ""
	})
}

func TestBrokerRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(f.store, "a")
	f.ensure()
	for range 4 {
		f.send(20)
		f.server.Stop()
		f.server.Start()
	}
	f.send(20)
	f.counted()
}

func TestGapIsNotCountedUntilItIsFilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start(f.store, "a")
	f.ensure()
	first, second := f.edge.Add(brokertest.View("articles", "x", 1, time.Now())), f.edge.Add(brokertest.View("articles", "x", 2, time.Now()))
	var shard int
	for shard = range first {
	}
	f.edge.Publish(shard, second[shard])
	brokertest.NewEdge(t, f.js, "edge-2", testShards).Send(brokertest.View("articles", "x", 3, time.Now()))
	f.sent = 1
	f.counted() // batches after the gap do not wait for it
	f.edge.Publish(shard, first[shard])
	f.edge.Publish(shard, second[shard])
	f.sent = 3
	f.counted()
}

func TestLostBatchesAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(f.store, "a")
	f.ensure()
	for range 4 {
		f.edge.Add(brokertest.View("articles", "x", rand.Uint64(), time.Now()))
	}
	f.edge.Low = 3
	shard := hit.Shard(hit.View, "articles", "x", testShards)
	f.edge.Publish(shard, 3)
	f.edge.Publish(shard, 4)
	f.sent = 2
	f.counted()
	f.faulty(fl, faults.BatchesLost)
}

func TestWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.Stop()
	fl, _ := f.start(f.store, "a")
	f.faulty(fl, faults.LogAway)
	f.server.Start()
	f.send(1)
	f.counted()
	brokertest.Eventually(t, func() string {
		if a := fl.Active(); len(a) != 0 {
			return fmt.Sprintf("faults: %+v", a)
		}
		return ""
	})
}
