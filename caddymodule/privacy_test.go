package caddymodule

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// tap passes connections on to a server, and keeps what clients send.
type tap struct {
	net.Listener
	mu   sync.Mutex
	sent bytes.Buffer
}

func startTap(t testing.TB, server string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				defer client.Close()
				io.Copy(client, upstream)
			}()
			go func() {
				defer upstream.Close()
				io.Copy(io.MultiWriter(upstream, p), client)
			}()
		}
	}()
	return p
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent.Write(b)
}

func (p *tap) bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.sent.Bytes())
}

// secretsOfVisitors are what must stay in the memory of the edge, by what they are.
func secretsOfVisitors(addresses []netip.Addr, texts map[string]string) map[string][]byte {
	needles := make(map[string][]byte)
	text := func(what, s string) {
		needles[what] = []byte(s)
		needles[what+" in a URL"] = []byte(url.QueryEscape(s))
		needles[what+" in base64"] = []byte(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(s)), "="))
		needles[what+" in hex"] = []byte(hex.EncodeToString([]byte(s)))
	}
	for what, s := range texts {
		text(what, s)
	}
	for _, ip := range addresses {
		what := "the address " + ip.String()
		text(what, ip.String())
		text(what+" written out", ip.StringExpanded())
		raw := ip.As16()
		if ip.Is6() {
			network := netip.PrefixFrom(ip, 64).Masked().Addr().String()
			text(what+", its network", strings.TrimSuffix(network, "::"))
			needles[what+", its network in binary"] = raw[:8]
			continue
		}
		needles[what+" in binary"] = raw[10:] // with the ffff before it: four bytes come about by chance
		needles[what+" as a number"] = fmt.Append(nil, uint32(raw[12])<<24|uint32(raw[13])<<16|uint32(raw[14])<<8|uint32(raw[15]))
		needles[what+" in hex"] = []byte(hex.EncodeToString(raw[12:]))
	}
	return needles
}

