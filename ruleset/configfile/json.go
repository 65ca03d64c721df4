package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ParseJSON parses a JSON document. The file name appears in problems only and
// may be empty.
func ParseJSON(file string, data []byte) (*Node, error) {
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
	return root, nil
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
	return problem(r.place(offset), path, message)
}

func (r *jsonReader) place(offset int) Place {
	before := r.data[:min(offset, len(r.data))]
	return Place{r.file, bytes.Count(before, []byte{'\n'}) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
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

func (r *jsonReader) value(path string, depth int) (*Node, error) {
	t, start, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return nil, r.problem(start, path, fmt.Sprintf("the document has more than %d values or is nested deeper than %d", maxNodes, maxDepth))
	}
	n := &Node{Place: r.place(start)}
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

func (r *jsonReader) list(n *Node, path string, depth int) error {
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

func (r *jsonReader) table(n *Node, path string, depth int) error {
	for r.dec.More() {
		t, start, err := r.token()
		if err != nil {
			return err
		}
		key := t.(string) // the text is valid JSON
		below := joinPath(path, key)
		value, err := r.value(below, depth+1)
		if err != nil {
			return err
		}
		if !n.Set(r.place(start), key, value) {
			r.problems = append(r.problems, r.problem(start, below, "duplicate key"))
		}
	}
	_, _, err := r.token()
	return err
}
