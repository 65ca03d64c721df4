package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// patience bounds every wait; only failures take that long.
const patience = 3 * time.Minute

// eventually waits until look returns "". After patience it fails with look's last
// result.
func eventually(t *testing.T, look func() string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		wrong := look()
		if wrong == "" {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("after %v: %s", patience, wrong)
		case <-t.Context().Done():
			t.Fatal(wrong)
		case <-tick.C:
		}
	}
}

// storeCounts reads from the store itself how often a hit of each item of the list
// was applied: its views and its duplicates. A hit that is applied twice looks like
// a visitor's second view, and no visitor of a load comes twice.
func storeCounts(ctx context.Context, s store.Reader, kind hit.Kind, list string) (map[string]int, error) {
	counts, _, err := storeHits(ctx, s, kind, list)
	return counts, err
}

// storeHits is storeCounts with the views alone, without duplicates.
func storeHits(ctx context.Context, s store.Reader, kind hit.Kind, list string) (counts, views map[string]int, err error) {
	all := store.AllSet(list)
	size, err := s.Size(ctx, all)
	if err != nil {
		return nil, nil, err
	}
	shards, err := s.Top(ctx, all, int(size))
	if err != nil {
		return nil, nil, err
	}
	counts, views = make(map[string]int, size), make(map[string]int, size)
	for _, entries := range shards {
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.Item
		}
		items, err := s.Items(ctx, kind, list, ids)
		if err != nil {
			return nil, nil, err
		}
		for i, e := range entries {
			if items[i] == nil {
				return nil, nil, fmt.Errorf("%s is on the board and no item", e.Item)
			}
			views[e.Item] += int(e.Views)
			counts[e.Item] += int(e.Views) + int(items[i].Duplicates)
		}
	}
	return counts, views, nil
}

// boardCounts reads the views of every item on the board of all time over HTTP. It
// fails when a hit was applied twice, see storeCounts, and when the board is too
// long to read.
func boardCounts(url string) (map[string]int, error) {
	var stats board.Stats
	if err := getJSON(url+"/api/stats/"+stack.List, &stats); err != nil {
		return nil, err
	}
	if all := stats.Periods[calendar.All]; all == nil || all.Duplicates != 0 {
		return nil, fmt.Errorf("some hits were applied twice: %+v", all)
	}
	counts := map[string]int{}
	for offset := 0; offset <= board.MaxOffset; offset += board.MaxLimit {
		var b board.Board
		if err := getJSON(fmt.Sprintf("%s/hot?list=%s&period=all&limit=%d&offset=%d", url, stack.List, board.MaxLimit, offset), &b); err != nil {
			return nil, err
		}
		for _, row := range b.Items {
			counts[row.ID] += int(row.Views)
		}
		if len(b.Items) < board.MaxLimit {
			return counts, nil
		}
	}
	return nil, errors.New("the board is longer than can be read")
}

func getJSON(url string, v any) error {
	status, body, err := fetch(url)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", url, status, body)
	}
	return json.Unmarshal([]byte(body), v)
}

// fetch is a GET whose status the caller checks.
func fetch(url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	return do(http.DefaultClient, r)
}

// unapplied names the edges with hits that they do not know to be counted, or is
// "".
func unapplied(edges []*stack.Edge) string {
	for i, e := range edges {
		m, err := e.Metrics()
		if err != nil {
			return fmt.Sprintf("edge %d: %v", i, err)
		}
		for _, name := range []string{"queued_views", "queued_beacon_hits", "unapplied_batches"} {
			if n := m.Sum("hotboard_edge_" + name); m["hotboard_edge_"+name] == nil || n > 0 {
				return fmt.Sprintf("edge %d has %v %s", i, n, name)
			}
		}
	}
	return ""
}

// unready names an aggregator that is not ready, with the reason, or is "". It
// ignores faults that the test has caused: an event stays active for a minute.
func unready(aggregators []*stack.Aggregator, caused ...faults.Kind) string {
	for i, a := range aggregators {
		status, found, err := a.Ready()
		others := slices.DeleteFunc(slices.Clone(found), func(f faults.Fault) bool { return slices.Contains(caused, f.Kind) })
		if err != nil || len(others) > 0 || status != http.StatusOK && len(found) == 0 {
			return fmt.Sprintf("aggregator %d is not ready: %d %+v %v", i+1, status, found, err)
		}
	}
	return ""
}

// unfolded is how far the counts are behind the end of the log, or "".
func unfolded(ctx context.Context, js jetstream.JetStream, s store.Store) string {
	stream, err := js.Stream(ctx, hit.Stream)
	if err != nil {
		return err.Error()
	}
	for shard := range s.Shards() {
		last, err := stream.GetLastMsgForSubject(ctx, hit.ShardSubjects(shard))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err.Error()
		}
		pos, err := s.Position(ctx, shard)
		if err != nil {
			return err.Error()
		}
		if pos.Seq < last.Sequence {
			return fmt.Sprintf("shard %d is folded up to message %d, and the last is %d", shard, pos.Seq, last.Sequence)
		}
	}
	return ""
}

// settle waits until the counts are complete: no edge holds an unapplied hit, and
// the log is folded to its end, so that nothing can change any more. It returns the
// counts of the list of pages.
func settle(t *testing.T, s *stack.Stack, st store.Store, want func(map[string]int) string) map[string]int {
	t.Helper()
	var counts map[string]int
	settled(t, s, st, func() string {
		var err error
		if counts, err = storeCounts(t.Context(), st, hit.View, stack.List); err != nil {
			return err.Error()
		}
		return want(counts)
	})
	return counts
}

// settled waits until the counts are complete, and look finds nothing wrong.
func settled(t *testing.T, s *stack.Stack, st store.Store, look func() string) {
	t.Helper()
	js := s.Log()
	eventually(t, func() string {
		if wrong := unapplied(s.Edges); wrong != "" {
			return wrong
		}
		if wrong := unfolded(t.Context(), js, st); wrong != "" {
			return wrong
		}
		return look()
	})
}
