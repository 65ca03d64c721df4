package configfile

import (
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

// Document is a parsed configuration file.
type Document struct {
	file string
	root *node
}

// kind is the type of a value in the file.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	table
)

func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a string", "a list", "a table of keys"}[k]
}

// node is one value of a document in either spelling.
type node struct {
	kind         kind
	line, column int
	scalar       string // of a boolean, number or text
	items        []*node
	entries      []entry
}

// entry is one key of a table.
type entry struct {
	key          string
	line, column int
	value        *node
}

func (n *node) get(key string) *node {
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return nil
}

// find returns the node at a path, or the nearest one above it and false.
func (n *node) find(path string) (*node, bool) {
	for path != "" {
		var next *node
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
			if next = n.get(path[:end]); next == nil {
				return n, false
			}
			path = path[end:]
		}
		n, path = next, strings.TrimPrefix(path, ".")
	}
	return n, true
}

func (d *Document) problem(n *node, path, message string) *Problem {
	return &Problem{File: d.file, Line: n.line, Column: n.column, Path: path, Message: message}
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
func (d *Document) Decode(path string, into any, validate func() error) error {
	n, found := d.root.find(path)
	if !found {
		return d.problem(n, path, "missing")
	}
	dec := decoder{doc: d}
	dec.decodeInto(n, path, into)

	if validate != nil {
		bad := make(map[string]bool)
		for _, p := range dec.problems {
			bad[p.Path] = true
		}
		for _, p := range Problems(Under(path, validate())) {
			if bad[p.Path] {
				continue
			}
			at, _ := d.root.find(p.Path)
			p.File, p.Line, p.Column = d.file, at.line, at.column
			dec.problems = append(dec.problems, p)
		}
	}
	return join(dec.problems)
}
