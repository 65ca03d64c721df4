// Package visitors identifies visitors and users, and hashes what identifies them
// into pseudonyms.
package visitors

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// slots is how many pseudonyms are remembered. It is a power of two.
const slots = 8192

// Pseudonyms remembers those of recent visitors: making one out of an address
// costs more than anything else that a view does. It is a table in which one
// visitor takes the place of another, so that it is bounded and needs no lock.
//
// A Pseudonyms may be used by several goroutines at once.
type Pseudonyms struct {
	seed  maphash.Seed
	slots [slots]slot
}

// slot has the key xored with the pseudonym in one word and the pseudonym in
// the other. When two goroutines write at once and the words are of two visitors,
// no key fits them.
type slot struct{ check, visitor atomic.Uint64 }

// New returns Pseudonyms that remember none.
func New() *Pseudonyms { return &Pseudonyms{seed: maphash.MakeSeed()} }

// Of returns the pseudonym of i by the secret of a day, as [Identity.Pseudonym]
// does.
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
