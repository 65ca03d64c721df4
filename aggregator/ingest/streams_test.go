package ingest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

func TestEnsureStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	for _, o := range []LogOptions{{MaxBytes: 1 << 20}, {MaxBytes: 1 << 20}, {MaxBytes: 2 << 20, MaxAge: 100 * time.Hour}} {
		if err := EnsureStreams(ctx, f.js, 4, o); err != nil {
			t.Fatal(err)
		}
		s, err := f.js.Stream(ctx, hit.Stream)
		if err != nil {
			t.Fatal(err)
		}
		c, want := s.CachedInfo().Config, o.withDefaults()
		if c.MaxBytes != want.MaxBytes || c.MaxAge != want.MaxAge || c.Discard != jetstream.DiscardNew || c.Metadata[hit.StreamShards] != "4" {
			t.Errorf("with %+v the log has %+v", o, c)
		}
	}
	for _, b := range hit.Buckets {
		kv, err := f.js.KeyValue(ctx, b.Name)
		if err != nil {
			t.Fatal(err)
		}
		if status, err := kv.Status(ctx); err != nil || status.TTL() != b.TTL {
			t.Errorf("the bucket %s keeps secrets for %v, want %v: %v", b.Name, status.TTL(), b.TTL, err)
		}
	}
	if err := EnsureStreams(ctx, f.js, 8, LogOptions{}); !errors.Is(err, ErrShards) {
		t.Errorf("with another number of shards: %v", err)
	}
}

func TestForeignShardsAreAFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := EnsureStreams(t.Context(), f.js, testShards+1, LogOptions{MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	f.send(1)
	fl, _ := f.start(f.store, "a")
	f.faulty(fl, faults.LogShards)
	if n := views(t, f.store); n != 0 {
		t.Errorf("%d views counted from a log of other shards", n)
	}
}

func TestEnsureTellsWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := EnsureStreams(t.Context(), f.js, 1, LogOptions{MaxBytes: 1 << 50})
	if want := "nats.max_bytes"; err == nil || !containsString(err.Error(), want) {
		t.Errorf("error %v does not mention %s", err, want)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	f.send(3)
	stream, err := f.js.Stream(t.Context(), hit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	at := func(seq uint64) store.Position {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		return store.Position{Seq: seq, Fingerprint: fold.Fingerprint(m.Subject, m.Time, m.Data)}
	}
	first, second, third := at(1), at(2), at(3)
	wrong := third
	wrong.Fingerprint++
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(2)); err != nil {
		t.Fatal(err)
	}
	f.send(1)
	if err := stream.DeleteMsg(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	f.send(1)
	for _, c := range []struct {
		name     string
		pos      store.Position
		replaced bool
	}{
		{"nothing applied", store.Position{}, false},
		{"expired", first, false},
		{"first", second, false},
		{"same", third, false},
		{"other message", wrong, true},
		{"deleted", store.Position{Seq: 4, Fingerprint: 1}, true},
		{"after the end", store.Position{Seq: 6, Fingerprint: 1}, true},
	} {
		replaced, err := verify(t.Context(), f.js, c.pos)
		if err != nil || (replaced != "") != c.replaced {
			t.Errorf("%s: replaced %q, error %v", c.name, replaced, err)
		}
	}
	if err := f.js.DeleteStream(t.Context(), hit.Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t.Context(), f.js, third); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
}

func TestFirstInLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	for range 2*fetchSize + 10 {
		f.edge.Add(brokertest.View("articles", "x", 1, time.Now()))
	}
	shard := hit.Shard(hit.View, "articles", "x", testShards)
	for _, seq := range []uint64{3, 4, 9, 7} {
		f.edge.Publish(shard, seq)
	}
	for seq := range uint64(2 * fetchSize) {
		f.edge.Publish(shard, seq+10)
	}
	f.edge.Publish(shard, 6)
	brokertest.NewEdge(t, f.js, "other", testShards).Send(brokertest.View("articles", "x", 1, time.Now()))
	first := firstInLog(f.js)
	for next, want := range map[uint64][2]uint64{ // batch and message
		1: {3, 1}, 3: {3, 1}, 4: {4, 2}, 5: {6, 2*fetchSize + 5}, 8: {9, 3}, 2*fetchSize + 9: {2*fetchSize + 9, 2*fetchSize + 4},
	} {
		got, err := first(t.Context(), shard, f.edge.ID, next)
		if err != nil || got != (fold.InLog{Batch: want[0], At: want[1]}) {
			t.Errorf("from %d on the log begins with %+v (%v), want %d", next, got, err, want)
		}
	}
	if got, err := first(t.Context(), shard, f.edge.ID, 2*fetchSize+11); err == nil {
		t.Errorf("found %+v after the end", got)
	}
}

func TestFullLogMakesRoomOnlyOfWhatIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const limit = 2 << 20
	if err := EnsureStreams(t.Context(), f.js, testShards, LogOptions{MaxBytes: limit}); err != nil {
		t.Fatal(err)
	}
	hits := func() (hits []hit.Hit) {
		for range 100 {
			h := f.view()
			h.Item = fmt.Sprintf("item-%0200d", 1)
			hits = append(hits, h)
		}
		return hits
	}
	// Nobody counts: the log fills up and refuses more.
	var refused error
	shard := 0
	for refused == nil {
		for s, seq := range f.edge.Add(hits()...) {
			data, err := hit.Encode(&hit.Batch{Edge: "filler", Shard: s, Seq: seq, Rules: brokertest.Rules, Hits: hits()})
			if err != nil {
				t.Fatal(err)
			}
			shard = s
			_, refused = f.js.Publish(t.Context(), hit.Subject(s, "filler"), data)
		}
	}
	in := newIngest(t, f)
	stream := func() jetstream.Stream {
		s, err := f.js.Stream(t.Context(), hit.Stream)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := stream()
	if full := in.makeRoom(t.Context(), before); !containsString(full, "message 1 is not counted") {
		t.Errorf("a log full of what is not counted: %q", full)
	}
	if n := stream().CachedInfo().State.Msgs; n != before.CachedInfo().State.Msgs {
		t.Errorf("%d messages are left of %d, though none is counted", n, before.CachedInfo().State.Msgs)
	}
	last := before.CachedInfo().State.LastSeq
	to := store.Position{Seq: last, Fingerprint: 1}
	if err := f.store.Commit(t.Context(), shard, &store.Commit{To: to}); err != nil {
		t.Fatal(err)
	}
	if full := in.makeRoom(t.Context(), stream()); full != "" {
		t.Errorf("a log full of what is counted: %q", full)
	}
	if s := stream().CachedInfo().State; s.Bytes > limit*8/10 || s.Bytes < limit/2 || s.LastSeq != last {
		t.Errorf("after making room the log is %+v", s)
	}
}
