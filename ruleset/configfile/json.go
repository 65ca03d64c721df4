package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ParseJSON parses a JSON document. The file name appears in problems only and
// may be empty.
func ParseJSON(file string, data []byte) (*Document, error) {
	r := &jsonReader{file: file, data: data}
	if len(data) > MaxBytes {
		return nil, r.problem(0, "", fmt.Sprintf("the file has more than %d bytes", MaxBytes))
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		offset := len(data)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			offset = max(0, int(syntax.Offset)-1)
		}
		return nil, r.problem(offset, "", err.Error())
	}
	r.dec = json.NewDecoder(bytes.NewReader(data))
	r.dec.UseNumber()
	root, err := r.value("", 0)
	if err != nil {
		return nil, err
	}
	if len(r.problems) > 0 {
		return nil, join(r.problems)
	}
	return &Document{file: file, root: root}, nil
}

// jsonReader turns the tokens of a valid JSON text into nodes with positions.
type jsonReader struct {
	file     string
	data     []byte
	dec      *json.Decoder
	nodes    int
	problems []*Problem
}

func (r *jsonReader) problem(offset int, path, message string) *Problem {
	line, column := r.position(offset)
	return &Problem{File: r.file, Line: line, Column: column, Path: path, Message: message}
}

func (r *jsonReader) position(offset int) (line, column int) {
	before := r.data[:min(offset, len(r.data))]
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// token returns the next token and the offset at which it begins.
func (r *jsonReader) token() (json.Token, int, error) {
	start := int(r.dec.InputOffset())
	for start < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[start]) >= 0 {
		start++
	}
	t, err := r.dec.Token()
	if err != nil {
		return nil, start, r.problem(start, "", err.Error())
	}
	return t, start, nil
}

func (r *jsonReader) value(path string, depth int) (*node, error) {
	t, start, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return nil, r.problem(start, path, fmt.Sprintf("the document has more than %d values or is nested deeper than %d", maxNodes, maxDepth))
	}
	n := &node{}
	n.line, n.column = r.position(start)
	switch t := t.(type) {
	case nil:
	case bool:
		n.kind, n.scalar = boolean, fmt.Sprint(t)
	case json.Number:
		n.kind, n.scalar = number, t.String()
	case string:
		n.kind, n.scalar = text, t
	case json.Delim:
		if t == '[' {
			n.kind = list
			return n, r.list(n, path, depth)
		}
		n.kind = table
		return n, r.table(n, path, depth)
	}
	return n, nil
}

func (r *jsonReader) list(n *node, path string, depth int) error {
	for r.dec.More() {
		item, err := r.value(fmt.Sprintf("%s[%d]", path, len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := r.token()
	return err
}

func (r *jsonReader) table(n *node, path string, depth int) error {
	for r.dec.More() {
		t, start, err := r.token()
		if err != nil {
			return err
		}
		e := entry{key: t.(string)} // the text is valid JSON
		e.line, e.column = r.position(start)
		below := joinPath(path, e.key)
		if n.get(e.key) != nil {
			r.problems = append(r.problems, r.problem(start, below, "duplicate key"))
		}
		if e.value, err = r.value(below, depth+1); err != nil {
			return err
		}
		n.entries = append(n.entries, e)
	}
	_, _, err := r.token()
	return err
}
