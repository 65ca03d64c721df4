package limit

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/hotboard/hotboard/ruleset"
)

// FuzzKey compares keys of two hits: they are the same when, and only when, the
// hits are the same to the limit.
func FuzzKey(f *testing.F) {
	ip := func(s string) []byte { return netip.MustParseAddr(s).AsSlice() }
	f.Add(uint8(63), uint8(24), uint8(64), "ann", "", "a", "mail", "mobile", "mail", "", "Firefox", "a", ip("192.0.2.1"), ip("192.0.2.2"))
	f.Add(uint8(8|32), uint8(32), uint8(1), "", "", "ab", "c", "", "a", "", "", "bc", ip("::ffff:192.0.2.1"), ip("192.0.2.1"))
	f.Add(uint8(2|4), uint8(1), uint8(127), "\x00", "", "", "", "", "", "", "", "", ip("2001:db8::1"), []byte{})
	f.Fuzz(func(t *testing.T, by, ipv4, ipv6 uint8, user1, user2, item1, channel1, device1, channel2, device2, text2, item2 string, ip1, ip2 []byte) {
		l := &ruleset.Limit{Name: "test", IPv4Prefix: 1 + int(ipv4)%32, IPv6Prefix: 1 + int(ipv6)%128}
		for i, d := range ruleset.Dimensions {
			if by&(1<<i) != 0 {
				l.By = append(l.By, d)
			}
		}
		a1, _ := netip.AddrFromSlice(ip1)
		a2, _ := netip.AddrFromSlice(ip2)
		one := &Hit{User: user1, Item: item1, Channel: channel1, Device: device1, IP: a1, VisitorIP: a1, VisitorText: "Firefox"}
		two := &Hit{User: user2, Item: item2, Channel: channel2, Device: device2, IP: a2, VisitorIP: a2, VisitorText: text2}
		check := func(a, b *Hit, dims1, dims2 dimensions, want bool) {
			t.Helper()
			x, y := dims1.append(nil, a), dims2.append(nil, b)
			if bytes.Equal(x, y) != want {
				t.Errorf("keys of %+v and %+v by %v: %x and %x, want them to be equal: %v", a, b, l.By, x, y, want)
			}
			// Nor is one the beginning of the other, as what is before it in a key of
			// a quota may differ too.
			if !want && dims1 == dims2 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
				t.Errorf("keys of %+v and %+v by %v: %x and %x, one begins with the other", a, b, l.By, x, y)
			}
		}
		dims := dimensionsOf(l)
		check(one, two, dims, dims, sameTo(l, one, two))
		for _, d := range ruleset.Dimensions { // hits that differ in one thing alone
			three := *one
			switch d {
			case ruleset.ByIP:
				three.IP = a2
			case ruleset.ByUser:
				three.User = user2
			case ruleset.ByVisitor:
				three.VisitorIP, three.VisitorText = a2, text2
			case ruleset.ByChannel:
				three.Channel = channel2
			case ruleset.ByDevice:
				three.Device = device2
			case ruleset.ByItem:
				three.Item = item2
			}
			check(one, &three, dims, dims, sameTo(l, one, &three))
		}
		fewer := *l
		if len(fewer.By) > 1 {
			fewer.By = fewer.By[1:]
			check(one, two, dims, dimensionsOf(&fewer), false)
		}
	})
}

// sameTo reports whether two hits are the same to a limit.
func sameTo(l *ruleset.Limit, a, b *Hit) bool {
	ip := func(x, y netip.Addr, ipv4, ipv6 int) bool {
		network := func(x netip.Addr) netip.Prefix {
			bits := ipv4
			if x = x.Unmap(); x.Is6() {
				bits = ipv6
			}
			p, _ := x.WithZone("").Prefix(bits)
			return p
		}
		return network(x) == network(y)
	}
	first := func(s string) string { return s[:min(len(s), 1024)] }
	visitor := ip(a.VisitorIP, b.VisitorIP, 32, 64) && first(a.VisitorText) == first(b.VisitorText)
	for _, d := range l.By {
		same := false
		switch d {
		case ruleset.ByIP:
			same = ip(a.IP, b.IP, l.IPv4Prefix, l.IPv6Prefix)
		case ruleset.ByUser:
			same = a.User == b.User && (a.User != "" || visitor)
		case ruleset.ByVisitor:
			same = visitor
		case ruleset.ByChannel:
			same = a.Channel == b.Channel
		case ruleset.ByDevice:
			same = a.Device == b.Device
		case ruleset.ByItem:
			same = a.Item == b.Item
		}
		if !same {
			return false
		}
	}
	return true
}

func TestMixIsOneToOne(t *testing.T) {
	t.Parallel()
	seen := make(map[uint64]bool)
	for i := range uint64(64) {
		for _, x := range []uint64{i, i << 32, 1 << i, ^i, ^(1 << i)} {
			seen[x] = true
		}
	}
	mixed := make(map[uint64]bool)
	for x := range seen {
		mixed[mix(x)] = true
	}
	if len(mixed) != len(seen) {
		t.Errorf("%d keys became %d", len(seen), len(mixed))
	}
}
