package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Benchmark commits hits like a fold: deduplicated, on five boards, an index of
// publish times and a score set, for items of Zipf popularity. It reports hits/s;
// b.N counts hits. batch is the number of hits in a commit.
func Benchmark(b *testing.B, s store.Store, batch int) {
	const list, items, visitors = "articles", 20_000, 300_000
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	popularity := rand.NewZipf(random, 1.1, 10, items-1)
	names := make([]string, items)
	shardOf := make([]int, items)
	for i := range names {
		names[i] = fmt.Sprintf("2026/11/an-article-with-a-title-%d", i)
		shardOf[i] = hit.Shard(hit.View, list, names[i], s.Shards())
	}
	var sets []store.Set
	for _, name := range []string{"hour:20261120T100000Z", "day:20261120T000000Z", "week:20261116T000000Z", "month:20261101T000000Z", "all", "halflife:24h"} {
		sets = append(sets, store.Set{List: list, Name: name})
	}
	const day = 1_795_132_800
	now := int64(0) // milliseconds since the day began
	shards := make([]store.Position, s.Shards())
	b.ReportAllocs()
	b.ResetTimer()
	for done, round := 0, 0; done < b.N; round++ {
		shard := round % s.Shards()
		n := min(batch, b.N-done)
		done += n
		now += int64(n / 20)

		type view struct {
			item int
			pair uint64
		}
		hits := make([]view, n)
		want := store.Want{Scores: map[store.Set][]string{}, Totals: sets}
		index := map[int]int{}
		var touched []string
		for i := range hits {
			item := int(popularity.Uint64())
			for shardOf[item] != shard {
				item = int(popularity.Uint64())
			}
			visitor := random.Uint64N(visitors)
			hits[i] = view{item, (uint64(item)<<32 | visitor) * 0x9e3779b97f4a7c15}
			want.Memos = append(want.Memos, store.Memo{List: list, Term: calendar.Day, Start: day, Key: hits[i].pair})
			if _, ok := index[item]; !ok {
				index[item] = len(touched)
				touched = append(touched, names[item])
			}
		}
		want.Items = map[string][]string{list: touched}
		for _, set := range sets {
			want.Scores[set] = touched
		}
		have, err := s.Read(ctx, shard, &want)
		if err != nil {
			b.Fatal(err)
		}

		c := &store.Commit{
			From: shards[shard], To: store.Position{Seq: shards[shard].Seq + 1, Fingerprint: random.Uint64()},
			Edges:    map[string]uint64{"edge": uint64(round)},
			Items:    map[string]map[string]store.Item{list: {}},
			Scores:   map[store.Set]map[string]store.Tally{},
			Totals:   map[store.Set]store.Totals{},
			Visitors: map[store.Set][]uint64{},
		}
		counted := map[uint64]bool{}
		for i, h := range hits {
			if counted[h.pair] || now-have.Memos[i] < 600_000 && have.Memos[i] != store.NoMemo {
				continue
			}
			counted[h.pair] = true
			c.Memos = append(c.Memos, store.MemoValue{Memo: want.Memos[i], Value: uint32(now)})
			at := index[h.item]
			rec := have.Items[list][at]
			rec.Last = now
			c.Items[list][names[h.item]] = rec
			for j, set := range sets {
				t := &have.Scores[set][at]
				if j < 5 {
					t.Views++
				} else {
					t.Score++
				}
				have.Totals[j].Views++
				if have.Memos[i] == store.NoMemo {
					t.Uniques++
					if j < 5 {
						c.Visitors[set] = append(c.Visitors[set], h.pair)
					}
				}
			}
		}
		for j, set := range sets {
			tallies := make(map[string]store.Tally, len(touched))
			for i, item := range touched {
				tallies[item] = have.Scores[set][i]
			}
			c.Scores[set], c.Totals[set] = tallies, have.Totals[j]
		}
		if err := s.Commit(ctx, shard, c); err != nil {
			b.Fatal(err)
		}
		shards[shard] = c.To
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hits/s")
}
