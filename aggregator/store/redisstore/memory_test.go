package redisstore_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// maxBytesPerMemo is the most bytes of Redis memory for one memo.
const maxBytesPerMemo = 16

// TestMemoryPerMemo fills one day of a list over 16 shards and measures the
// server's memory on the way: the allocator has fewer sizes than a growing list.
func TestMemoryPerMemo(t *testing.T) {
	t.Parallel()
	const (
		shards  = 16
		memos   = 1_300_000
		from    = 600_000
		measure = 50_000
		batch   = 625 // memos a commit
	)
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: shards}), client(t, r)
	random := rand.New(rand.NewPCG(7, 7))
	at := make([]store.Position, shards)
	empty := usedMemory(t, c)
	worst, worstAt := 0.0, 0
	for n := 0; n < memos; {
		for shard := range shards {
			to := store.Position{Seq: at[shard].Seq + 1, Fingerprint: 1}
			cm := &store.Commit{From: at[shard], To: to}
			for range batch {
				cm.Memos = append(cm.Memos, store.MemoValue{
					Memo:  store.Memo{List: "articles", Term: calendar.Day, Start: 1_795_132_800, Key: random.Uint64()},
					Value: random.Uint32N(86_400_000),
				})
			}
			n += batch
			if err := s.Commit(context.Background(), shard, cm); err != nil {
				t.Fatal(err)
			}
			at[shard] = to
		}
		if n >= from && n%measure == 0 {
			perMemo := float64(usedMemory(t, c)-empty) / float64(n)
			if n == 1_000_000 {
				t.Logf("%.1f bytes of Redis memory a memo at %d memos", perMemo, n)
			}
			if perMemo > worst {
				worst, worstAt = perMemo, n
			}
		}
	}
	t.Logf("%.1f bytes of Redis memory a memo at most, at %d memos", worst, worstAt)
	if worst > maxBytesPerMemo {
		t.Errorf("a memo takes %.1f bytes, want at most %d", worst, maxBytesPerMemo)
	}
}

func usedMemory(t testing.TB, c *redis.Client) int64 {
	t.Helper()
	info, err := c.Info(context.Background(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO memory has no used_memory")
	return 0
}