// TestNothingPersonalLeaves: whatever visitors do, neither their addresses nor
// their User-Agents, names or cookies are in what the edge sends, stores, logs or
// shows.
func TestNothingPersonalLeaves(t *testing.T) {
	log := startLog(t, 1)
	nats := startTap(t, strings.TrimPrefix(log.url, "nats://"))
	dir, err := os.MkdirTemp("", "hotboard") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)

	addresses := []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("2001:db8:77:1234:5678:9abc:def0:1234")}
	texts := map[string]string{
		"the User-Agent":    "Mozilla/5.0 (X11; Zorkonia x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"part of it":        "Zorkonia",
		"a bot's name":      "Quuxcrawler-of-mine",
		"a user":            "annabel.lee@example.com",
		"a user in a body":  "edgar.allan@example.com",
		"a cookie":          "c00kie-9f86d081884c7d65",
		"a fingerprint":     "f1ngerprint-60303ae22b998861",
		"a token in a URL":  "t0ken-fd61a03af4f77d87",
		"where they were":   "/nevermore/chapter",
		"an unused channel": "channel-nobody-asked-for",
	}
	config := `{
		admin unix/ADMIN
		persist_config off
		log default {
			output file LOG
			level DEBUG
			include hotboard http.handlers.hotboard admin
		}
		hotboard {
			dir DIR
			nats nats://TAP {
				shards 1
			}
			list articles {
				page /articles/{id}
			}
			list colours {
				votes *
			}
			list bots
			bots {
				count bots
			}
			limit few {
				by ip user visitor item device
				max 3 per day
				max 100 per second
			}
			limit dry {
				by visitor
				max 1 per hour
				shadow
			}
		}
	}
	http:// {
		bind unix/SITE
		hotboard {
			debug_header
			visitor {cookie.visitor}
			user {header.X-User}
			user_from_body
			channel {query.c} referrer
			confirm 10ms
		}
		test_origin
	}`
	logFile, admin, site := filepath.Join(dir, "log"), filepath.Join(dir, "admin.sock"), filepath.Join(dir, "site.sock")
	config = strings.NewReplacer("ADMIN", admin, "SITE", site, "LOG", logFile, "DIR", filepath.Join(dir, "data"), "TAP", nats.Addr().String()).Replace(config)
	var cfg map[string]any
	if err := json.Unmarshal(adaptJSON(t, config), &cfg); err != nil {
		t.Fatal(err)
	}
	for _, s := range cfg["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any) {
		s.(map[string]any)["trusted_proxies_unix"] = true
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(data, true); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			if err := caddy.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	defer stop()
	unix := func(path string) *http.Client {
		return &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		}}
	}
	ask := func(path string, r *http.Request) (int, []byte) {
		t.Helper()
		r.RequestURI = ""
		resp, err := unix(path).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range resp.Header {
			body = append(append(body, name...), strings.Join(values, "\n")...)
		}
		return resp.StatusCode, body
	}
	seen := make(map[string][]byte) // what was captured, by where
	_, rt := running()
	settle(t, "the secrets", func() bool { return rt.secrets.AllShared() })

	requests, hits := 0, 0
	for _, ip := range addresses {
		for _, spelling := range []string{ip.String(), ip.StringExpanded(), "::ffff:" + ip.String()} {
			if _, err := netip.ParseAddr(spelling); err != nil {
				continue
			}
			personal := []string{
				"X-Forwarded-For", spelling, "User-Agent", texts["the User-Agent"], "X-User", texts["a user"],
				"Referer", "https://site.example" + texts["where they were"], "X-Channel", texts["an unused channel"],
				"Cookie", "visitor=" + texts["a cookie"],
			}
			without := func(name string) []string { return append(append([]string(nil), personal...), name, "") }
			token := "token=" + texts["a token in a URL"]
			page := func(path string, header ...string) *http.Request { return browse(path+"?c=mail&"+token, header...) }
			for _, r := range []*http.Request{
				page("/articles/marker-item", personal...), page("/articles/b", without("Cookie")...), page("/articles/c", without("X-User")...),
				page("/articles/404", personal...), page("/articles/error", personal...),
				page("/articles/d", append(without("Cookie"), "Sec-Purpose", "prefetch")...),
				page("/articles/e", append(without("Cookie"), "User-Agent", texts["a bot's name"]+"/1.0 (+https://bot.example)")...),
				fetch("POST", "/api/views", `{"page":"/articles/d?c=mail&`+token+`","navigation":"prerender"}`, without("Cookie")...),
				fetch("POST", "/api/views", `{"articleId":"f","list":"articles","fingerprint":"`+texts["a fingerprint"]+`"}`, without("Cookie")...),
				fetch("POST", "/api/views", `{"page":"/elsewhere?`+token+`"}`, personal...),
				fetch("POST", "/api/views", `{"articleId":7}`, personal...),
				fetch("PUT", "/articles/g/view", "", personal...),
				fetch("POST", "/api/votes", `{"list":"colours","option":"red"}`, personal...),
				fetch("POST", "/api/votes", `{"list":"colours","option":"red"}`, without("X-User")...),
				fetch("POST", "/api/votes", `{"list":"colours","option":"red","user":"`+texts["a user in a body"]+`"}`, without("X-User")...),
				fetch("POST", "/api/votes", `{"list":"colours","option":"red","user":"`+texts["a user in a body"]+`"}`, personal...),
				browse("/hot?list=articles", personal...), browse("/hotboard.js", personal...),
			} {
				for range 5 { // so that limits refuse some
					again := r.Clone(t.Context())
					if r.GetBody != nil {
						again.Body, _ = r.GetBody()
					}
					_, answer := ask(site, again)
					requests++
					if r.URL.Path != "/articles/error" { // whose page is Caddy's
						seen["answers to "+r.Method+" "+r.URL.Path] = append(seen["answers to "+r.Method+" "+r.URL.Path], answer...)
					}
				}
			}
		}
	}
	adminKey := `{"ip":"` + addresses[0].String() + `","user_agent":"` + texts["the User-Agent"] + `","user":"` + texts["a user"] + `","item":"b","list":"articles"}`
	for _, q := range []struct{ method, path, body string }{
		{"GET", "/hotboard/samples?limit=10000", ""},
		{"GET", "/hotboard/limits", ""},
		{"POST", "/hotboard/limits/few", adminKey},
		{"POST", "/hotboard/limits/few", adminKey[1:]},
		{"DELETE", "/hotboard/limits/few", adminKey},
		{"POST", "/hotboard/bots", `{"user_agent":"` + texts["the User-Agent"] + `","ip":"` + addresses[0].String() + `"}`},
	} {
		status, answer := ask(admin, httptest.NewRequest(q.method, "http://caddy"+q.path, strings.NewReader(q.body)))
		if status != http.StatusOK && status != http.StatusNoContent && q.body != adminKey[1:] {
			t.Errorf("%s %s: %d %s", q.method, q.path, status, answer)
		}
		where := "the answer to " + q.method + " " + q.path
		seen[where] = append(seen[where], answer...)
	}
	samples := seen["the answer to GET /hotboard/samples?limit=10000"]
	if !bytes.Contains(samples, []byte("marker-item")) || !bytes.Contains(samples, []byte("limited:few")) {
		t.Errorf("the samples are not those of the requests: %.500s", samples)
	}

	ctx := caddy.ActiveContext()
	families, err := ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen["metrics"] = fmt.Append(nil, families)

	// Everything that was accepted has been sent once the last item has arrived.
	if w, _ := ask(site, browse("/articles/the-last", "X-Forwarded-For", "198.51.100.1")); w != http.StatusOK {
		t.Fatalf("the last page: %d", w)
	}
	for log.next(t).Item != "the-last" {
		hits++
	}
	if hits < 20 || requests < 100 {
		t.Errorf("%d hits of %d requests: that is not what visitors do", hits, requests)
	}
	stop()
	seen["what the broker was sent"] = nats.bytes()
	if !bytes.Contains(seen["what the broker was sent"], []byte("marker-item")) || !bytes.Contains(seen["what the broker was sent"], []byte("HOTBOARD_SALTS")) {
		t.Error("the tap saw no hit, or no secret")
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		seen["the file "+filepath.Base(path)] = data
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"log", "00000001.hits", "salts.json"} {
		if len(seen["the file "+file]) == 0 {
			t.Errorf("there is no file %s: %d places", file, len(seen))
		}
	}

	for what, needle := range secretsOfVisitors(addresses, texts) {
		for where, data := range seen {
			if bytes.Contains(data, needle) {
				at := bytes.Index(data, needle)
				t.Errorf("%s is in %s: %.200q", what, where, data[max(0, at-80):])
			}
		}
	}
}
