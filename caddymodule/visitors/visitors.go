// Package visitors identifies visitors and users, and hashes what identifies them
// into pseudonyms.
package visitors

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// slots is the number of cached pseudonyms. It must be a power of two.
const slots = 8192

// Pseudonyms caches the pseudonyms of recent visitors, because computing one is
// the most expensive step of a view. In its fixed table one visitor may replace
// another, so it is bounded and needs no lock.
//
// Pseudonyms is safe for concurrent use.
type Pseudonyms struct {
	seed  maphash.Seed
	slots [slots]slot
}

// slot has the key XOR the pseudonym in one word and the pseudonym in the other.
// If concurrent writes leave words of two visitors, the slot matches no key.
type slot struct{ check, visitor atomic.Uint64 }

// New returns an empty cache.
func New() *Pseudonyms { return &Pseudonyms{seed: maphash.MakeSeed()} }

// Of returns the pseudonym of i by the secret of a day, like
// [Identity.Pseudonym].
func (p *Pseudonyms) Of(i Identity, secret []byte) uint64 {
	var buf [16 + 8]byte
	ip := i.IP.As16()
	copy(buf[:], ip[:])
	binary.LittleEndian.PutUint64(buf[16:], maphash.Bytes(p.seed, secret))
	key := bits.RotateLeft64(maphash.String(p.seed, i.Text), 32) ^ maphash.Bytes(p.seed, buf[:])
	slot := &p.slots[key%slots]
	if known := slot.visitor.Load(); slot.check.Load()^known == key {
		return known
	}
	visitor := i.Pseudonym(secret)
	slot.visitor.Store(visitor)
	slot.check.Store(key ^ visitor)
	return visitor
}
