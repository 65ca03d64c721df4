package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestPoisonIsSetAside puts unreadable messages into the log, between others.
func TestPoisonIsSetAside(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Options{})
	aggregator := s.Aggregators[0]
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 100)

	js := s.Log()
	const shards = 3
	garbage := []byte("\x00not a batch\xff")
	for shard := range shards {
		if _, err := js.Publish(t.Context(), hit.Subject(shard, "x"), garbage); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		m, err := aggregator.Metrics()
		if err != nil {
			return err.Error()
		}
		if n, happened := m.Sum("hotboard_batches_total", "result", "poisoned"), m.Sum("hotboard_faults_total", "kind", string(faults.Poisoned)); n != shards || happened != shards {
			return fmt.Sprintf("%v messages are poisoned by the metrics, and there are %v faults; %d were sent", n, happened, shards)
		}
		return ""
	})
	if status, found, err := aggregator.Ready(); err != nil || status != http.StatusServiceUnavailable || !hasFault(found, faults.Poisoned) {
		t.Errorf("/-/ready with a poisoned message: %d %+v %v", status, found, err)
	}
	aside, err := js.Stream(t.Context(), hit.PoisonStream)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(shards) {
		msg, err := aside.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		if string(msg.Data) != string(garbage) {
			t.Errorf("message %d was set aside as %q", seq+1, msg.Data)
		}
	}

	enough(t, l, 200)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators, faults.Poisoned) })
	if info, err := aside.Info(t.Context()); err != nil || info.State.Msgs != shards {
		t.Errorf("%+v were set aside, and %d were sent: %v", info, shards, err)
	}
}
