package hit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// RulesID names a document of rules: the first 16 bytes of the SHA-256 of its
// canonical text. The zero RulesID names none.
type RulesID [16]byte

// MaxRevision is the highest number of a revision of the rules: its key in the broker
// has 8 digits.
const MaxRevision = 99_999_999

// RulesIDOf returns the name of a document.
func RulesIDOf(document []byte) (id RulesID) {
	sum := sha256.Sum256(document)
	copy(id[:], sum[:])
	return id
}

// ParseRulesID is the inverse of [RulesID.String].
func ParseRulesID(s string) (id RulesID, err error) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, fmt.Errorf("%.80q is not the name of a document of rules: 32 hexadecimal digits", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return RulesID{}, fmt.Errorf("%.80q is not the name of a document of rules: 32 hexadecimal digits", s)
	}
	return id, nil
}

// String returns the name as 32 hexadecimal digits.
func (id RulesID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first 8 digits of the name, for people.
func (id RulesID) Short() string { return id.String()[:8] }

// IsZero reports whether id names no document.
func (id RulesID) IsZero() bool { return id == RulesID{} }

// MarshalText implements [encoding.TextMarshaler]. The zero name is empty.
func (id RulesID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *RulesID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*id = RulesID{}
		return nil
	}
	*id, err = ParseRulesID(string(text))
	return err
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It refuses another
// length than a name's: a decoder of CBOR would cut it or fill it up.
func (id *RulesID) UnmarshalBinary(data []byte) error {
	if len(data) != len(id) {
		return fmt.Errorf("the name of a document of rules has %d bytes, not %d", len(data), len(id))
	}
	copy(id[:], data)
	return nil
}
