package ruleset

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// maxUserAgent is how much of a User-Agent tells visitors apart, in bytes. It
// bounds the work that one request can cause.
const maxUserAgent = 1024

// Visitor returns the pseudonymous identity of a client on one day: the first 8
// bytes of HMAC-SHA256, keyed with the day's salt, over the address and the
// first 1024 bytes of the User-Agent. Without the salt nobody can get from the
// identity back to the address, not even by trying all addresses, so salts are
// random, of 16 bytes or more, and forgotten.
//
// An IPv6 address is reduced to its /64 first, which is what one household has;
// an IPv4 address in IPv6 form is the IPv4 address.
func Visitor(salt []byte, ip netip.Addr, userAgent string) uint64 {
	ip = ip.Unmap()
	if ip.Is6() {
		// Prefix fails only for more bits than an address has.
		p, _ := ip.Prefix(64)
		ip = p.Addr()
	}
	if len(userAgent) > maxUserAgent {
		userAgent = userAgent[:maxUserAgent]
	}

	// HMAC by its definition (RFC 2104), in two one-shot sums over buffers on
	// the stack: crypto/hmac allocates its state for each message.
	var key [sha256.BlockSize]byte
	if len(salt) > len(key) {
		sum := sha256.Sum256(salt)
		copy(key[:], sum[:])
	} else {
		copy(key[:], salt)
	}
	var inner [sha256.BlockSize + 16 + 1 + maxUserAgent]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i, b := range key {
		inner[i] = b ^ 0x36
		outer[i] = b ^ 0x5c
	}
	addr := ip.As16()
	n := sha256.BlockSize
	n += copy(inner[n:], addr[:])
	inner[n] = 0
	n++
	n += copy(inner[n:], userAgent)

	sum := sha256.Sum256(inner[:n])
	copy(outer[sha256.BlockSize:], sum[:])
	sum = sha256.Sum256(outer[:])
	return binary.BigEndian.Uint64(sum[:8])
}
