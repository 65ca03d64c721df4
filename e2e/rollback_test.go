package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/internal/faults"
)

// rolledBack takes a store back under light load, and checks that the aggregators
// notice it and count everything again.
func rolledBack(t *testing.T, takeBack func(*stack.Stack, *load)) {
	t.Helper()
	t.Parallel()
	s := stack.Start(t, stack.Options{Aggregators: 2})
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 100, pages: 50, strict: true})
	enough(t, l, 300)

	takeBack(s, l)

	var saw *stack.Aggregator // the one that folded the messages before the rollback
	eventually(t, func() string {
		for _, a := range s.Aggregators {
			m, err := a.Metrics()
			if err != nil {
				return err.Error()
			}
			if m.Sum("hotboard_faults_total", "kind", string(faults.StoreBehind)) > 0 {
				saw = a
				return ""
			}
		}
		return "no aggregator has noticed that the store went back"
	})
	if status, found, err := saw.Ready(); err != nil || status != http.StatusServiceUnavailable || !hasFault(found, faults.StoreBehind) {
		t.Errorf("/-/ready after the store went back: %d %+v %v", status, found, err)
	}
	if !strings.Contains(saw.Printed(), string(faults.StoreBehind)) {
		t.Errorf("the log of the aggregator does not say %s", faults.StoreBehind)
	}

	enough(t, l, 100)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators, faults.StoreBehind) })
}

// enough waits for n more acknowledged beacons.
func enough(t *testing.T, l *load, n int) {
	t.Helper()
	until := l.ledger.acknowledged() + n
	eventually(t, func() string {
		if got := l.ledger.acknowledged(); got < until {
			return fmt.Sprintf("%d beacons are acknowledged, and not %d", got, until)
		}
		return ""
	})
}

func hasFault(found []faults.Fault, kind faults.Kind) bool {
	for _, f := range found {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

func TestFlushAll(t *testing.T) {
	rolledBack(t, func(s *stack.Stack, _ *load) {
		redisDo(t, s.Redis, func(c *goredis.Client) error { return c.FlushAll(t.Context()).Err() })
	})
}

func TestRedisRestoredFromOlderDump(t *testing.T) {
	rolledBack(t, func(s *stack.Stack, l *load) {
		backup := filepath.Join(t.TempDir(), "backup")
		s.Redis.Stop()
		if err := os.CopyFS(backup, os.DirFS(s.Redis.Dir)); err != nil {
			t.Fatal(err)
		}
		s.Redis.Restart()
		enough(t, l, 500)

		s.Redis.Stop()
		for _, name := range []string{"appendonlydir", "dump.rdb"} {
			if err := os.RemoveAll(filepath.Join(s.Redis.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		// The log of the server stays: CopyFS does not overwrite it.
		if err := os.CopyFS(filepath.Join(s.Redis.Dir, "appendonlydir"), os.DirFS(filepath.Join(backup, "appendonlydir"))); err != nil {
			t.Fatal(err)
		}
		s.Redis.Restart()
	})
}
