package visitors

import (
	"crypto/sha256"
	"net/netip"

	"github.com/hotboard/hotboard/ruleset"
)

// Identity distinguishes a visitor from others: the name that the site gives the
// visitor, or else the client's address with the User-Agent. It stays in the
// memory of this process, for the time of a request: only its keyed hash goes
// further.
type Identity struct {
	IP   netip.Addr // the zero Addr where the site names visitors itself
	Text string
}

// Texts of different kinds begin differently. No header's value has a zero byte
// in it, so that no client can pass one kind off as another.
const (
	namedKind       = "named\x00"
	fingerprintKind = "fingerprint\x00"
	userKind        = "user\x00"
)

// maxUserBytes is from how many bytes on a user is hashed before it becomes part
// of an identity.
const maxUserBytes = 256

// Client returns the identity of a client whom the site does not name.
func Client(ip netip.Addr, userAgent string) Identity {
	return Identity{IP: ip, Text: userAgent}
}

// Named returns the identity of a visitor whom the site names.
func Named(name string) Identity { return Identity{Text: namedKind + name} }

// User returns the identity of a user, which is the same wherever the user comes
// from.
func User(user string) Identity {
	if len(user) > maxUserBytes { // a token, say, whose end may distinguish users
		sum := sha256.Sum256([]byte(user))
		user = string(sum[:])
	}
	return Identity{Text: userKind + user}
}

// WithFingerprint returns the identity of a client whose script took a
// fingerprint. It replaces the User-Agent, not the address: a script can send
// anything. A visitor whom the site names needs none.
func (i Identity) WithFingerprint(fingerprint string) Identity {
	if fingerprint == "" || !i.IP.IsValid() {
		return i
	}
	return Identity{IP: i.IP, Text: fingerprintKind + fingerprint}
}

// Pseudonym returns the keyed hash of i, by the secret of a day for visitors, and
// by the lasting one for users.
func (i Identity) Pseudonym(secret []byte) uint64 { return ruleset.Visitor(secret, i.IP, i.Text) }
