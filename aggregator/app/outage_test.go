package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

// lockedBuffer is a log that a test reads while it grows.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// An outage shows as one fault with all its shards, and in a few lines of the log,
// however many shards and requests fail.
func TestAnOutageIsOneFault(t *testing.T) {
	t.Parallel()
	const shards = 16
	const outage = faults.LogEvery + 2*time.Second
	if testing.Short() {
		t.Skip("sits out two outages of 12 s")
	}
	server, redis := brokertest.NewServer(t), services.StartRedis(t, "--appendonly", "yes")
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: "redis://" + redis.Addr, Shards: shards, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	conn, err := nats.Connect(server.URL(), ConnectOptions("test", logger)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	a, err := New(Options{Store: s, Conn: conn, Rules: lists("articles"), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })

	edge := server.Connect()
	jet := brokertest.NewEdge(t, server.JetStream(), "edge-1", shards)
	jet.Rules = lists("articles").ID()
	visitor := uint64(0)
	traffic := func() { // to all shards, with requests of an edge and a reader
		for i := range 4 * shards {
			visitor++
			jet.Send(brokertest.View("articles", fmt.Sprint("item-", i), visitor, time.Now()))
		}
		for range 10 {
			for subject, body := range map[string]string{hit.SubjectApplied: `{"edge":"edge-1"}`, hit.SubjectQuery: fmt.Sprintf(`{"path":"/api/items/articles/%d"}`, visitor)} {
				if err := edge.PublishRequest(subject, "nobody", []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	well := func() {
		t.Helper()
		brokertest.Eventually(t, func() string {
			if got := a.Faults(t.Context()); len(got) > 0 {
				return fmt.Sprintf("faults: %+v", got)
			}
			return ""
		})
	}
	traffic()
	well()

	for _, tt := range []struct {
		kind         faults.Kind
		break_, mend func()
		traffic      func()
	}{
		{faults.StoreAway, redis.Kill, redis.Restart, traffic},
		{faults.LogAway, server.Stop, server.Start, func() {}},
	} {
		t.Logf("%s: before: %s", tt.kind, log.take())
		tt.break_()
		began, once := time.Now(), false
		tick := time.NewTicker(200 * time.Millisecond)
		for time.Since(began) < outage || !once {
			<-tick.C
			tt.traffic()
			got := a.Faults(t.Context())
			// The first moments differ: connections end in several ways.
			once = once || len(got) == 1 && got[0].Kind == tt.kind && len(got[0].Shards) == shards
			if time.Since(began) > outage/2 && (len(got) != 1 || len(got[0].Shards) != shards) {
				t.Errorf("%s after %s: %+v", tt.kind, time.Since(began), got)
			}
			if time.Since(began) > brokertest.Patience {
				t.Fatalf("no fault of all shards: %+v", got)
			}
		}
		tick.Stop()
		tt.mend()
		well()
		// A handful of messages, each at once and every ten seconds.
		lines := log.take()
		if n, most := strings.Count(lines, "\n"), 8*(1+int(time.Since(began)/faults.LogEvery)); n > most {
			t.Errorf("%d lines of %s, want %d at most:\n%s", n, tt.kind, most, lines)
		} else {
			t.Logf("%d lines of %s:\n%s", n, tt.kind, lines)
		}
	}
}
