package ruleset

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// maxUserAgent is the number of bytes of a User-Agent that distinguish visitors.
// It bounds the work that one request can cause.
const maxUserAgent = 1024

// Visitor returns the pseudonym of a client on one day: the first 8 bytes of
// HMAC-SHA256, keyed with the day's secret, over the address and the first 1024
// bytes of the User-Agent. Without the secret nobody can recover the address from
// the pseudonym, not even by trying all addresses. So secrets must be random, at
// least 16 bytes long, and forgotten after use.
//
// Visitor reduces an IPv6 address to its /64 first, the usual prefix of one
// household. An IPv4 address in IPv6 form is the IPv4 address.
func Visitor(secret []byte, ip netip.Addr, userAgent string) uint64 {
	ip = ip.Unmap()
	if ip.Is6() {
		// Prefix fails only for more bits than an address has.
		p, _ := ip.Prefix(64)
		ip = p.Addr()
	}
	if len(userAgent) > maxUserAgent {
		userAgent = userAgent[:maxUserAgent]
	}

	// HMAC by its definition (RFC 2104), in two one-shot sums over buffers on the
	// stack: crypto/hmac allocates its state for each message.
	var key [sha256.BlockSize]byte
	if len(secret) > len(key) {
		sum := sha256.Sum256(secret)
		copy(key[:], sum[:])
	} else {
		copy(key[:], secret)
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
