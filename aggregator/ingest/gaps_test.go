package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

func newIngest(t *testing.T, f *fixture) *Ingest {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := rules(t)
	in, err := New(Options{
		Conn: f.server.Connect(), Store: f.store, Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return r, nil },
		Owner: "a", Faults: faults.New(log, "hotboard", faults.Aggregator), Logger: log, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func containsString(s, part string) bool { return strings.Contains(s, part) }

func TestGaps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	g := gaps{}
	g.update([]fold.Held{{Edge: "a", Next: 3, Seq: 5}, {Edge: "a", Next: 3, Seq: 4}, {Edge: "b", Next: 1, Seq: 2}},
		map[string]uint64{"a": 2}, now)
	if s := g.outstanding(now.Add(gapGrace - 1)); s != "" {
		t.Errorf("a fault at once: %s", s)
	}
	if s := g.outstanding(now.Add(gapGrace)); s == "" {
		t.Error("no fault after the grace")
	}
	g.update(nil, map[string]uint64{"a": 4, "b": 2}, now)
	if len(g) != 1 || g["a"].to != 5 {
		t.Errorf("gaps = %+v, want that of a up to 5", g)
	}
	g.update([]fold.Held{{Edge: "a", Next: 5, Seq: 5}}, map[string]uint64{"a": 4}, now.Add(time.Minute))
	if x := g["a"]; !x.since.Equal(now) || !x.last.Equal(now.Add(time.Minute)) {
		t.Errorf("gap = %+v, want the first and the last time", x)
	}
	if edges := g.forget(now.Add(gapForget)); len(edges) != 0 {
		t.Errorf("forgot %v too early", edges)
	}
	if edges := g.forget(now.Add(gapForget + time.Minute)); len(edges) != 1 || len(g) != 0 {
		t.Errorf("forgot %v, left %v", edges, g)
	}
	g.update([]fold.Held{{Edge: "n", Next: 2, Seq: 2, Version: 9}, {Edge: "n", Next: 2, Seq: 3}, {Edge: "o", Next: 1, Seq: 1, Version: 8}},
		nil, now)
	if s := g.outstanding(now.Add(time.Hour - 1)); s != "" {
		t.Errorf("a gap, though the edge is newer: %s", s)
	}
	if s := g.newer(); !strings.HasPrefix(s, "edge n and 1 more write batches") {
		t.Errorf("the edges that are newer: %q", s)
	}
	g.update(nil, map[string]uint64{"n": 3}, now)
	if s, want := g.newer(), fmt.Sprintf("edge o writes batches of version 8, this aggregator reads %d: ", hit.Version); !strings.HasPrefix(s, want) {
		t.Errorf("the edge that is newer: %q, want %q", s, want)
	}
	g.forget(now.Add(gapForget))
	if s := g.newer(); s != "" || len(g) != 0 {
		t.Errorf("an edge that is gone: %q", s)
	}
	for i := range 2 * maxGaps {
		g.update([]fold.Held{{Edge: fmt.Sprint(i), Next: 1, Seq: 2}}, nil, now)
	}
	if len(g) != maxGaps {
		t.Errorf("%d gaps are watched, want no more than %d", len(g), maxGaps)
	}
}
