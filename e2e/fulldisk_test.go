package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestFullDiskOfNATS fills the disk of the log. Edges go on accepting hits, which
// wait there; they are counted after there is room again and nats-server has
// restarted, which it needs in order to write again.
func TestFullDiskOfNATS(t *testing.T) {
	t.Parallel()
	disk := services.Tmpfs(t, 64)
	broker := services.StartNATSIn(t, filepath.Join(disk, "jetstream"))
	s := stack.Start(t, stack.Options{Broker: []string{broker.URL}})
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 200)

	ballast := fill(t, disk)
	eventually(t, func() string {
		m, err := s.Edges[0].Metrics()
		if err != nil {
			return err.Error()
		}
		if waiting := m.Sum("hotboard_edge_oldest_unapplied_seconds"); waiting < 3 {
			return fmt.Sprintf("the log still takes hits: the oldest that is not counted is %v s old", waiting)
		}
		return ""
	})
	enough(t, l, 200)
	// Both sides name NATS and the remedy, also while there is room again: nats-server
	// keeps the error until it restarts.
	shown := func() string {
		for name, url := range map[string]string{"edge": s.Edges[0].Admin + "/hotboard/-/ready", "aggregator": s.Aggregators[0].URL + "/-/ready"} {
			status, body, err := fetch(url)
			if err != nil {
				return err.Error()
			}
			named := strings.Contains(body, string(faults.LogRefuses)) || strings.Contains(body, string(faults.LogAway))
			if status != http.StatusServiceUnavailable || !named || !strings.Contains(body, "restart") {
				return fmt.Sprintf("readiness of the %s: %d %s", name, status, body)
			}
		}
		return ""
	}
	eventually(t, shown)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	enough(t, l, 100)
	if wrong := shown(); wrong != "" {
		t.Error(wrong)
	}
	broker.Restart()
	enough(t, l, 100)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators) })
}

// fill writes a file that takes up the free space of a disk, and returns its path.
func fill(t *testing.T, disk string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 1 << 12} {
		for err = nil; err == nil; _, err = f.Write(make([]byte, size)) {
		}
	}
	t.Logf("the disk is full: %v", err)
	return ballast
}
