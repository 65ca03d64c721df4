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
)

// maxBytesPerPair is what a remembered pair of item and visitor may take in Redis.
const maxBytesPerPair = 24

// TestMemoryPerPair fills one day of a list over 16 shards and looks at the
// memory of the server on the way: a string that is appended to is half empty
// just after it has grown.
func TestMemoryPerPair(t *testing.T) {
	t.Parallel()
	const (
		shards  = 16
		pairs   = 1_300_000
		from    = 600_000
		measure = 50_000
		batch   = 625 // pairs a commit
	)
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: shards}), client(t, r)
	random := rand.New(rand.NewPCG(7, 7))
	at := make([]store.Position, shards)
	empty := usedMemory(t, c)
	worst, worstAt := 0.0, 0
	for n := 0; n < pairs; {
		for shard := range shards {
			to := store.Position{Seq: at[shard].Seq + 1, Fingerprint: 1}
			cm := &store.Commit{From: at[shard], To: to}
			for range batch {
				cm.Seen = append(cm.Seen, store.SeenAt{
					Seen: store.Seen{List: "articles", Day: 1_795_132_800, Pair: random.Uint64()},
					Time: 1_795_132_800_000 + random.Int64N(86_400_000),
				})
			}
			n += batch
			if err := s.Commit(context.Background(), shard, cm); err != nil {
				t.Fatal(err)
			}
			at[shard] = to
		}
		if n >= from && n%measure == 0 {
			perPair := float64(usedMemory(t, c)-empty) / float64(n)
			if n == 1_000_000 {
				t.Logf("%.1f bytes of Redis memory a pair at %d pairs", perPair, n)
			}
			if perPair > worst {
				worst, worstAt = perPair, n
			}
		}
	}
	t.Logf("%.1f bytes of Redis memory a pair at most, at %d pairs", worst, worstAt)
	if worst > maxBytesPerPair {
		t.Errorf("a pair takes %.1f bytes, want at most %d", worst, maxBytesPerPair)
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
