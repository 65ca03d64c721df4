package bots

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"

func TestClassify(t *testing.T) {
	t.Parallel()
	person := Verdict{}
	crawler := Verdict{Bot: true, Class: "crawler", Reason: "name"}
	empty := Verdict{Bot: true, Class: "empty", Reason: "no_user_agent"}
	tests := []struct {
		userAgent string
		want      Verdict
	}{
		{chrome, person},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", person},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", person},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15", person},
		{"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36", person},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", crawler},
		{"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", crawler},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", crawler},
		{"", empty},
		{"  ", empty},
		{"-", empty},
		{chrome + strings.Repeat("x", 2*maxUserAgent), person},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)" + strings.Repeat(" ", 2*maxUserAgent), crawler},
	}
	c := New(nil, 100)
	for range 2 { // the second time from the cache
		for _, tt := range tests {
			if got := c.Classify(tt.userAgent, netip.Addr{}); got != tt.want {
				t.Errorf("%.60q: %+v, want %+v", tt.userAgent, got, tt.want)
			}
		}
	}
}

func (c *cache) size() (n int) {
	for i := range c.shards {
		n += len(c.shards[i].young) + len(c.shards[i].old)
	}
	return n
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 100, 1000} {
		c := New(nil, size)
		for i := range 20_000 {
			c.Classify(fmt.Sprintf("Agent/%d", i), netip.Addr{})
			if i%3 == 0 {
				c.Classify(chrome, netip.Addr{}) // in use all the time, so it stays
			}
		}
		// Each shard rounds its generations up.
		if n, limit := c.cache.size(), size+2*cacheShards; n > limit {
			t.Errorf("size %d: %d entries, more than %d", size, n, limit)
		}
		if _, ok := c.cache.get(chrome); !ok && size >= 100 {
			t.Errorf("size %d: a flood pushed out what was in use", size)
		}
	}
	c := New(nil, 100)
	c.Classify(strings.Repeat("x", maxUserAgent+1), netip.Addr{})
	if n := c.cache.size(); n != 0 {
		t.Errorf("%d entries after a User-Agent that is too long", n)
	}
}

func TestClassifyIsConcurrent(t *testing.T) {
	t.Parallel()
	c := New(nil, 50)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				bot := i%2 == 0
				agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux) Firefox/%d.0", (i*g)%97)
				if bot {
					agent = fmt.Sprintf("Mozilla/5.0 (compatible; Googlebot/2.%d; +http://www.google.com/bot.html)", (i*g)%97)
				}
				if got := c.Classify(agent, netip.Addr{}); got.Bot != bot {
					t.Errorf("%q: %+v", agent, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestClassifyAllocates(t *testing.T) {
	c := New(nil, 100)
	c.Classify(chrome, netip.Addr{})
	if n := testing.AllocsPerRun(100, func() { c.Classify(chrome, netip.Addr{}) }); n != 0 {
		t.Errorf("%v allocations for a User-Agent that is known", n)
	}
}

func BenchmarkClassify(b *testing.B) {
	b.Run("known", func(b *testing.B) {
		c := New(nil, 1000)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Classify(chrome, netip.Addr{})
			}
		})
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			classify(chrome)
		}
	})
}
