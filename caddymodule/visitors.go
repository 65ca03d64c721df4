package caddymodule

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// visitorSlots is how many visitors are remembered. It is a power of two.
const visitorSlots = 8192

// visitors remembers the pseudonyms of those who were here a moment ago: making
// one out of an address costs more than anything else that a view does. It is a
// table in which one visitor takes the place of another, so that it is bounded and
// needs no lock.
type visitors struct {
	seed  maphash.Seed
	slots [visitorSlots]visitorSlot
}

// visitorSlot has the key xored with the pseudonym in one word and the pseudonym in
// the other. When two goroutines write at once and the words are of two visitors,
// no key fits them.
type visitorSlot struct{ check, visitor atomic.Uint64 }

func newVisitors() *visitors { return &visitors{seed: maphash.MakeSeed()} }

// of returns the pseudonym of i on the day of the salt.
func (v *visitors) of(i identity, salt []byte) uint64 {
	var buf [16 + 8]byte
	ip := i.ip.As16()
	copy(buf[:], ip[:])
	binary.LittleEndian.PutUint64(buf[16:], maphash.Bytes(v.seed, salt))
	key := bits.RotateLeft64(maphash.String(v.seed, i.text), 32) ^ maphash.Bytes(v.seed, buf[:])
	slot := &v.slots[key%visitorSlots]
	if known := slot.visitor.Load(); slot.check.Load()^known == key {
		return known
	}
	visitor := i.visitor(salt)
	slot.visitor.Store(visitor)
	slot.check.Store(key ^ visitor)
	return visitor
}
