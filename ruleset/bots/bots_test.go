package bots

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hotboard/hotboard/ruleset"
)

const (
	chrome    = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
	googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)

func compiled(t testing.TB, b *ruleset.Bots) *ruleset.Bots {
	t.Helper()
	return ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "a", Pages: []string{"/{id}"}}}, Bots: b}).Bots
}

func patterns(t testing.TB, json string) *Patterns {
	t.Helper()
	p, err := ParsePatterns("bots.json", []byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClassify_Order(t *testing.T) {
	t.Parallel()
	c := New(compiled(t, &ruleset.Bots{
		Allow: &ruleset.Clients{UserAgents: []string{"OurMonitor"}, CIDRs: []string{"10.0.0.0/8", "::ffff:172.16.0.0/108"}},
		Deny:  &ruleset.Clients{UserAgents: []string{"EvilApp"}, CIDRs: []string{"192.0.2.0/24", "2001:db8::/32", "198.51.100.7", "10.6.6.6"}},
	}), 100)
	c.SetPatterns(patterns(t, `[{"pattern": "^Plain"}, {"pattern": "Win64", "tags": ["seo"]}, {"pattern": "Googlebot"}]`))
	const (
		macintosh = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15"
		evil      = macintosh + " evilapp/1.0"
	)
	tests := []struct {
		name, userAgent, ip, class, reason string
	}{
		{"nothing speaks against it", macintosh, "203.0.113.1", "", ""},
		{"no address", macintosh, "", "", ""},
		{"built in", "curl/8.5.0", "203.0.113.1", "http_library", "token curl"},
		{"file before built in", googlebot, "203.0.113.1", "search_engine", "pattern Googlebot"},
		{"file of what is a browser", chrome, "203.0.113.1", "seo_tool", "pattern Win64"},
		{"file without a class", "PlainTool/1.0 (Linux)", "203.0.113.1", "other", "pattern ^Plain"},
		{"denied range", macintosh, "192.0.2.9", "denied", "deny cidr"},
		{"denied range, of IPv6", macintosh, "2001:db8:1::1", "denied", "deny cidr"},
		{"denied address", macintosh, "198.51.100.7", "denied", "deny cidr"},
		{"beside it", macintosh, "198.51.100.8", "", ""},
		{"denied range, of IPv4 in IPv6", macintosh, "::ffff:192.0.2.9", "denied", "deny cidr"},
		{"denied by name, in any case", evil, "203.0.113.1", "denied", "deny user_agent"},
		{"denied range before built in", "curl/8.5.0", "192.0.2.9", "denied", "deny cidr"},
		{"allowed range before all", "curl/8.5.0", "10.1.1.1", "", "allow cidr"},
		{"allowed range, written as IPv6", "curl/8.5.0", "172.16.0.9", "", "allow cidr"},
		{"allowed range before the file", googlebot, "10.1.1.1", "", "allow cidr"},
		{"allowed range before a denied address in it", macintosh, "10.6.6.6", "", "allow cidr"},
		{"allowed range before a denied name", evil, "10.1.1.1", "", "allow cidr"},
		{"allowed by name", "ourmonitor-bot/2.0", "203.0.113.1", "", "allow user_agent"},
		{"allowed by name before a denied range", "OurMonitor-bot/2.0", "192.0.2.9", "", "allow user_agent"},
		{"allowed by name before a denied one", "OurMonitor EvilApp", "192.0.2.9", "", "allow user_agent"},
		{"empty", "", "203.0.113.1", "empty", "no_user_agent"},
		{"empty, allowed", "", "10.0.0.1", "", "allow cidr"},
	}
	for range 2 { // the second time from the cache
		for _, tt := range tests {
			var ip netip.Addr
			if tt.ip != "" {
				ip = netip.MustParseAddr(tt.ip)
			}
			got := c.Classify(tt.userAgent, ip)
			if got.Bot != (tt.class != "") || got.Class != tt.class || got.Reason != tt.reason {
				t.Errorf("%s: %+v, want %q, %q", tt.name, got, tt.class, tt.reason)
			}
		}
	}
}

func TestClassify_Long(t *testing.T) {
	t.Parallel()
	c := New(nil, 100)
	for _, tt := range []struct {
		userAgent string
		bot       bool
	}{
		{chrome + strings.Repeat("x", 2*maxUserAgent), false},
		{googlebot + strings.Repeat(" ", 2*maxUserAgent), true},
	} {
		if got := c.Classify(tt.userAgent, netip.Addr{}); got.Bot != tt.bot {
			t.Errorf("%.60q: %+v", tt.userAgent, got)
		}
	}
	if n := c.rules.Load().cache.EstimatedSize(); n != 0 {
		t.Errorf("%d entries after User-Agents that are too long", n)
	}
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
		cache := c.rules.Load().cache
		cache.CleanUp()
		if n := cache.EstimatedSize(); n > max(1, size) {
			t.Errorf("size %d: %d entries", size, n)
		}
		if _, ok := cache.GetIfPresent(chrome); !ok && size >= 100 {
			t.Errorf("size %d: a flood pushed out what was in use", size)
		}
	}
}

func TestSetPatternsForgetsClassifications(t *testing.T) {
	t.Parallel()
	c := New(nil, 100)
	is := func(want bool) {
		t.Helper()
		if got := c.Classify(chrome, netip.Addr{}); got.Bot != want {
			t.Errorf("%+v, want a bot: %v", got, want)
		}
	}
	is(false)
	c.SetPatterns(patterns(t, `[{"pattern": "Chrome"}]`))
	is(true)
	c.SetPatterns(patterns(t, `[]`))
	is(false)
	c.SetPatterns(nil)
	is(false)
}

func TestClassifyIsConcurrent(t *testing.T) {
	t.Parallel()
	c := New(nil, 50)
	same := patterns(t, `[{"pattern": "Googlebot"}]`)
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
				if i%100 == 0 {
					c.SetPatterns(same)
				}
			}
		})
	}
	wg.Wait()
}

