package limit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// dimensions are the values that a limit counts by.
type dimensions struct {
	by         dimensionSet
	ipv4, ipv6 int // significant bits of an address
}

type dimensionSet uint8

// The bits of a dimensionSet. They are part of the keys that edges share.
const (
	byIP dimensionSet = 1 << iota
	byUser
	byVisitor
	byChannel
	byDevice
	byItem
)

const (
	visitorIPv6  = 64   // bits of an IPv6 address that distinguish visitors: one household
	visitorBytes = 1024 // significant bytes of VisitorText, as in ruleset.Visitor
)

func dimensionsOf(l *ruleset.Limit) dimensions {
	var d dimensions
	for i, dim := range ruleset.Dimensions { // in the order of the bits
		if slices.Contains(l.By, dim) {
			d.by |= 1 << i
		}
	}
	if d.by&byIP != 0 {
		if d.ipv4 = l.IPv4Prefix; d.ipv4 == 0 {
			d.ipv4 = 32
		}
		if d.ipv6 = l.IPv6Prefix; d.ipv6 == 0 {
			d.ipv6 = 64
		}
	}
	return d
}

// append appends the values of h in these dimensions. Hits with different values
// get different bytes, equal values equal bytes, and different dimensions never
// the same bytes.
func (d dimensions) append(dst []byte, h *Hit) []byte {
	dst = append(dst, byte(d.by))
	if d.by&byIP != 0 {
		dst = append(dst, byte(d.ipv4), byte(d.ipv6))
		dst = appendIP(dst, h.IP, d.ipv4, d.ipv6)
	}
	if d.by&byUser != 0 {
		if h.User != "" {
			dst = append(dst, 1)
			dst = appendText(dst, h.User)
		} else {
			dst = append(dst, 0)
			dst = appendVisitor(dst, h)
		}
	}
	if d.by&byVisitor != 0 {
		dst = appendVisitor(dst, h)
	}
	if d.by&byChannel != 0 {
		dst = appendText(dst, h.Channel)
	}
	if d.by&byDevice != 0 {
		dst = appendText(dst, h.Device)
	}
	if d.by&byItem != 0 {
		dst = appendText(dst, h.Item)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendVisitor(dst []byte, h *Hit) []byte {
	dst = appendIP(dst, h.VisitorIP, 32, visitorIPv6)
	return appendText(dst, h.VisitorText[:min(len(h.VisitorText), visitorBytes)])
}

// appendIP appends the network of an address. It treats an IPv4 address in IPv6
// form as IPv4.
func appendIP(dst []byte, ip netip.Addr, ipv4, ipv6 int) []byte {
	ip = ip.Unmap()
	switch {
	case ip.Is4():
		a := ip.As4()
		n := binary.BigEndian.Uint32(a[:]) &^ (1<<(32-ipv4) - 1)
		return binary.BigEndian.AppendUint32(append(dst, 4), n)
	case ip.Is6():
		a := ip.As16()
		high, low := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
		high &^= math.MaxUint64 >> min(ipv6, 64)
		low &^= math.MaxUint64 >> max(ipv6-64, 0)
		dst = binary.BigEndian.AppendUint64(append(dst, 6), high)
		return binary.BigEndian.AppendUint64(dst, low)
	}
	return append(dst, 0)
}

// hash returns the key of the appended bytes. It is valid in this process only.
func (l *Limiter) hash(encoded []byte) uint64 { return maphash.Bytes(l.seed, encoded) }

// mix spreads a key over all 64 bits. It is a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// AppendQuotas appends the quotas of a vote that the aggregator enforces: one for
// each calendar window of each limit that applies. secret returns the secret of
// the window's term in the list's zone. If it is missing, AppendQuotas returns dst unchanged, and false.
//
// A key also depends on list, limit and window, so that the store does not reveal
// which keys of two of them belong to the same person.
func (r *Limits) AppendQuotas(dst []hit.Quota, h *Hit, now time.Time, secret func(term calendar.Period, start time.Time) []byte) ([]hit.Quota, bool) {
	list := r.list(h)
	if list == nil {
		return dst, true
	}
	s := r.limiter.get()
	defer r.limiter.put(s)
	before := len(dst)
	for i := range list.limits {
		bl := &list.limits[i]
		if !bl.limit.Applies(h.List.Name, h.Channel, h.Device) {
			continue
		}
		for j := range bl.windows {
			w := &bl.windows[j]
			if w.isRate {
				continue
			}
			term := w.window.Period().Term()
			key := secret(term, term.Start(now, list.zone))
			if len(key) == 0 {
				return dst[:before], false
			}
			s.key = appendText(s.key[:0], h.List.Name)
			s.key = appendText(s.key, bl.limit.Name)
			s.key = appendText(s.key, w.window.ID())
			s.key = bl.dims.append(s.key, h)
			mac := hmac.New(sha256.New, key)
			mac.Write(s.key)
			var sum [sha256.Size]byte
			dst = append(dst, hit.Quota{
				Limit: bl.limit.Name, Window: w.window.ID(),
				Key: binary.BigEndian.Uint64(mac.Sum(sum[:0])),
			})
		}
	}
	return dst, true
}
