package ruleset

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hotboard/hotboard/hit"
)

// MaxDocumentBytes is the size of the largest document: a message of the broker
// has room for it.
const MaxDocumentBytes = 512 << 10

// Document returns the canonical text of the rules: JSON with all defaults filled
// in, so that the defaults of another version do not change its meaning. Equal
// rules have equal documents, however they were written. The document leaves out
// Bots.File, which belongs to one machine. It is nil for rules that [Compile] did
// not make. Do not modify it.
func (r *Rules) Document() []byte { return r.document }

// ID returns the name of the document. It is zero for rules that [Compile] did not
// make.
func (r *Rules) ID() hit.RulesID { return r.id }

// ParseDocument compiles a document. The rules have the same document again. A
// document that this version does not understand as a whole is an error.
func ParseDocument(document []byte) (*Rules, error) {
	id := hit.RulesIDOf(document)
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.DisallowUnknownFields()
	var c Config
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading the document %s of rules: %w (if a newer version of Hotboard wrote it, install that version here)", id, err)
	}
	r, err := Compile(c)
	if err != nil {
		return nil, fmt.Errorf("compiling the document %s of rules: %w (if another version of Hotboard wrote it, install that version here)", id, err)
	}
	if r.id != id {
		return nil, fmt.Errorf("the document %s of rules means something else to this version of Hotboard: install the version that wrote it, or put the rules in force again", id)
	}
	return r, nil
}

// setDocument sets the document and its name.
//
// A document that exists must keep its name in later versions. So a new setting
// must be missing from the document when it has the meaning that earlier versions
// gave it.
func (r *Rules) setDocument() error {
	d := Rules{Lists: r.Lists, Limits: r.Limits}
	if b := r.Bots; b != nil && (b.Allow != nil || b.Deny != nil || len(b.Count) > 0) {
		d.Bots = &Bots{Allow: b.Allow, Deny: b.Deny, Count: b.Count}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&d); err != nil {
		return err
	}
	r.document = bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if n := len(r.document); n > MaxDocumentBytes {
		return &Problem{Message: fmt.Sprintf("the rules are too large: %d bytes as JSON, more than %d", n, MaxDocumentBytes)}
	}
	r.id = hit.RulesIDOf(r.document)
	return nil
}
