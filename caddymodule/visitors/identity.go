package visitors

import (
	"crypto/sha256"
	"net/netip"

	"github.com/hotboard/hotboard/ruleset"
)

// Identity distinguishes a visitor from others: the visitor's name from the site,
// or else the client's address with the User-Agent. It stays in this process's
// memory for the time of a request; only its keyed hash leaves the process.
type Identity struct {
	IP   netip.Addr // the zero Addr if the site names visitors itself
	Text string
}

// Texts of different kinds begin differently. Header values cannot contain a zero
// byte, so a client cannot forge another kind.
const (
	namedKind       = "named\x00"
	fingerprintKind = "fingerprint\x00"
	userKind        = "user\x00"
)

// maxUserBytes is the length above which a user is hashed before it becomes part
// of an identity.
const maxUserBytes = 256

// Client returns the identity of a client without a name from the site.
func Client(ip netip.Addr, userAgent string) Identity {
	return Identity{IP: ip, Text: userAgent}
}

// Named returns the identity of a visitor whom the site names.
func Named(name string) Identity { return Identity{Text: namedKind + name} }

// User returns the identity of a user, which does not depend on the client.
func User(user string) Identity {
	if len(user) > maxUserBytes { // such as a token, whose end may distinguish users
		sum := sha256.Sum256([]byte(user))
		user = string(sum[:])
	}
	return Identity{Text: userKind + user}
}

// WithFingerprint returns the identity of a client whose script took a
// fingerprint. The fingerprint replaces the User-Agent but not the address,
// because a script can send anything. It does not change the identity of a
// visitor whom the site names.
func (i Identity) WithFingerprint(fingerprint string) Identity {
	if fingerprint == "" || !i.IP.IsValid() {
		return i
	}
	return Identity{IP: i.IP, Text: fingerprintKind + fingerprint}
}

// Pseudonym returns the keyed hash of i. The secret of a day hashes visitors, and
// the lasting secret hashes users.
func (i Identity) Pseudonym(secret []byte) uint64 { return ruleset.Visitor(secret, i.IP, i.Text) }
