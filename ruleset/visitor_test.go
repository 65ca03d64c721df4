package ruleset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

var testSalt = []byte("0123456789abcdef0123456789abcdef")

func TestVisitor(t *testing.T) {
	t.Parallel()
	base := Visitor(testSalt, netip.MustParseAddr("203.0.113.9"), firefox)
	tests := []struct {
		name      string
		salt      []byte
		ip        string
		userAgent string
		same      bool
	}{
		{"again", testSalt, "203.0.113.9", firefox, true},
		{"IPv4 in IPv6 form", testSalt, "::ffff:203.0.113.9", firefox, true},
		{"another address", testSalt, "203.0.113.10", firefox, false},
		{"another browser", testSalt, "203.0.113.9", firefox + "x", false},
		{"no User-Agent", testSalt, "203.0.113.9", "", false},
		{"another salt", testSalt[:31], "203.0.113.9", firefox, false},
		{"IPv6", testSalt, "2001:db8::203.0.113.9", firefox, false},
	}
	for _, tt := range tests {
		got := Visitor(tt.salt, netip.MustParseAddr(tt.ip), tt.userAgent)
		if (got == base) != tt.same {
			t.Errorf("%s: %x, base %x", tt.name, got, base)
		}
	}

	v6 := func(s string) uint64 { return Visitor(testSalt, netip.MustParseAddr(s), firefox) }
	if v6("2001:db8:1:2::1") != v6("2001:db8:1:2:ffff:ffff:ffff:ffff") {
		t.Error("two addresses of one /64 are two visitors")
	}
	if v6("2001:db8:1:2::1") != v6("2001:db8:1:2::1%eth0") {
		t.Error("the zone of an address makes another visitor")
	}
	if v6("2001:db8:1:2::1") == v6("2001:db8:1:3::1") {
		t.Error("two /64 are one visitor")
	}
	long := strings.Repeat("x", maxUserAgent)
	if Visitor(testSalt, netip.Addr{}, long) != Visitor(testSalt, netip.Addr{}, long+"y") {
		t.Error("more than the first bytes of the User-Agent are used")
	}
}

// Visitor is HMAC-SHA256 as the standard library computes it.
func TestVisitorIsHMAC(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		salt := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "salt")
		raw := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "ip")
		agent := rapid.StringN(0, 300, 1000).Draw(t, "agent")
		ip, _ := netip.AddrFromSlice(raw)

		m := hmac.New(sha256.New, salt)
		addr := ip.As16()
		m.Write(addr[:])
		m.Write([]byte{0})
		m.Write([]byte(agent))
		want := binary.BigEndian.Uint64(m.Sum(nil))
		if got := Visitor(salt, ip, agent); got != want {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}

func TestVisitorAllocates(t *testing.T) {
	ip := netip.MustParseAddr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() { Visitor(testSalt, ip, firefox) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkVisitor(b *testing.B) {
	ip := netip.MustParseAddr("2001:db8::1")
	b.ReportAllocs()
	for b.Loop() {
		Visitor(testSalt, ip, firefox)
	}
}