func TestClassifyAllocates(t *testing.T) {
	c := New(compiled(t, &ruleset.Bots{
		Allow: &ruleset.Clients{CIDRs: []string{"10.0.0.0/8"}},
		Deny:  &ruleset.Clients{CIDRs: []string{"192.0.2.0/24", "2001:db8::/32"}},
	}), 100)
	for _, ip := range []netip.Addr{{}, netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1%eth0")} {
		c.Classify(chrome, ip)
		if n := testing.AllocsPerRun(100, func() { c.Classify(chrome, ip) }); n != 0 {
			t.Errorf("%v: %v allocations for a User-Agent that is known", ip, n)
		}
	}
}

// A classification contains only our own words, for any request.
func FuzzClassify(f *testing.F) {
	for _, tt := range classifications {
		f.Add(tt.userAgent)
	}
	for _, s := range []string{"\x00", "(", ")", "Mozilla/5.0 ()", "a@b.c", "@", "x@y", "Bot\xff", "[fb", ".com", "K.com"} {
		f.Add(s)
	}
	c := New(nil, 10)
	c.SetPatterns(patterns(f, `[{"pattern": "(?i)fox"}, {"pattern": "^x.y"}]`))
	reasons := map[string]bool{"": true, "no_user_agent": true, "library": true, "pattern (?i)fox": true, "pattern ^x.y": true}
	for _, n := range newNames().list {
		reasons[n.reason] = true
	}
	for _, w := range words() {
		reasons["word "+w.text] = true
	}
	f.Fuzz(func(t *testing.T, userAgent string) {
		v := c.Classify(userAgent, netip.Addr{})
		switch {
		case v.Bot != (v.Class != ""), v.Bot != (v.Reason != ""), v.Bot && !slices.Contains(ruleset.BotClasses, v.Class):
			t.Errorf("%q: %+v", userAgent, v)
		case !slices.Contains(ruleset.Devices, v.Device):
			t.Errorf("%q: device %q", userAgent, v.Device)
		case !reasons[v.Reason] && !strings.HasPrefix(v.Reason, "structure: "):
			t.Errorf("%q: reason %q", userAgent, v.Reason)
		}
	})
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
	// Few User-Agents are frequent and many are rare; one request in ten has one that
	// may be new.
	b.Run("mixed", func(b *testing.B) {
		agents := make([]string, 5000)
		for i := range agents {
			agents[i] = fmt.Sprintf("%s Edg/%d", chrome, i)
		}
		fresh := make([]string, 1<<16)
		for i := range fresh {
			fresh[i] = fmt.Sprintf("%s Fresh/%d", chrome, i)
		}
		c := New(nil, 16384)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			rng := rand.New(rand.NewPCG(1, 2))
			zipf := rand.NewZipf(rng, 1.1, 10, uint64(len(agents)-1))
			for i := 0; pb.Next(); i++ {
				agent := agents[zipf.Uint64()]
				if i%10 == 0 {
					agent = fresh[rng.IntN(len(fresh))]
				}
				c.Classify(agent, netip.Addr{})
			}
		})
	})
	for name, agent := range map[string]string{"new_browser": chrome, "new_bot": googlebot} {
		b.Run(name, func(b *testing.B) {
			c := New(nil, 1)
			b.ReportAllocs()
			for b.Loop() {
				c.judge(agent, nil)
			}
		})
	}
}
