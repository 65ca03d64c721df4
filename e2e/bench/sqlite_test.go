package bench

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
)

// From the log into SQLite, one shard, as in the embedded default.
func TestApplySQLite(t *testing.T) {
	wanted(t)
	theRules = rules(t)
	nc := connect(t)
	ensure(t, nc, 1)
	const n = 300_000
	seqs := publish(t, nc, traffic(n, time.Now()), 1)
	s, err := sqlitestore.Open(t.Context(), sqlitestore.Options{Path: filepath.Join(t.TempDir(), "hotboard.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	took := applied(t, nc, s, seqs)
	check(t, s, n)
	row("apply, log to SQLite", fmt.Sprintf("%.0f hits/s", n/took.Seconds()), "-", "-", ">= 10000/s")
}
