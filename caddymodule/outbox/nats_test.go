package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/revisions"
)

const natsShards = 3

// connect returns a connection as an edge has it, and JetStream on it.
func connect(t *testing.T, server *services.NATS) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := Connect(server.URL, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func createStream(t *testing.T, js jetstream.JetStream, shards int) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name:     hit.Stream,
		Subjects: []string{hit.SubjectHits + ".*.*"},
		Metadata: map[string]string{hit.StreamShards: strconv.Itoa(shards)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// published reads the whole stream.
func published(t *testing.T, js jetstream.JetStream) []message {
	t.Helper()
	stream, err := js.Stream(t.Context(), hit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	var log []message
	for seq := uint64(1); seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		shard, edge, err := hit.ParseSubject(m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		first := header(t, m, hit.HeaderSeq)
		last := first
		if m.Header.Get(hit.HeaderLast) != "" {
			last = header(t, m, hit.HeaderLast)
		}
		log = append(log, split(edge, shard, first, last, header(t, m, hit.HeaderLow), m.Data)...)
	}
	return log
}

func header(t *testing.T, m *jetstream.RawStreamMsg, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(m.Header.Get(name), 10, 64)
	if err != nil {
		t.Fatalf("header %s: %v", name, err)
	}
	return n
}

// waitUntilSent lets the outbox work until the log has everything.
func waitUntilSent(t *testing.T, o *Outbox) {
	t.Helper()
	deadline := time.After(time.Minute)
	for o.Stats().Unsent > 0 {
		select {
		case <-o.progress:
		case <-deadline:
			t.Fatalf("not published after a minute: %+v", o.Stats())
		}
	}
}

// TestNATSKilled kills the server while batches are published: all of them get
// into the stream, in order.
func TestNATSKilled(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, js := connect(t, server)
	createStream(t, js, natsShards)
	bus := NewNATS(func() *nats.Conn { return nc }, natsShards)
	o := open(t, Options{Dir: t.TempDir(), Shards: natsShards})
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), bus) }()

	kills := 5
	if testing.Short() {
		kills = 1
	}
	var items []string
	for round := range kills {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 30 {
					item := fmt.Sprintf("%d-%d-%d", round, g, i)
					if err := o.Append(t.Context(), view(item)); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					items = append(items, item)
					mu.Unlock()
					if g == 0 && i == 15 {
						server.Kill()
					}
				}
			})
		}
		wg.Wait()
		server.Restart()
	}
	waitUntilSent(t, o)
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	log := published(t, js)
	wantOrder(t, log)
	fold := newFakeBus()
	for _, m := range log {
		fold.fold(m)
	}
	fold.wantCounted(t, items...)
	t.Logf("%d kills, %d hits, %d messages in the stream for %d batches", kills, len(items), len(log), o.Stats().SpooledBatches)
}

// TestNATSWithoutStream: a log that does not exist yet is waited for.
func TestNATSWithoutStream(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, js := connect(t, server)
	bus := NewNATS(func() *nats.Conn { return nc }, natsShards)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := bus.Publish(ctx, 0, "edge", Send{Seq: 1, Last: 1, Low: 1}, []byte("x")); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
	createStream(t, js, natsShards)
	var body []byte
	for seq := uint64(1); seq <= 2; seq++ {
		data, err := hit.Encode(&hit.Batch{Edge: "edge", Shard: 2, Seq: seq, Rules: someID, Hits: hitsOf(names("item", 3))})
		if err != nil {
			t.Fatal(err)
		}
		body = append(body, data...)
	}
	if err := bus.Publish(ctx, 2, "edge", Send{Seq: 1, Last: 2, Low: 1}, body); err != nil {
		t.Errorf("with a stream: %v", err)
	}
	log := published(t, js)
	if len(log) != 2 || log[0].seq != 1 || log[1].seq != 2 || len(log[1].hits) != 3 {
		t.Errorf("the stream has %+v", log)
	}
}

// TestNATSWithoutConnection: an edge that is not connected hears so at once.
func TestNATSWithoutConnection(t *testing.T) {
	t.Parallel()
	bus := NewNATS(func() *nats.Conn { return nil }, natsShards)
	if err := bus.Publish(t.Context(), 0, "edge", Send{Seq: 1, Last: 1, Low: 1}, []byte("x")); !errors.Is(err, errNoConnection) {
		t.Errorf("Publish: %v", err)
	}
	if _, err := bus.Applied(t.Context(), hit.Waiting{Edge: "edge"}); !errors.Is(err, errNoConnection) {
		t.Errorf("Applied: %v", err)
	}
	nc, err := Connect("nats://127.0.0.1:"+strconv.Itoa(services.FreePort(t)), zap.NewNop())
	if err != nil {
		t.Fatalf("connecting while no server answers: %v", err)
	}
	defer nc.Close()
	bus = NewNATS(func() *nats.Conn { return nc }, natsShards)
	if err := bus.Publish(t.Context(), 0, "edge", Send{Seq: 1, Last: 1, Low: 1}, []byte("x")); !errors.Is(err, errNoConnection) {
		t.Errorf("Publish: %v", err)
	}
}

