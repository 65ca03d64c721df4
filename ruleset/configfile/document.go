package configfile

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of a document. They are far above any real configuration and bound the
// cost of a hostile one.
const (
	MaxBytes = 1 << 20
	maxDepth = 32
	maxNodes = 100_000 // including those repeated by aliases
)

// kind is the type of a value in the file.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	table
	word // a string or a number, whichever the Go value is
)

func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a string", "a list", "a table of keys", "a word"}[k]
}

// Node is one value of a document, with the values below it. A document is its
// root. [ParseYAML] reads one; readers of other formats build one.
type Node struct {
	Place
	kind    kind
	scalar  string // of a boolean, number, text or word
	items   []*Node
	entries []entry
}

// entry is one key of a table.
type entry struct {
	Place
	key   string
	value *Node
}

// Word returns a text that is a string or a number, whichever the Go value to fill
// is.
func Word(at Place, text string) *Node { return &Node{Place: at, kind: word, scalar: text} }

// True returns the boolean true.
func True(at Place) *Node { return &Node{Place: at, kind: boolean, scalar: "true"} }

// Table returns a table without keys.
func Table(at Place) *Node { return &Node{Place: at, kind: table} }

// List returns a list.
func List(at Place, items ...*Node) *Node { return &Node{Place: at, kind: list, items: items} }

// Text returns the text of a word, string, number or boolean.
func (n *Node) Text() string { return n.scalar }

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return nil
}

// Child returns the value of a key. A missing one becomes a value without a type,
// which Set turns into a table and Append into a list.
func (n *Node) Child(at Place, key string) *Node {
	child := n.Get(key)
	if child == nil {
		child = &Node{Place: at}
		n.Set(at, key, child)
	}
	return child
}

// Set sets the value of a key that stands at a place. It returns false, and changes
// nothing, if the table has the key already.
func (n *Node) Set(at Place, key string, value *Node) bool {
	if n.Get(key) != nil {
		return false
	}
	if n.kind == null {
		n.kind = table
	}
	n.entries = append(n.entries, entry{at, key, value})
	return true
}

// Append adds items to a list.
func (n *Node) Append(items ...*Node) {
	if n.kind == null {
		n.kind = list
	}
	n.items = append(n.items, items...)
}

// Merge adds the keys of another document to n, a table. If both have a list for
// a key, the lists become one. Any other key that both have is a mistake.
func (n *Node) Merge(from *Node) error {
	if from.kind != table && from.kind != null {
		return problem(from.Place, "", fmt.Sprintf("want %v, not %v", table, from.kind))
	}
	var problems []*Problem
	for _, e := range from.entries {
		switch was := n.Get(e.key); {
		case was == nil:
			n.entries = append(n.entries, e)
		case was.kind == null:
			*was = *e.value
		case e.value.kind == null:
		case was.kind == list && e.value.kind == list:
			was.items = append(was.items, e.value.items...)
		default:
			problems = append(problems, problem(e.Place, e.key, fmt.Sprintf("duplicate: %s:%d has it", was.File, was.Line)))
		}
	}
	return join(problems)
}

// find returns the node at a path, or the nearest one above it and false.
func (n *Node) find(path string) (*Node, bool) {
	for path != "" {
		var next *Node
		if rest, ok := strings.CutPrefix(path, "["); ok {
			index, after, _ := strings.Cut(rest, "]")
			i, err := strconv.Atoi(index)
			if err != nil || i < 0 || i >= len(n.items) {
				return n, false
			}
			next, path = n.items[i], after
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if next = n.Get(path[:end]); next == nil {
				return n, false
			}
			path = path[end:]
		}
		n, path = next, strings.TrimPrefix(path, ".")
	}
	return n, true
}

func problem(at Place, path, message string) *Problem {
	return &Problem{Place: at, Path: path, Message: message}
}

// Decode reads the value at path ("" is the whole document, "rules" the value of
// that key) into the struct that into points to. It then calls validate, unless
// it is nil, for rules beyond types; paths of its problems are relative to the
// value.
//
// The error joins a [*Problem] for every mistake, in the order of the file.
// Decode drops problems that validate reports about values it could not read.
//
// If a struct has a method SetDefaults(), Decode calls it before filling the
// struct. Types that implement [encoding.TextUnmarshaler] are read from a string.
func (n *Node) Decode(path string, into any, validate func() error) error {
	value, found := n.find(path)
	if !found {
		return problem(value.Place, path, "missing")
	}
	var dec decoder
	dec.decodeInto(value, path, into)

	if validate != nil {
		bad := make(map[string]bool)
		for _, p := range dec.problems {
			bad[p.Path] = true
		}
		for _, p := range Problems(Under(path, validate())) {
			if bad[p.Path] {
				continue
			}
			at, _ := n.find(p.Path)
			p.Place = at.Place
			dec.problems = append(dec.problems, p)
		}
	}
	return join(dec.problems)
}
