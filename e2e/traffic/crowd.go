package main

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
)

// browsers are User-Agents of current browsers.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
}

// botAgents are User-Agents of programs.
var botAgents = []string{
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
	"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
	"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
	"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
	"", // a script without a name
}

const (
	acceptHTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	forwarded  = "X-Forwarded-For"
)

// crowd is a fixed number of visitors, each with an address of their own.
type crowd struct {
	base   uint32 // random, so that two runs do not meet in the dedup window
	agents []uint8
}

func newCrowd(r *rand.Rand, n int) *crowd {
	c := &crowd{base: r.Uint32(), agents: make([]uint8, n)}
	for i := range c.agents {
		c.agents[i] = uint8(r.IntN(len(browsers)))
	}
	return c
}

// address gives every visitor an address outside the public Internet. Each is in a
// network of its own, because IPv6 visitors are identified by /64: two in three are
// in 10.0.0.0/8, the others in the documentation prefix 2001:db8::/32.
func (c *crowd) address(visitor int) netip.Addr {
	n := c.base + uint32(visitor)
	if visitor%3 == 0 {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 15: 1})
	}
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// browser is a visitor's User-Agent.
type browser struct {
	agent   string
	address netip.Addr
}

func (c *crowd) browser(visitor int) browser {
	return browser{browsers[c.agents[visitor]], c.address(visitor)}
}

func (b browser) header(accept, dest, mode string) http.Header {
	return http.Header{
		"User-Agent":      {b.agent},
		"Accept":          {accept},
		"Accept-Language": {"en"},
		"Sec-Fetch-Dest":  {dest},
		"Sec-Fetch-Mode":  {mode},
		"Sec-Fetch-Site":  {"same-origin"},
		forwarded:         {b.address.String()},
	}
}

func (b browser) document() http.Header {
	h := b.header(acceptHTML, "document", "navigate")
	h.Set("Sec-Fetch-User", "?1")
	h.Set("Upgrade-Insecure-Requests", "1")
	return h
}

// prefetch is a speculative fetch of a page, marked as by current or by older
// browsers.
func (b browser) prefetch(r *rand.Rand) http.Header {
	h := b.document()
	h.Del("Sec-Fetch-User")
	switch r.IntN(4) {
	case 0:
		h.Set("Sec-Purpose", "prefetch;prerender")
	case 1:
		h.Set("Purpose", "prefetch")
	default:
		h.Set("Sec-Purpose", "prefetch")
	}
	return h
}

func (b browser) asset() http.Header {
	return b.header("*/*", "empty", "no-cors")
}

// bot is a program that asks for a page like a browser.
func (c *crowd) bot(r *rand.Rand) http.Header {
	return http.Header{
		"User-Agent": {botAgents[r.IntN(len(botAgents))]},
		"Accept":     {acceptHTML},
		forwarded:    {c.address(r.IntN(len(c.agents))).String()},
	}
}
