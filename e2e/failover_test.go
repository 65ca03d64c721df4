package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestStaleReplicaIsPromoted makes Sentinels promote a replica that has not heard
// of its master for some time.
func TestStaleReplicaIsPromoted(t *testing.T) {
	t.Parallel()
	master := services.StartRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := services.StartRedis(t, "--replicaof", host, port)
	sentinels := services.StartSentinels(t, master)
	s := stack.Start(t, stack.Options{Aggregators: 2, Store: sentinels.URL()})
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 200)

	eventually(t, func() string {
		if info := replication(t, replica); !strings.Contains(info, "master_link_status:up") {
			return "the replica does not follow its master:\n" + info
		}
		return ""
	})
	// The Sentinels would correct that after eight seconds.
	redisDo(t, replica, func(c *goredis.Client) error { return c.ReplicaOf(t.Context(), "NO", "ONE").Err() })
	enough(t, l, 300)
	master.Kill()
	eventually(t, func() string { return unnoticed(s.Aggregators, faults.StoreBehind) })
	enough(t, l, 100)
	// It returns as an empty replica.
	master.Restart()
	enough(t, l, 100)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators, faults.StoreBehind) })
}

// TestRedisCluster kills one master of a Redis Cluster, so that its replica is
// promoted, and empties another one.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := services.StartRedisCluster(t)
	s := stack.Start(t, stack.Options{Aggregators: 2, Store: cluster.URL()})
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 200)

	killed := masters(t, cluster)[0]
	killed.Kill()
	eventually(t, func() string {
		if len(masters(t, cluster)) != 3 {
			return "no replica takes the place of the master that was killed"
		}
		return ""
	})
	enough(t, l, 200)
	killed.Restart() // as a replica
	enough(t, l, 100)

	redisDo(t, masters(t, cluster)[0], func(c *goredis.Client) error { return c.FlushAll(t.Context()).Err() })
	eventually(t, func() string { return unnoticed(s.Aggregators, faults.StoreBehind) })
	enough(t, l, 100)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators, faults.StoreBehind) })
}

// masters returns the running masters of a cluster.
func masters(t *testing.T, c *services.RedisCluster) (found []*services.Redis) {
	t.Helper()
	for _, n := range c.Nodes {
		if n.Running() && strings.Contains(replication(t, n), "role:master") {
			found = append(found, n)
		}
	}
	return found
}

// replication returns a server's report about its master or its replicas.
func replication(t *testing.T, r *services.Redis) (info string) {
	t.Helper()
	redisDo(t, r, func(c *goredis.Client) (err error) {
		info, err = c.Info(t.Context(), "replication").Result()
		return err
	})
	return info
}

// redisDo runs one command on one server.
func redisDo(t *testing.T, r *services.Redis, do func(*goredis.Client) error) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: r.Addr})
	defer c.Close()
	if err := do(c); err != nil {
		t.Fatal(err)
	}
}

// unnoticed returns "" when an aggregator has had a fault, even one that is over.
func unnoticed(aggregators []*stack.Aggregator, kind faults.Kind) string {
	for _, a := range aggregators {
		m, err := a.Metrics()
		if err != nil {
			return err.Error()
		}
		if m.Sum("hotboard_faults_total", "kind", string(kind)) > 0 {
			return ""
		}
	}
	return fmt.Sprintf("no aggregator has noticed %s", kind)
}
