// Package hit defines what edges send to aggregators: hits, the batches that hold
// them, the subjects that carry them, and the shards that count them.
//
// The package imports nothing else of this module, so that everything may import
// it. The format is versioned; testdata holds golden files that every later version
// must still read.
package hit

import (
	"errors"
	"fmt"
	"hash/fnv"
	"unicode"
	"unicode/utf8"
)

// Kind is what the visitor did.
type Kind uint8

// The kinds of hit. The numbers are part of the wire format.
const (
	View Kind = 1
	Vote Kind = 2
)

// Source is who named an item's publish time. A higher Source overrides a lower
// one.
type Source uint8

// The sources of a publish time. The numbers are part of the wire format.
const (
	FromFirstHit Source = 0 // nobody named one: the time of the item's first hit is used
	FromClient   Source = 1 // publishedAt in a beacon; never later than the hit
	FromOrigin   Source = 2 // a response header of the site
)

// MaxIDBytes is the most bytes of UTF-8 in the id of a list or item.
const MaxIDBytes = 256

// Hit is one accepted view of an item, or one vote for it.
type Hit struct {
	Kind Kind   `cbor:"1,keyasint"`
	List string `cbor:"2,keyasint"`
	Item string `cbor:"3,keyasint"`
	// Visitor is the pseudonym of the client: a keyed hash, never an address or a
	// User-Agent.
	Visitor uint64 `cbor:"4,keyasint"`
	// Time is when the edge saw the hit, in milliseconds since the Unix epoch, UTC.
	Time int64 `cbor:"5,keyasint"`
	// Published is the item's publish time if this hit carries one, in milliseconds
	// since the Unix epoch, UTC; else 0.
	Published     int64  `cbor:"6,keyasint,omitempty"`
	PublishedFrom Source `cbor:"7,keyasint,omitempty"`
	// Channel is the origin of the request. A limit may allow a channel more. At most
	// [MaxChannelBytes] bytes.
	Channel string `cbor:"8,keyasint,omitempty"`
	// Quotas are the counts that this vote uses up. Views have none: their shard
	// depends on the item, so no shard sees all views of one key.
	Quotas []Quota `cbor:"9,keyasint,omitempty"`
	// Confirm, when it is not 0, is a random number by which the edge finds the
	// verdict on this hit among [Outcomes].
	Confirm uint64 `cbor:"10,keyasint,omitempty"`

	// Rules names the document of rules under which the edge accepted the hit. On the
	// wire it is a field of the batch: see [Batch.Rules].
	Rules RulesID `cbor:"-"`
}

// Quota is one count in a calendar window of a limit. The aggregator sees all votes
// of a list and enforces the limit's max.
type Quota struct {
	_ struct{} `cbor:",toarray"`
	// Limit is the name of the limit, Window the id of its window.
	Limit  string
	Window string
	// Key is a keyed hash of the values that the limit counts by, under a secret that
	// all edges share and delete some time after the window.
	Key uint64
}

// Bounds of a hit's fields, beside [MaxIDBytes].
const (
	MaxChannelBytes = 64
	MaxQuotas       = 16
)

// Errors that ValidID returns.
var (
	ErrIDLength  = fmt.Errorf("an id has 1 to %d bytes", MaxIDBytes)
	ErrIDText    = errors.New("an id is valid UTF-8")
	ErrIDControl = errors.New("an id has no control characters")
)

// ValidID reports why s cannot be the id of a list or an item, or nil.
func ValidID(s string) error {
	if len(s) == 0 || len(s) > MaxIDBytes {
		return ErrIDLength
	}
	if !utf8.ValidString(s) {
		return ErrIDText
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return ErrIDControl
		}
	}
	return nil
}

// Valid reports why an aggregator could not count h, or nil.
func (h *Hit) Valid() error {
	if err := ValidID(h.List); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := ValidID(h.Item); err != nil {
		return fmt.Errorf("item: %w", err)
	}
	return h.ValidFields()
}

// ValidFields is [Hit.Valid] for a hit whose list and item are already valid.
func (h *Hit) ValidFields() error {
	switch {
	case h.Kind != View && h.Kind != Vote:
		return fmt.Errorf("unknown kind of hit %d", h.Kind)
	case len(h.Channel) > MaxChannelBytes || len(h.Quotas) > MaxQuotas:
		return fmt.Errorf("a channel of %d bytes, %d quotas: more than %d and %d", len(h.Channel), len(h.Quotas), MaxChannelBytes, MaxQuotas)
	case h.Time <= 0:
		return fmt.Errorf("time %d is not after 1970", h.Time)
	case h.Published < 0 || h.PublishedFrom > FromOrigin:
		return fmt.Errorf("published %d from source %d is unknown to version %d", h.Published, h.PublishedFrom, Version)
	}
	return nil
}

// Shard returns which of n shards counts a hit. For views it is FNV-1a of the list,
// a zero byte and the item, modulo n. For votes it is FNV-1a of the list alone,
// because quotas need every vote of a list in one place. Edges and stores must
// agree on it, so it never changes for an existing log.
func Shard(kind Kind, list, item string, n int) int {
	if n <= 1 {
		return 0
	}
	f := fnv.New64a()
	f.Write([]byte(list))
	if kind != Vote {
		f.Write([]byte{0})
		f.Write([]byte(item))
	}
	return int(f.Sum64() % uint64(n))
}
