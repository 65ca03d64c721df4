package hit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Version is the version of the format that Encode writes.
const Version = 1

// Limits of a batch, of which MaxBatchBytes is one of a whole message too: that
// stays under the 1 MiB that a NATS server accepts by default.
const (
	MaxHits       = 256
	MaxBatchBytes = 512 << 10
	MaxShards     = 1024
)

// Headers of the message that carries batches. Its body is a CBOR sequence (RFC
// 8742) of one or more batches that follow each other: a batch is cut when its
// hits are written down, and never changes; how many of them share a message is
// decided each time they are sent.
const (
	// HeaderSeq repeats Batch.Seq of the first batch, so that a message whose body
	// cannot be read can still be told from its neighbours.
	HeaderSeq = "Hotboard-Seq"
	// HeaderLast is the same of the last batch. It is absent where that is the
	// first.
	HeaderLast = "Hotboard-Last"
	// HeaderLow is the lowest sequence of this edge and shard that the edge can
	// still send when it publishes. It is not part of the body, because a batch
	// must stay the same bytes however often it is sent.
	HeaderLow = "Hotboard-Low"
)

// Batch is hits of one shard from one edge.
type Batch struct {
	Version uint8 `cbor:"1,keyasint"`
	// Edge is the identity of a spool directory, not of a host: a directory that
	// is lost takes its identity with it.
	Edge  string `cbor:"2,keyasint"`
	Shard int    `cbor:"3,keyasint"`
	// Seq numbers the batches of an edge and shard from 1 without a gap.
	Seq  uint64 `cbor:"4,keyasint"`
	Hits []Hit  `cbor:"5,keyasint"`
}

// ErrVersion is returned by Decode for a batch that a newer edge wrote.
var ErrVersion = errors.New("batch of a newer version")

var (
	encMode = must(cbor.CoreDetEncOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		UTF8:             cbor.UTF8RejectInvalid,
		MaxArrayElements: MaxHits,
		MaxMapPairs:      64,
		MaxNestedLevels:  5,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options are constants: a mistake shows in the first test
	}
	return v
}

// Encode returns the bytes of b in the current version. It fails on what Decode
// would refuse.
func Encode(b *Batch) ([]byte, error) {
	b.Version = Version
	if err := b.valid(); err != nil {
		return nil, fmt.Errorf("encoding a batch: %w", err)
	}
	data, err := encMode.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encoding a batch: %w", err)
	}
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("encoding a batch: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	return data, nil
}

// Decode reads what Encode wrote. It bounds what it allocates by the size of
// data. It does not judge the single hits: one bad hit must not take the others
// with it (see [Hit.Valid]).
func Decode(data []byte) (*Batch, error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a batch: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	var b Batch
	if err := decMode.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("decoding a batch: %w", err)
	}
	if b.Version != Version {
		return nil, fmt.Errorf("decoding a batch: %w: %d, this build reads %d", ErrVersion, b.Version, Version)
	}
	if err := b.valid(); err != nil {
		return nil, fmt.Errorf("decoding a batch: %w", err)
	}
	return &b, nil
}

// DecodeMessage reads the body of a message: batches of one edge and shard that
// follow each other, from the sequence first on. One that cannot be read must not
// take the others with it: it is nil, and the error says why. There are none when
// the body is no sequence of CBOR at all.
func DecodeMessage(data []byte, edge string, shard int, first uint64) (batches []*Batch, err error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a message: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	for begin := true; begin || len(data) > 0; begin = false {
		var raw cbor.RawMessage
		rest, bad := decMode.UnmarshalFirst(data, &raw)
		if bad != nil {
			return nil, fmt.Errorf("decoding a message: %w", bad)
		}
		b, bad := Decode(raw)
		if seq := first + uint64(len(batches)); bad == nil && (b.Edge != edge || b.Shard != shard || b.Seq != seq) {
			b, bad = nil, fmt.Errorf("decoding a message: batch %d of edge %s and shard %d is in the place of batch %d of edge %s and shard %d",
				b.Seq, b.Edge, b.Shard, seq, edge, shard)
		}
		batches, err = append(batches, b), errors.Join(err, bad)
		data = rest
	}
	return batches, err
}

func (b *Batch) valid() error {
	switch {
	case !ValidEdge(b.Edge):
		return fmt.Errorf("edge %.80q is not 1 to 64 of a-z, 0-9 and -", b.Edge)
	case b.Shard < 0 || b.Shard >= MaxShards:
		return fmt.Errorf("shard %d is not in 0 to %d", b.Shard, MaxShards-1)
	case b.Seq == 0:
		return errors.New("sequences start at 1")
	case len(b.Hits) > MaxHits:
		return fmt.Errorf("%d hits are more than %d", len(b.Hits), MaxHits)
	}
	return nil
}

// ValidEdge reports whether s can be an edge's id, which is a token of a subject.
func ValidEdge(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Subject returns the subject that batches of an edge and shard are published
// on: hotboard.hits.<shard>.<edge>.
func Subject(shard int, edge string) string {
	return SubjectHits + "." + strconv.Itoa(shard) + "." + edge
}

// ShardSubjects matches the batches of one shard from every edge.
func ShardSubjects(shard int) string {
	return SubjectHits + "." + strconv.Itoa(shard) + ".*"
}

// ParseSubject is the inverse of [Subject].
func ParseSubject(s string) (shard int, edge string, err error) {
	rest, ok := strings.CutPrefix(s, SubjectHits+".")
	num, edge, ok2 := strings.Cut(rest, ".")
	shard, err = strconv.Atoi(num)
	if !ok || !ok2 || err != nil || shard < 0 || shard >= MaxShards || !ValidEdge(edge) {
		return 0, "", fmt.Errorf("subject %.120q is not %s.<shard>.<edge>", s, SubjectHits)
	}
	return shard, edge, nil
}
