package store_test

import (
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
)

func TestLeases(t *testing.T) {
	t.Parallel()
	var l store.Leases
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		release bool
		shard   int
		owner   string
		at      time.Duration
		want    bool
	}{
		{shard: 0, owner: "a", at: 0, want: true},
		{shard: 0, owner: "b", at: 9 * time.Second, want: false},
		{shard: 1, owner: "b", at: 9 * time.Second, want: true},
		{shard: 0, owner: "a", at: 9 * time.Second, want: true}, // until 19 s
		{shard: 0, owner: "b", at: 18 * time.Second, want: false},
		{shard: 0, owner: "b", at: 19 * time.Second, want: true}, // until 29 s
		{release: true, shard: 0, owner: "a"},
		{shard: 0, owner: "a", at: 20 * time.Second, want: false},
		{release: true, shard: 0, owner: "b"},
		{shard: 0, owner: "a", at: 20 * time.Second, want: true},
		{release: true, shard: 7, owner: "a"},
	} {
		if step.release {
			l.Release(step.shard, step.owner)
			continue
		}
		if got := l.Acquire(step.shard, step.owner, 10*time.Second, start.Add(step.at)); got != step.want {
			t.Errorf("step %d: %s got shard %d: %v, want %v", i, step.owner, step.shard, got, step.want)
		}
	}
}
