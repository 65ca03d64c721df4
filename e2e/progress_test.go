package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// jammed is a store that commits nothing until it is released.
type jammed struct {
	store.Store
	free chan struct{}
}

func (j jammed) Commit(ctx context.Context, shard int, c *store.Commit) error {
	if c.To.Seq > 0 {
		select {
		case <-j.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return j.Store.Commit(ctx, shard, c)
}

// A store that hangs lets the log fill up until it refuses more. The edge and the
// aggregator have faults; once the store goes on, all hits are counted and the
// faults end.
func TestProgressIsWatchedOnBothSides(t *testing.T) {
	t.Parallel()
	const (
		shards = 2
		hits   = 40_000
		group  = 1000
		late   = 2 * time.Second
	)
	server := services.StartNATS(t)
	connect := func() *nats.Conn {
		nc, err := outbox.Connect(server.URL, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	counts := jammed{memstore.New(shards), make(chan struct{})}
	r := ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles"}}})
	a, err := app.New(app.Options{
		Store: counts, Conn: connect(), Rules: r,
		BehindAfter: late, Log: ingest.LogOptions{MaxBytes: 6 << 20}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })

	edge := faults.New(slog.New(slog.DiscardHandler), "hotboard_edge", faults.Edge)
	o, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: shards, BehindAfter: late, Faults: edge})
	if err != nil {
		t.Fatal(err)
	}
	rules := o.Document(r.Document())
	nc, done := connect(), make(chan error, 1)
	go func() { done <- o.Run(t.Context(), outbox.NewNATS(func() *nats.Conn { return nc }, shards)) }()
	for i := range hits / group {
		var some []hit.Hit
		for j := range group {
			some = append(some, hit.Hit{Kind: hit.View, List: "articles", Item: fmt.Sprintf("%d %s", (i*group+j)%100, strings.Repeat("x", 200)),
				Visitor: uint64(i*group + j), Time: time.Now().UnixMilli(), Rules: rules})
		}
		if err := o.Append(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}

	wait := func(what string, ok func() bool) {
		t.Helper()
		deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for !ok() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s: edge %+v, aggregator %+v, %+v", what, edge.Active(), a.Faults(t.Context()), o.Stats())
			}
		}
	}
	has := func(found []faults.Fault, kind faults.Kind, text string) bool {
		for _, f := range found {
			if f.Kind == kind && strings.Contains(f.Message, text) {
				return true
			}
		}
		return false
	}
	wait("no faults", func() bool {
		there, here := edge.Active(), a.Faults(t.Context())
		return has(there, faults.LogRefuses, "nats.max_bytes") && has(there, faults.Behind, "maximum bytes exceeded") &&
			has(here, faults.LogRefuses, "maximum bytes exceeded") && has(here, faults.Behind, "edge "+o.Edge()) &&
			has(here, faults.Behind, "unapplied messages") && has(here, faults.LogFull, "not counted")
	})
	close(counts.free)
	wait("faults stay", func() bool {
		return len(edge.Active()) == 0 && len(a.Faults(t.Context())) == 0 && o.Stats().Unapplied == 0
	})
	totals, err := counts.Totals(t.Context(), []store.Set{store.AllSet("articles")})
	if err != nil {
		t.Fatal(err)
	}
	if n := totals[0][0].Views + totals[0][1].Views; n != hits {
		t.Errorf("%d of %d hits are counted", n, hits)
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
