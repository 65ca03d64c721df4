package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
)

// TestNATSCluster takes one of three nats-servers away, in three ways, each time
// the leader of the log. The others must carry on without it.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	nodes := services.StartNATSCluster(t, 3)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL)
	}
	s := stack.Start(t, stack.Options{Edges: 2, Aggregators: 2, Broker: urls, Replicas: len(nodes)})
	st, js := s.Store(), s.Log()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL, s.Edges[1].URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 100)

	for _, fault := range []struct {
		name          string
		begin, finish func(*services.NATS)
		beacons       int // accepted meanwhile, 100 a second
	}{
		{"killed", (*services.NATS).Kill, (*services.NATS).Restart, 200},
		// For longer than the five seconds after which clients ping the server.
		{"paused", (*services.NATS).Pause, (*services.NATS).Resume, 600},
		{"without its disk", func(n *services.NATS) {
			n.Kill()
			if err := os.RemoveAll(n.Dir); err != nil {
				t.Fatal(err)
			}
		}, (*services.NATS).Restart, 200},
	} {
		leader := logLeader(t, js, nodes)
		fault.begin(nodes[leader])
		enough(t, l, fault.beacons)
		// Hits are counted meanwhile, not only accepted.
		drain(t, s, l)
		fault.finish(nodes[leader])
		t.Logf("node %d was %s; %d beacons are acknowledged", leader, fault.name, l.ledger.acknowledged())
		// Not two at once: wait until the server is back.
		eventually(t, func() string { return unlike(t.Context(), js, len(nodes)) })
	}
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators) })
}

// logLeader returns the index of the server that leads the log.
func logLeader(t *testing.T, js jetstream.JetStream, nodes []*services.NATS) (leader int) {
	t.Helper()
	eventually(t, func() string {
		stream, err := js.Stream(t.Context(), hit.Stream)
		if err != nil {
			return err.Error()
		}
		cluster := stream.CachedInfo().Cluster
		for i, n := range nodes {
			if cluster != nil && cluster.Leader == n.Name {
				leader = i
				return ""
			}
		}
		return fmt.Sprintf("the log has no leader: %+v", cluster)
	})
	return leader
}

// unlike names a server that does not have all of the log, or is "".
func unlike(ctx context.Context, js jetstream.JetStream, size int) string {
	stream, err := js.Stream(ctx, hit.Stream)
	if err != nil {
		return err.Error()
	}
	cluster := stream.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != size-1 {
		return fmt.Sprintf("the log is not kept by %d servers: %+v", size, cluster)
	}
	for _, r := range cluster.Replicas {
		if !r.Current || r.Offline {
			return fmt.Sprintf("a server lags behind: %+v", r)
		}
	}
	return ""
}
