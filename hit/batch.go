package hit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Version is the version of the format that Encode writes. Decode also reads
// version 1, whose batches name no rules.
const Version = 2

// Limits of a batch. MaxBatchBytes also limits a whole message, so that it stays
// under the 1 MiB that a NATS server accepts by default.
const (
	MaxHits       = 256
	MaxBatchBytes = 512 << 10
	MaxShards     = 1024
	// MaxBatches is the most batches that one message carries.
	MaxBatches = 8192
)

// Headers of the message that carries batches. Its body is a CBOR sequence (RFC
// 8742) of one or more consecutive batches. An edge cuts a batch when it writes the
// hits down, and never changes it; each time it sends, it decides how many batches
// share a message.
const (
	// HeaderSeq repeats Batch.Seq of the first batch, so that an unreadable message
	// still has its place among the others.
	HeaderSeq = "Hotboard-Seq"
	// HeaderLast is Batch.Seq of the last batch. A message with one batch omits it.
	HeaderLast = "Hotboard-Last"
	// HeaderLow is the lowest sequence of this edge and shard that the edge can still
	// send when it publishes. It is not in the body, because a batch must keep the
	// same bytes however often the edge sends it.
	HeaderLow = "Hotboard-Low"
	// HeaderRevision and HeaderRules put a revision of the rules in force: its number
	// in decimal, and the name of its document. Such a message has no batches, and
	// its sender is [RulesSender].
	HeaderRevision = "Hotboard-Revision"
	HeaderRules    = "Hotboard-Rules"
)

// Batch holds hits of one shard from one edge.
type Batch struct {
	Version uint8 `cbor:"1,keyasint"`
	// Edge is the identity of one process of an edge, not of a host or of a directory.
	Edge  string `cbor:"2,keyasint"`
	Shard int    `cbor:"3,keyasint"`
	// Seq numbers the batches of an edge and shard from 1 without a gap.
	Seq  uint64 `cbor:"4,keyasint"`
	Hits []Hit  `cbor:"5,keyasint"`
	// Rules names the document of rules under which the edge accepted the hits. It is
	// zero in batches of version 1, and may be zero in a batch without hits, which
	// takes the place of one that the edge has lost.
	Rules RulesID `cbor:"6,keyasint,omitzero"`
}

// ErrVersion is the error of Decode for a batch that a newer edge wrote.
var ErrVersion = errors.New("batch of a newer version")

// maxErrors is how many unreadable batches of a message an error describes. It
// counts the others: a body of zeros has as many as it has bytes.
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
	// frameMode finds the end and the version of a batch. It accepts the fields of
	// newer versions.
	frameMode = must(cbor.DecOptions{}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options are constants: a mistake shows in the first test
	}
	return v
}

// Encode returns the bytes of b in the current version. It fails for a batch that
// Decode would refuse, for example one whose hits have no rules.
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

// Decode is the inverse of Encode. The size of data bounds its allocations and the
// text of its errors. It does not check single hits: one bad hit must not discard
// the others (see [Hit.Valid]). For a batch of a newer version it returns
// [ErrVersion] and a batch that has only the version.
func Decode(data []byte) (*Batch, error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a batch: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	var b Batch
	if err := decMode.Unmarshal(data, &b); err != nil || b.Version < 1 || b.Version > Version {
		if v := versionOf(data); v > Version {
			return &Batch{Version: v}, fmt.Errorf("decoding a batch: %w: %d, this build reads %d", ErrVersion, v, Version)
		}
		if err == nil {
			err = fmt.Errorf("unknown version %d", b.Version)
		}
		return nil, unreadable("batch", err)
	}
	if err := b.valid(); err != nil {
		return nil, fmt.Errorf("decoding a batch: %w", err)
	}
	return &b, nil
}

// RulesOf returns [Batch.Rules] of a batch that Encode wrote, without decoding its
// hits: they are most of it.
func RulesOf(data []byte) (id RulesID) {
	// Encode sorts the fields, so that Rules is the sixth and last one.
	const head, tail = "\xa6\x01", "\x06\x50"
	at := len(data) - len(id)
	if at >= len(head)+len(tail) && string(data[:len(head)]) == head && string(data[at-len(tail):at]) == tail {
		copy(id[:], data[at:])
	}
	return id
}

// versionOf returns the version of a batch of any version, or 0 if it has none.
func versionOf(data []byte) uint8 {
	var b struct {
		Version uint8 `cbor:"1,keyasint"`
	}
	if frameMode.Unmarshal(data, &b) != nil {
		return 0
	}
	return b.Version
}

// unreadable wraps an error of package cbor. It cuts the text, which may repeat the
// data.
func unreadable(what string, err error) error {
	return fmt.Errorf("decoding a %s: %.200s", what, err)
}

// DecodeMessage reads the body of a message with n consecutive batches of one edge
// and shard, starting at the sequence first. An unreadable batch must not discard
// the others: it becomes nil, and the error describes it. A batch of a newer
// version is no error: it keeps its place and its version, above [Version], and has
// no hits. DecodeMessage returns no batches when the body is not a sequence of n
// CBOR items, or n is not in 1 to [MaxBatches].
func DecodeMessage(data []byte, edge string, shard int, first, n uint64) ([]*Batch, error) {
	if len(data) > MaxBatchBytes {
		return nil, fmt.Errorf("decoding a message: %d bytes are more than %d", len(data), MaxBatchBytes)
	}
	if n < 1 || n > MaxBatches {
		return nil, fmt.Errorf("decoding a message: %d batches, want 1 to %d", n, MaxBatches)
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
		return nil, fmt.Errorf("decoding a message: %d bytes follow its %d batches", len(data), n)
	}
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("… and %d more", failed-maxErrors))
	}
	return batches, errors.Join(errs...)
}

// decodeAt reads one batch of a message and checks its edge, shard and sequence.
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
		return fmt.Errorf("edge %.80q must be 1 to 64 characters of a-z, 0-9 and -", b.Edge)
	case b.Shard < 0 || b.Shard >= MaxShards:
		return fmt.Errorf("shard %d is not in 0 to %d", b.Shard, MaxShards-1)
	case b.Seq == 0:
		return errors.New("sequences start at 1")
	case len(b.Hits) > MaxHits:
		return fmt.Errorf("%d hits are more than %d", len(b.Hits), MaxHits)
	case b.Version == 1 && !b.Rules.IsZero():
		return errors.New("a batch of version 1 names rules")
	case b.Version > 1 && b.Rules.IsZero() && len(b.Hits) > 0:
		return errors.New("the hits lack the name of their rules")
	}
	return nil
}

// ValidEdge reports whether s can be an edge id, which is a token of a subject.
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

// Subject returns the subject on which an edge publishes batches of a shard:
// hotboard.hits.<shard>.<edge>.
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
