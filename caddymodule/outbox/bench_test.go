package outbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/hotboard/hotboard/hit"
)

func benchOpen(b *testing.B, opts Options) *Outbox {
	b.Helper()
	opts.Dir = b.TempDir()
	if opts.Shards == 0 {
		opts.Shards = 16
	}
	opts.MaxBytes = 1 << 40
	o, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	o.Document([]byte(someRules))
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := o.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return o
}

func benchHits() []hit.Hit { return hitsOf(names("an-article-about-something-", 1000)) }

// BenchmarkOffer is what a page view waits for.
func BenchmarkOffer(b *testing.B) {
	q := newQueue(8192, 16)
	hits := benchHits()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if !q.offer(hits[i%len(hits)]) {
			b.StopTimer()
			q.done(q.take(), false, nil)
			b.StartTimer()
		}
		i++
	}
}

func BenchmarkOfferParallel(b *testing.B) {
	o := benchOpen(b, Options{Queue: 1 << 16})
	hits := benchHits()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			o.Offer(hits[i%len(hits)])
		}
	})
	b.ReportMetric(float64(o.Stats().DroppedViews)/float64(b.N), "dropped/op")
}

// BenchmarkAppend is what a beacon waits for, with so many at a time.
func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			o := benchOpen(b, Options{})
			hits := benchHits()
			b.ReportAllocs()
			b.SetParallelism(clients)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := o.Append(context.Background(), hits[i%len(hits)]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(o.Stats().SpooledHits)/b.Elapsed().Seconds(), "hits/s")
		})
	}
}

// BenchmarkFlush is how fast views get to the disk.
func BenchmarkFlush(b *testing.B) {
	for _, shards := range []int{1, 16} {
		for _, n := range []int{100, 1000, 8000} {
			b.Run(fmt.Sprintf("shards=%d/hits=%d", shards, n), func(b *testing.B) {
				o := benchOpen(b, Options{Shards: shards, Queue: 2 * n})
				hits := benchHits()
				b.ReportAllocs()
				for b.Loop() {
					for i := range n {
						o.Offer(hits[i%len(hits)])
					}
					if err := o.queue.flush(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(o.Stats().SpooledHits)/b.Elapsed().Seconds(), "hits/s")
			})
		}
	}
}
