package board_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

func halfLife(t *testing.T, shards int, h time.Duration, landmark func(shard int) time.Time, scores map[string]float64) *counts {
	t.Helper()
	c := newCounts(t, shards, &ruleset.ListConfig{Score: ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(h)}})
	set, _ := scoring.ScoreSet(c.rules.Lists[0])
	for shard := range shards {
		c.setLandmark(shard, set, landmark(shard))
	}
	for id, score := range scores {
		c.put(store.AllSet("a"), id, store.Tally{Views: 5, Uniques: 5})
		c.put(set, id, store.Tally{Score: score})
	}
	return c
}

// Scaling a score and back may lose its last bit: no item may be ahead of itself.
func TestItemAgreesWithItsBoard(t *testing.T) {
	t.Parallel()
	scores := map[string]float64{}
	for i := range 200 {
		scores[fmt.Sprint("item", i)] = 3 / (1.7 + float64(i))
	}
	c := halfLife(t, 3, 7*time.Hour, func(shard int) time.Time {
		return now.Add(-time.Duration(shard*11+1) * 97 * time.Minute)
	}, scores)
	got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: board.Hot, Limit: board.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got.Items {
		it, err := c.boards().Item(t.Context(), "a", r.ID)
		if err != nil {
			t.Fatal(err)
		}
		p := it.Boards[board.Hot]
		if p.Rank != r.Rank || p.Score != r.Score || i > 0 && p.Ahead != got.Items[i-1].ID {
			t.Errorf("the board has %+v, the item %+v", r, p)
		}
	}
}

// After thousands of half-lives without a hit every score is 0, and the order
// stays.
func TestIdleHalfLifeKeepsItsOrder(t *testing.T) {
	t.Parallel()
	c := halfLife(t, 1, 10*time.Minute, func(int) time.Time { return now.AddDate(0, -3, 0) },
		map[string]float64{"first": 9, "second": 5, "third": 1})
	got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: board.Hot, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"first", "second", "third"} {
		if r := got.Items[i]; r.ID != want || r.Rank != int64(i+1) {
			t.Errorf("row %d is %+v, want %s", i, r, want)
		}
	}
	if it, err := c.boards().Item(t.Context(), "a", "third"); err != nil || it.Boards[board.Hot].Rank != 3 || it.Boards[board.Hot].Ahead != "second" {
		t.Errorf("third: %+v, %v", it, err)
	}
}

// One shard may have had no hits for so long that its sums vanish beside the
// others'.
func TestForgottenShard(t *testing.T) {
	t.Parallel()
	scores := map[string]float64{}
	for i := range 20 {
		scores[fmt.Sprint("item", i)] = float64(i + 1)
	}
	c := halfLife(t, 2, time.Minute, func(shard int) time.Time { return now.AddDate(0, 0, -30*shard) }, scores)
	for id := range scores {
		it, err := c.boards().Item(t.Context(), "a", id)
		if err != nil {
			t.Fatal(err)
		}
		if p := it.Boards[board.Hot]; (hit.Shard(hit.View, "a", id, 2) == 1) != (p.Score == 0) {
			t.Errorf("%s is at %+v", id, p)
		}
	}
}

func TestHalfLifeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	c := halfLife(t, 1, time.Hour, func(int) time.Time { return now }, map[string]float64{"x": 3})
	for _, at := range []time.Time{time.Unix(0, 0), now.Add(-time.Minute), now} {
		got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: board.Hot, Limit: 1, At: at})
		if err != nil || len(got.Items) != 1 || math.Abs(got.Items[0].Score-3) > 1e-9 {
			t.Errorf("at %v: %+v, %v", at, got, err)
		}
	}
}
