package redisstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	open(t, redisstore.Options{URL: r.URL(), Shards: 4})
	if err := client(t, r).HSet(t.Context(), "future:meta", "layout", "99", "shards", "16").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client(t, r).HSet(t.Context(), "past:meta", "layout", "1", "shards", "16").Err(); err != nil {
		t.Fatal(err)
	}
	evicting := services.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	for name, tt := range map[string]struct {
		o    redisstore.Options
		want string
	}{
		"another number of shards": {redisstore.Options{URL: r.URL(), Shards: 8}, "has 4 shards, the configuration 8"},
		"a newer layout":           {redisstore.Options{URL: r.URL(), Prefix: "future"}, "layout 99"},
		"an older layout":          {redisstore.Options{URL: r.URL(), Prefix: "past"}, "let the aggregator count the log again"},
		"too many shards":          {redisstore.Options{URL: r.URL(), Shards: 5000}, "5000 shards"},
		"no shards":                {redisstore.Options{URL: r.URL(), Shards: -1}, "-1 shards"},
		"a tag as prefix":          {redisstore.Options{URL: r.URL(), Prefix: "{x}"}, "braces"},
		"a short memory":           {redisstore.Options{URL: r.URL(), MemoKeep: time.Millisecond}, "at least 1s"},
		"a server that evicts":     {redisstore.Options{URL: evicting.URL()}, "CONFIG SET maxmemory-policy noeviction"},
		"nobody there":             {redisstore.Options{URL: "unix:///nonexistent/socket"}, "redis does not answer"},
		"no scheme":                {redisstore.Options{URL: "localhost:6379"}, "URL of Redis"},
		"no URL":                   {redisstore.Options{}, "URL of Redis"},
		"an unknown parameter":     {redisstore.Options{URL: r.URL() + "?nonsense=1"}, "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redisstore.Open(t.Context(), tt.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("the store was opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestErrorsDoNotShowThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://user:hunter2@host:port", "redis+cluster://user:hunter2@host:port", "redis://user:hunter2@host:port?master_name=m",
		"redis://user:hunter2@127.0.0.1:1", "nonsense://user:hunter2@host", "redis://user:hunter2@host/notanumber", "redis://user:hunter2@%zz",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := redisstore.Open(ctx, redisstore.Options{URL: url})
		cancel()
		if err == nil {
			t.Fatalf("%s was opened", url)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestOpenWithACommandRefused(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t, "--user", "default", "on", "nopass", "~*", "+@all", "-info", "-config")
	var log bytes.Buffer
	open(t, redisstore.Options{URL: r.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "noeviction") {
		t.Errorf("nothing was said about what could not be checked: %q", &log)
	}
}

func TestOpenSaysWhenNothingIsOnDisk(t *testing.T) {
	t.Parallel()
	for appendonly, want := range map[string]bool{"no": true, "yes": false} {
		r := services.StartRedis(t, "--appendonly", appendonly)
		var log bytes.Buffer
		open(t, redisstore.Options{URL: r.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := strings.Contains(log.String(), "append-only"); got != want {
			t.Errorf("appendonly %s: log says %q", appendonly, &log)
		}
	}
}