// TestNATSShards: an edge that is set to another number of shards than the log
// publishes nothing, also when it finds out only after a reconnect.
func TestNATSShards(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, js := connect(t, server)
	bus := NewNATS(func() *nats.Conn { return nc }, natsShards)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	createStream(t, js, natsShards)
	if err := bus.Publish(ctx, 0, "edge", Send{Seq: 1, Last: 1, Low: 1}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(ctx, hit.Stream); err != nil {
		t.Fatal(err)
	}
	createStream(t, js, natsShards+1)
	reconnected := nc.StatusChanged(nats.CONNECTED)
	server.Restart()
	select {
	case <-reconnected:
	case <-ctx.Done():
		t.Fatal("not connected again")
	}
	err := bus.Publish(ctx, 0, "edge", Send{Seq: 2, Last: 2, Low: 1}, []byte("x"))
	if !errors.Is(err, ErrShards) || !strings.Contains(err.Error(), `"4"`) {
		t.Errorf("Publish to a log of other shards: %v", err)
	}
	if log := published(t, js); len(log) != 0 {
		t.Errorf("the stream has %+v", log)
	}
}

func TestNATSApplied(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, _ := connect(t, server)
	bus := NewNATS(func() *nats.Conn { return nc }, natsShards)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := bus.Applied(ctx, hit.Waiting{Edge: "edge"}); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without an aggregator: %v", err)
	}
	answers := map[string]string{
		"some":  `{"shards":{"0":5,"2":7}}`,
		"none":  `{"shards":{}}`,
		"error": `{"error":"the store is away"}`,
		"empty": ``,
	}
	_, err := nc.Subscribe(hit.SubjectApplied, func(m *nats.Msg) {
		var w hit.Waiting
		if err := json.Unmarshal(m.Data, &w); err != nil {
			t.Error(err)
		}
		reply := &nats.Msg{Data: []byte(answers[w.Edge])}
		if w.Edge == "failed" {
			reply.Header = hit.ErrorHeader(errors.New("the store is\naway"))
		}
		if err := m.RespondMsg(reply); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bus.Applied(ctx, hit.Waiting{Edge: "some"}); err != nil || len(got) != 2 || got[0] != 5 || got[2] != 7 {
		t.Errorf("some: %v %v", got, err)
	}
	if got, err := bus.Applied(ctx, hit.Waiting{Edge: "none"}); err != nil || len(got) != 0 {
		t.Errorf("none: %v %v", got, err)
	}
	if _, err := bus.Applied(ctx, hit.Waiting{Edge: "failed"}); err == nil || !strings.Contains(err.Error(), "replied: the store is away") {
		t.Errorf("failed: %v", err)
	}
	for _, edge := range []string{"error", "empty"} {
		if got, err := bus.Applied(ctx, hit.Waiting{Edge: edge}); err == nil {
			t.Errorf("%s was read as %v", edge, got)
		}
	}
}

// TestNATSDocuments: a document is in the log before the batches that name it, and
// back within a minute when it was lost.
func TestNATSDocuments(t *testing.T) {
	t.Parallel()
	server := services.StartNATS(t)
	nc, js := connect(t, server)
	bus := NewNATS(func() *nats.Conn { return nc }, natsShards)
	now := time.Now()
	bus.now = func() time.Time { return now }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := bus.Document(ctx, someID, []byte(someRules)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a log: %v", err)
	}
	createStream(t, js, natsShards)
	if err := bus.Document(ctx, someID, nil); !errors.Is(err, ErrNoDocument) {
		t.Errorf("a document that nobody has: %v", err)
	}
	has := func() string {
		text, err := revisions.New(func() *nats.Conn { return nc }, 0).Document(ctx, someID)
		if err != nil && !errors.Is(err, revisions.ErrNoDocument) {
			t.Fatal(err)
		}
		return string(text)
	}
	put := func() {
		t.Helper()
		err := bus.Document(ctx, someID, []byte(someRules))
		if errors.Is(err, jetstream.ErrStreamNotFound) { // the deleted bucket
			err = bus.Document(ctx, someID, []byte(someRules))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	empty := func() {
		t.Helper()
		if err := js.DeleteKeyValue(ctx, hit.RulesBucket); err != nil {
			t.Fatal(err)
		}
	}
	if put(); has() != someRules {
		t.Errorf("the log has %q", has())
	}
	if err := bus.Document(ctx, someID, nil); err != nil {
		t.Errorf("a document that the log has: %v", err)
	}
	empty()
	if put(); has() != "" {
		t.Error("the bus asks the log before each message")
	}
	now = now.Add(documentEvery)
	if put(); has() != someRules {
		t.Errorf("after %s the log has %q", documentEvery, has())
	}
	empty()
	reconnected := nc.StatusChanged(nats.CONNECTED)
	server.Restart()
	select {
	case <-reconnected:
	case <-ctx.Done():
		t.Fatal("not connected again")
	}
	if put(); has() != someRules {
		t.Errorf("over another connection the log has %q", has())
	}
}
