package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/aggregator/store/storetest"
	"github.com/hotboard/hotboard/e2e/services"
)

func BenchmarkCommit(b *testing.B) {
	for _, batch := range []int{500, 2000, 8000} {
		b.Run(fmt.Sprint(batch, " hits"), func(b *testing.B) {
			r := services.StartRedis(b, "--appendonly", "yes")
			storetest.Benchmark(b, open(b, redisstore.Options{URL: r.URL()}), batch)
		})
	}
}
