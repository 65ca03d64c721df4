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
	// MaxBatches is how many batches a message has at most.
	MaxBatches = 8192
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
	// Edge is the identity of one process of an edge, not of a host or of a directory.
	Edge  string `cbor:"2,keyasint"`
	Shard int    `cbor:"3,keyasint"`
	// Seq numbers the batches of an edge and shard from 1 without a gap.
	Seq  uint64 `cbor:"4,keyasint"`
	Hits []Hit  `cbor:"5,keyasint"`
}

// ErrVersion is returned by Decode for a batch that a newer edge wrote.
var ErrVersion = errors.New("batch of a newer version")

// maxErrors is how many of the batches of a message that cannot be read an error
// describes. The others are counted: a body of zeros has as many as bytes.
const maxErrors = 4

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
	// frameMode finds where a batch ends and which version it has. It allows what
	// newer versions may contain.
	frameMode = must(cbor.DecOptions{}.DecMode())
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

// Decode reads what Encode wrote. It bounds what it allocates, and the text of its
// errors, by the size of data. It does not judge the single hits: one bad hit must
// not take the others with it (see [Hit.Valid]). A batch of a newer version is
// returned with [ErrVersion] and has nothing but that version.
func Decode(data []byte) (*Batch, error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a batch: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	var b Batch
	if err := decMode.Unmarshal(data, &b); err != nil || b.Version != Version {
		if v := versionOf(data); v > Version {
			return &Batch{Version: v}, fmt.Errorf("decoding a batch: %w: %d, this build reads %d", ErrVersion, v, Version)
		}
		if err == nil {
			err = fmt.Errorf("there is no version %d", b.Version)
		}
		return nil, unreadable("batch", err)
	}
	if err := b.valid(); err != nil {
		return nil, fmt.Errorf("decoding a batch: %w", err)
	}
	return &b, nil
}

// versionOf returns the version of a batch that may be of any, 0 if it has none.
func versionOf(data []byte) uint8 {
	var b struct {
		Version uint8 `cbor:"1,keyasint"`
	}
	if frameMode.Unmarshal(data, &b) != nil {
		return 0
	}
	return b.Version
}

// unreadable wraps an error of package cbor, whose text may repeat what it found.
func unreadable(what string, err error) error {
	return fmt.Errorf("decoding a %s: %.200s", what, err)
}

// DecodeMessage reads the body of a message with n batches of one edge and shard
// that follow each other, from the sequence first on. One that cannot be read must
// not take the others with it: it is nil, and the error says why. One of a newer
// version is no error: it has its place and its version, above [Version], and no
// hits. There are no batches at all when the body is not a sequence of n items of
// CBOR, or n is not in 1 to [MaxBatches].
func DecodeMessage(data []byte, edge string, shard int, first, n uint64) ([]*Batch, error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a message: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	if n < 1 || n > MaxBatches {
		return nil, fmt.Errorf("decoding a message: %d batches are not 1 to %d", n, MaxBatches)
	}
	batches := make([]*Batch, n)
	var errs []error
	failed := 0
	for i := range batches {
		var raw cbor.RawMessage
		rest, err := frameMode.UnmarshalFirst(data, &raw)
		if err != nil {
			return nil, fmt.Errorf("%w, in batch %d of %d", unreadable("message", err), i+1, n)
		}
		data = rest
		b, err := decodeAt(raw, edge, shard, first+uint64(i))
		if err != nil {
			if failed++; failed <= maxErrors {
				errs = append(errs, err)
			}
			continue
		}
		batches[i] = b
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("decoding a message: %d bytes are left behind its %d batches", len(data), n)
	}
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("… and %d more", failed-maxErrors))
	}
	return batches, errors.Join(errs...)
}

// decodeAt reads the batch of a message that belongs to an edge, shard and sequence.
func decodeAt(data []byte, edge string, shard int, seq uint64) (*Batch, error) {
	b, err := Decode(data)
	switch {
	case errors.Is(err, ErrVersion):
		return &Batch{Version: b.Version, Edge: edge, Shard: shard, Seq: seq}, nil
	case err != nil:
		return nil, err
	case b.Edge != edge || b.Shard != shard || b.Seq != seq:
		return nil, fmt.Errorf("decoding a message: batch %d of edge %s and shard %d is in the place of batch %d of edge %s and shard %d",
			b.Seq, b.Edge, b.Shard, seq, edge, shard)
	}
	return b, nil
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
