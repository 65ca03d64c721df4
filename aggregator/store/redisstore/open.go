package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// Defaults of Options.
const (
	DefaultPrefix     = "hotboard"
	DefaultShards     = 16
	DefaultCacheBytes = 256 << 20
)

// Options configures a Redis store.
type Options struct {
	// URL names the Redis server:
	//
	//	redis://user:password@host:6379/0           one server; rediss:// with TLS
	//	unix:///run/redis/redis.sock?db=0           one server, by its socket
	//	redis://sentinel1:26379?master_name=m&addr=sentinel2:26379   the master that Sentinels name
	//	redis+cluster://node1:6379?addr=node2:6379  a Redis Cluster; rediss+cluster:// with TLS
	//
	// Further parameters are those of go-redis, for example dial_timeout=5s.
	URL string
	// Prefix begins every key. Default: hotboard.
	Prefix string
	// Shards is the number of shards of the log, fixed when the store is created.
	// Default: 16.
	Shards int
	// MemoKeep is how long memos of visitors and quotas are kept after their day, week
	// or month. It must be longer than the log goes back, or a log that is read again
	// gives other counts. Default: [store.DefaultMemoKeep].
	MemoKeep time.Duration
	// CacheBytes bounds the memory of the cache of recent memos in this process.
	// Default: 256 MiB.
	CacheBytes int64
	// Logger receives warnings about server settings that put counts at risk. Default:
	// slog.Default().
	Logger *slog.Logger
}

func (o *Options) defaults() {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Shards == 0 {
		o.Shards = DefaultShards
	}
	if o.MemoKeep == 0 {
		o.MemoKeep = store.DefaultMemoKeep
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func (o *Options) valid() error {
	switch {
	case o.Shards < 1 || o.Shards > hit.MaxShards:
		return fmt.Errorf("%d shards: not between 1 and %d", o.Shards, hit.MaxShards)
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("prefix %q: braces would put all keys into one slot of a cluster", o.Prefix)
	case o.MemoKeep < time.Second:
		return fmt.Errorf("keeping memos for %v: at least 1s is necessary", o.MemoKeep)
	}
	return nil
}

// Open connects to Redis, checks that the server can keep counts safely, and
// creates the store if it does not exist.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.defaults()
	if err := o.valid(); err != nil {
		return nil, fmt.Errorf("opening the Redis store: %w", err)
	}
	reader, err := connect(o.URL, retryReads)
	if err != nil {
		return nil, fmt.Errorf("opening the Redis store: %w", err)
	}
	// The writer never retries by itself: the first try may have been executed.
	writer, err := connect(o.URL, neverRetry)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the Redis store: %w", err), reader.Close())
	}
	s := newStore(o, reader, writer)
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the Redis store: %w", err), s.Close())
	}
	for shard := range o.Shards {
		// Also finds out at once whether shard is damaged, or whether MULTI is forbidden.
		if _, err := s.Load(ctx, shard); err != nil {
			return nil, errors.Join(fmt.Errorf("opening the Redis store: %w", err), s.Close())
		}
	}
	return s, nil
}

// Retries of go-redis, where 0 means its own default.
const (
	neverRetry = -1
	retryReads = 3
)

func connect(rawURL string, retries int) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", withoutURL(err))
	}
	// RESP 2 has no server messages between the replies of a pipeline.
	const protocol = 2
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	plainScheme, cluster := strings.CutSuffix(u.Scheme, "+cluster")
	switch {
	case cluster:
		o, err := redis.ParseClusterURL(plainScheme + strings.TrimPrefix(rawURL, u.Scheme))
		if err != nil {
			return nil, fmt.Errorf("the URL of Redis: %w", withoutURL(err))
		}
		o.MaxRetries, o.DialerRetries, o.Protocol, o.MaintNotificationsConfig, o.ContextTimeoutEnabled = retries, 1, protocol, off, true
		return redis.NewClusterClient(o), nil
	case u.Query().Has("master_name"):
		o, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("the URL of Redis: %w", withoutURL(err))
		}
		o.MaxRetries, o.DialerRetries, o.Protocol, o.ContextTimeoutEnabled = retries, 1, protocol, true
		return redis.NewFailoverClient(o), nil
	default:
		o, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("the URL of Redis: %w", withoutURL(err))
		}
		o.MaxRetries, o.DialerRetries, o.Protocol, o.MaintNotificationsConfig, o.ContextTimeoutEnabled = retries, 1, protocol, off, true
		return redis.NewClient(o), nil
	}
}

// withoutURL removes the URL, which may hold a password, from an error.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// check refuses a server that would lose counts.
func (s *Store) check(ctx context.Context) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if err := s.eachMaster(ctx, s.checkServer); err != nil {
		return err
	}
	return s.checkMeta(ctx)
}

// eachMaster calls fn for every server that accepts writes.
func (s *Store) eachMaster(ctx context.Context, fn func(context.Context, redis.Cmdable) error) error {
	if c, ok := s.reader.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return fn(ctx, c) })
	}
	return fn(ctx, s.reader)
}

func (s *Store) checkServer(ctx context.Context, c redis.Cmdable) error {
	info, err := serverInfo(ctx, c)
	if err != nil {
		s.log.Warn("Redis does not allow INFO; make sure that it is version 6.2 or later and that maxmemory-policy is noeviction", "error", err)
		return nil
	}
	if v, ok := info["redis_version"]; ok && !atLeast(v, 6, 2) {
		return fmt.Errorf("redis is version %s: Hotboard needs 6.2 or later", v)
	}
	if info["aof_enabled"] == "0" {
		s.log.Warn("Redis keeps no append-only file: after losing its memory, it can only get back the hits still in the log; " +
			"set it with: CONFIG SET appendonly yes")
	}
	return nil
}

// serverInfo returns the fields of INFO, by name.
func serverInfo(ctx context.Context, c redis.Cmdable) (map[string]string, error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// atLeast reports whether a version such as 7.0.15 is major.minor or later. It
// accepts texts that are not versions.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	if errA != nil || errB != nil {
		return true
	}
	return a > major || a == major && b >= minor
}

// checkMeta creates the store if it does not exist, and refuses one with another
// layout or number of shards.
func (s *Store) checkMeta(ctx context.Context) error {
	key := metaKey(s.prefix)
	var has *redis.SliceCmd
	_, err := s.writer.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, key, fieldLayout, layout)
		p.HSetNX(ctx, key, fieldShards, len(s.shards))
		has = p.HMGet(ctx, key, fieldLayout, fieldShards)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	if got := has.Val()[0]; got != layout {
		return fmt.Errorf("%s records layout %v of the keys, this build supports layout %s: use the build that wrote them, or choose another prefix and let the aggregator count the log again", key, got, layout)
	}
	if got := has.Val()[1]; got != strconv.Itoa(len(s.shards)) {
		return fmt.Errorf("the store has %v shards, the configuration %d: the number cannot change; "+
			"set it back, or choose another prefix and let the aggregator count the log again", got, len(s.shards))
	}
	return nil
}
