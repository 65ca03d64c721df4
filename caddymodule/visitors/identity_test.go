package visitors

import (
	"net/netip"
	"strings"
	"testing"
)

// Different identities have different pseudonyms.
func TestIdentities(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	long := strings.Repeat("x", maxUserBytes)
	seen := make(map[uint64]string)
	for name, i := range map[string]Identity{
		"a client":                              Client(one, "x"),
		"another address":                       Client(two, "x"),
		"another User-Agent":                    Client(one, "y"),
		"a fingerprint":                         Client(one, "x").WithFingerprint("x"),
		"a fingerprint elsewhere":               Client(two, "x").WithFingerprint("x"),
		"a visitor whom the site names":         Named("x"),
		"a user":                                User("x"),
		"a user of as many bytes as fit":        User(long),
		"a user of more bytes":                  User(long + "1"),
		"a user who differs in the end":         User(long + "2"),
		"a user who looks like a named visitor": User("named\x00x"),
	} {
		p := i.Pseudonym([]byte("secret"))
		if other, ok := seen[p]; ok {
			t.Errorf("%s and %s have one pseudonym", name, other)
		}
		seen[p] = name
	}
	if Client(one, "x").WithFingerprint("") != Client(one, "x") {
		t.Error("no fingerprint makes another identity")
	}
	if Client(one, "y").WithFingerprint("f") != Client(one, "x").WithFingerprint("f") {
		t.Error("a fingerprint does not replace the User-Agent")
	}
	if Named("x").WithFingerprint("f") != Named("x") {
		t.Error("a fingerprint makes a visitor whom the site names another one")
	}
}
