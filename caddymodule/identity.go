package caddymodule

import (
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/ruleset"
)

// identity is what tells a visitor from others: the name that the site gives the
// visitor, or else the client's address with the User-Agent. It stays in the
// memory of this process, for the time of a request: only its keyed hash goes
// further.
type identity struct {
	ip   netip.Addr // the zero Addr where the site names visitors itself
	text string
}

// Texts of different kinds begin differently. No header's value has a zero byte
// in it, so that no client can pass one kind off as another.
const (
	namedKind       = "named\x00"
	fingerprintKind = "fingerprint\x00"
)

// withFingerprint returns the identity of a client whose script took a
// fingerprint. That replaces the User-Agent, not the address: a script can send
// anything. A visitor whom the site names needs none.
func (i identity) withFingerprint(fingerprint string) identity {
	if fingerprint == "" || !i.ip.IsValid() {
		return i
	}
	return identity{ip: i.ip, text: fingerprintKind + fingerprint}
}

// visitor returns the pseudonym of i on the day of the salt.
func (i identity) visitor(salt []byte) uint64 { return ruleset.Visitor(salt, i.ip, i.text) }

// clientIP returns the address that Caddy found for the client, which heeds
// trusted_proxies and client_ip_headers; the zero Addr when there is none, as on
// a Unix socket.
func clientIP(r *http.Request) netip.Addr {
	s, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	ip, _ := netip.ParseAddr(s)
	return ip
}
