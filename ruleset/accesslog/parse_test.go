package accesslog

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	ip4  = netip.MustParseAddr("83.149.9.216")
	noon = time.Date(2015, 5, 17, 12, 0, 0, 0, time.UTC)
)

const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func TestParse(t *testing.T) {
	t.Parallel()
	caddyHeader := http.Header{"User-Agent": {browser}, "Sec-Fetch-Dest": {"document"}}
	tests := []struct {
		name string
		line string
		want Entry
	}{
		{
			"combined",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /blog/a HTTP/1.1" 200 203023 "http://example.com/" "` + browser + `"`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/blog/a", Status: 200, UserAgent: browser, KnowsUserAgent: true},
		},
		{
			"common",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /blog/a HTTP/1.0" 304 -`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/blog/a", Status: 304},
		},
		{
			"another offset, a user with a space and a bracket",
			`83.149.9.216 - jane [the] doe [17/May/2015:14:00:00 +0200] "POST / HTTP/2.0" 201 5 "-" "-"`,
			Entry{Time: noon, IP: ip4, Method: "POST", Path: "/", Status: 201, KnowsUserAgent: true},
		},
		{
			"IPv6",
			`2001:db8::1 - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`,
			Entry{Time: noon, IP: netip.MustParseAddr("2001:db8::1"), Method: "GET", Path: "/", Status: 200, UserAgent: "x", KnowsUserAgent: true},
		},
		{
			"virtual host first, more fields last, windows line end",
			`example.com:443 83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /a HTTP/1.1" 200 1 "-" "x" "203.0.113.9" 0.003` + "\r",
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/a", Status: 200, UserAgent: "x", KnowsUserAgent: true},
		},
		{
			"escapes",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /a?q=\"b\" HTTP/1.1" 200 1 "a\\b" "say \"hi\" \x41\t\q"`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/a", Status: 200, UserAgent: "say \"hi\" A\t\\q", KnowsUserAgent: true},
		},
		{
			"agent that was cut off",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /a HTTP/1.1" 200 1 "-" "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.goo`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/a", Status: 200, UserAgent: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.goo", KnowsUserAgent: true},
		},
		{
			"encoded path, query",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /caf%C3%A9%20x/?utm=1#f HTTP/1.1" 200 1`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/café x/", Status: 200},
		},
		{
			"absolute URL",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET http://example.com/a HTTP/1.1" 200 1`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/a", Status: 200},
		},
		{
			"two slashes are a path, not a host",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET //a/b HTTP/1.1" 200 1`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "//a/b", Status: 200},
		},
		{
			"CONNECT",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "CONNECT example.com:443 HTTP/1.1" 405 1`,
			Entry{Time: noon, IP: ip4, Method: "CONNECT", Status: 405},
		},
		{
			"HTTP/0.9",
			`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /a" 200 1`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/a", Status: 200},
		},
		{
			"caddy",
			`{"level":"info","ts":1431864000.1234567,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"5","client_ip":"83.149.9.216","proto":"HTTP/2.0","method":"GET","host":"x","uri":"/caf%C3%A9?x=1","headers":{"User-Agent":["` + browser + `"],"Sec-Fetch-Dest":["document"]}},"bytes_read":0,"user_id":"","duration":0.0009,"size":10900,"status":200,"resp_headers":{"content-type":["text/html"]}}`,
			Entry{Time: noon.Add(123457 * time.Microsecond), IP: ip4, Method: "GET", Path: "/café", Status: 200, UserAgent: browser, KnowsUserAgent: true, Header: caddyHeader, ResponseHeader: http.Header{"Content-Type": {"text/html"}}},
		},
		{
			"caddy without client_ip, headers and logger",
			`{"ts":"2015-05-17T14:00:00.5+02:00","request":{"remote_ip":"83.149.9.216","method":"HEAD","uri":"/"},"status":0}`,
			Entry{Time: noon.Add(500 * time.Millisecond), IP: ip4, Method: "HEAD", Path: "/"},
		},
		{
			"caddy without a User-Agent",
			`{"ts":1431864000,"request":{"remote_ip":"83.149.9.216","method":"GET","uri":"/","headers":{"Accept":["*/*"]}},"status":200}`,
			Entry{Time: noon, IP: ip4, Method: "GET", Path: "/", Status: 200, KnowsUserAgent: true, Header: http.Header{"Accept": {"*/*"}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
			if got.Time.Location() != time.UTC {
				t.Errorf("the time is in %v", got.Time.Location())
			}
		})
	}
}

func TestParseCaddyTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ts   string
		want time.Time
	}{
		{`1431864000`, noon},
		{`1431864000.000001`, noon.Add(time.Microsecond)},
		{`1431864000123.5`, noon.Add(123500 * time.Microsecond)},
		{`1431864000123000000`, noon.Add(123 * time.Millisecond)},
		{`"2015-05-17T12:00:00Z"`, noon},
		{`"2015-05-17T12:00:00.123456789Z"`, noon.Add(123456789)},
		{`"2015-05-17T14:00:00.123+0200"`, noon.Add(123 * time.Millisecond)},
		{`"2015/05/17 12:00:00"`, noon},
		{`"2015/05/17 12:00:00.123"`, noon.Add(123 * time.Millisecond)},
		{`"17/May/2015:14:00:00 +0200"`, noon},
	}
	for _, tt := range tests {
		got, err := Parse(`{"ts":` + tt.ts + `,"request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":200}`)
		if err != nil || !got.Time.Equal(tt.want) {
			t.Errorf("ts %s: %v, %v; want %v", tt.ts, got.Time, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	const secret = "198.51.100.77"
	tests := []struct {
		name, line, want string
	}{
		{"empty", "", "not in combined"},
		{"prose", "server started " + secret, "not in combined"},
		{"no time", secret + ` - - "GET / HTTP/1.1" 200 1`, "not in combined"},
		{"bad time", secret + ` - - [99/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 1`, "not in combined"},
		{"before 1970", secret + ` - - [17/May/1915:12:00:00 +0000] "GET / HTTP/1.1" 200 1`, "1970"},
		{"host name", `example.com - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 1`, "not an IP address"},
		{"no request", secret + ` - - [17/May/2015:12:00:00 +0000] "-" 408 -`, "no HTTP request"},
		{"TLS to a plain port", secret + ` - - [17/May/2015:12:00:00 +0000] "\x16\x03\x01 x" 400 1`, "no HTTP request"},
		{"bad URL", secret + ` - - [17/May/2015:12:00:00 +0000] "GET /%zz?secret=` + secret + ` HTTP/1.1" 400 1`, "URL"},
		{"bad status", secret + ` - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 2000 1`, "status"},
		{"no quotes", secret + ` - - [17/May/2015:12:00:00 +0000] GET / 200 1`, "not in combined"},
		{"bad size", secret + ` - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 many`, "size"},
		{"referer cut off", secret + ` - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "http://`, "referer"},
		{"no agent", secret + ` - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-"`, "user agent"},
		{"broken JSON", `{"ts":1,"request":{"remote_ip":"` + secret, "JSON"},
		{"wrong type", `{"ts":1,"request":"` + secret + `","status":200}`, "JSON"},
		{"no ts", `{"request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":200}`, "ts is missing"},
		{"odd ts", `{"ts":"noon","request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":200}`, "not in a time format"},
		{"huge ts", `{"ts":1e300,"request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":200}`, "1970"},
		{"no address", `{"ts":1,"request":{"remote_ip":"secret","method":"GET","uri":"/"},"status":200}`, "not an IP address"},
	}
	for _, tt := range tests {
		_, err := Parse(tt.line)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error %q quotes personal data", tt.name, err)
		}
	}
	for _, line := range []string{
		`{"level":"error","ts":1,"logger":"http.log.error","msg":"x","request":{"remote_ip":"::1","method":"GET","uri":"/"},"status":502}`,
		`{"level":"info","ts":1,"logger":"admin","msg":"stopped"}`,
		`{"level":"info","ts":1,"msg":"serving initial configuration"}`,
	} {
		if _, err := Parse(line); !errors.Is(err, ErrNotAccess) {
			t.Errorf("%s: %v, want ErrNotAccess", line, err)
		}
	}
}

func FuzzAccessLog(f *testing.F) {
	f.Add(`83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /blog/a HTTP/1.1" 200 203023 "http://example.com/" "` + browser + `"`)
	f.Add(`::1 - a [b [17/May/2015:12:00:00 +0000] "GET /%41\x42\" HTTP/1.1" 304 - "\\" "x\`)
	f.Add(`{"ts":1431864000.5,"request":{"client_ip":"::1","method":"GET","uri":"/","headers":{"User-Agent":["x"]}},"status":200}`)
	f.Add(`{"ts":"2015-05-17T12:00:00Z","request":{"remote_ip":"1.2.3.4","method":"GET","uri":"*"},"status":200,"resp_headers":{"a":["b"]}}`)
	f.Add("\x1f\x8b\n\n{}\n\xef\xbb\xbf")
	f.Fuzz(func(t *testing.T, line string) {
		e, err := Parse(line)
		if err == nil {
			if !e.IP.IsValid() || e.Time.UnixMilli() < 0 || e.Time.Location() != time.UTC || e.Status < 0 && !strings.HasPrefix(strings.TrimSpace(line), "{") {
				t.Fatalf("%q gives %+v", line, e)
			}
			if !e.KnowsUserAgent && e.UserAgent != "" {
				t.Fatalf("%q has an agent that is not known", line)
			}
		}
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Fatalf("%q: error is not text: %q", line, err)
		}
		// As a file, every line gives one entry or one error, and reading ends.
		r := NewReader(strings.NewReader(line))
		for range strings.Count(line, "\n") + 2 {
			if _, err = r.Next(); err != nil && !errors.As(err, new(*LineError)) {
				return
			}
		}
		t.Fatalf("%q: reading does not end", line)
	})
}
