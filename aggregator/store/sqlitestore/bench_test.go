package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store/storetest"
)

func BenchmarkCommit(b *testing.B) {
	for _, batch := range []int{256, 2000, 8000} {
		b.Run(fmt.Sprint(batch, " hits"), func(b *testing.B) {
			storetest.Benchmark(b, open(b, filepath.Join(b.TempDir(), "counts.db"), 1), batch)
		})
	}
}
