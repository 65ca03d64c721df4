package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sentinels watch a Redis master and promote a replica when the master is gone.
type Sentinels struct {
	addrs []string
}

// MasterName is the master's name in [Sentinels].
const MasterName = "m"

// StartSentinels runs three Sentinels until the test ends. They consider a master
// dead when it has not answered for a second.
func StartSentinels(t testing.TB, master *Redis) *Sentinels {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sentinels{}
	for range 3 {
		var addr string
		startOnFreePort(t, func(own int) *Process {
			addr = local(own)
			dir := t.TempDir()
			// A Sentinel writes its state into its configuration.
			file := filepath.Join(dir, "sentinel.conf")
			text := strings.NewReplacer("NAME", MasterName, "HOST", host, "PORT", port).Replace(fmt.Sprintf(`bind 127.0.0.1
port %d
dir %q
sentinel monitor NAME HOST PORT 2
sentinel down-after-milliseconds NAME 1000
sentinel failover-timeout NAME 5000
`, own, dir))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return newProcess(t, "redis-sentinel", redisServer(t), dir, []string{file, "--sentinel"}, func(ctx context.Context) error {
				return ping(ctx, "tcp", addr)
			})
		})
		s.addrs = append(s.addrs, addr)
	}
	return s
}

// URL is the master's address for clients.
func (s *Sentinels) URL() string {
	query := url.Values{"master_name": {MasterName}, "addr": s.addrs[1:]}
	return "redis://" + s.addrs[0] + "?" + query.Encode()
}

// RedisCluster is a Redis Cluster.
type RedisCluster struct {
	// Nodes are its servers, masters and replicas.
	Nodes []*Redis
}

// StartRedisCluster runs a Redis Cluster of three masters with a replica each until
// the test ends. It considers a server dead that has not answered for a second.
func StartRedisCluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{}
	create := []string{"--cluster", "create"}
	for range 6 {
		node := StartRedis(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			// The default, 10,000 above the other port, may be taken.
			"--cluster-port", strconv.Itoa(FreePort(t)),
		}, args...)...)
		c.Nodes = append(c.Nodes, node)
		create = append(create, node.Addr)
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		missing(t, "redis-cli is not installed: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, cli, append(create, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	c.awaitReplicas(ctx, t, cli)
	return c
}

// awaitReplicas waits until every replica has the data of its master. Before that
// none would be promoted.
func (c *RedisCluster) awaitReplicas(ctx context.Context, t testing.TB, cli string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, n := range c.Nodes {
		for {
			out, err := exec.CommandContext(ctx, cli, "-s", n.Socket, "INFO", "replication").CombinedOutput()
			if err == nil && (strings.Contains(string(out), "role:master") || strings.Contains(string(out), "master_link_status:up")) {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("a replica of the Redis Cluster does not follow its master: %v\n%s", errors.Join(err, ctx.Err()), out)
			}
		}
	}
}

// URL is the cluster's address for clients.
func (c *RedisCluster) URL() string {
	query := url.Values{}
	for _, n := range c.Nodes[1:] {
		query.Add("addr", n.Addr)
	}
	return "redis+cluster://" + c.Nodes[0].Addr + "?" + query.Encode()
}
