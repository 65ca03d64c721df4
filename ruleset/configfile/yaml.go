package configfile

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// ParseYAML parses a YAML document. The file name appears in problems only and
// may be empty. ParseYAML follows anchors, aliases and merge keys. A file must
// contain one document.
func ParseYAML(file string, data []byte) (*Node, error) {
	r := &yamlReader{file: file, anchors: make(map[string]ast.Node)}
	if len(data) > MaxBytes {
		return nil, problem(Place{file, 1, 1}, "", fmt.Sprintf("the file has more than %d bytes", MaxBytes))
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		p := problem(Place{File: file}, "", err.Error())
		if located := yaml.Error(nil); errors.As(err, &located) {
			p.Message = located.GetMessage()
			if t := located.GetToken(); t != nil && t.Position != nil {
				p.Line, p.Column = t.Position.Line, t.Position.Column
			}
		}
		return nil, p
	}
	root := &Node{Place: Place{file, 1, 1}}
	bodies := 0
	for _, d := range parsed.Docs {
		if d.Body == nil {
			continue
		}
		if bodies++; bodies > 1 {
			return nil, r.problem(d.Body, "", "the file contains more than one document")
		}
		if root, err = r.value(d.Body, "", 0); err != nil {
			return nil, err
		}
	}
	if len(r.problems) > 0 {
		return nil, join(r.problems)
	}
	return root, nil
}

// yamlReader turns a YAML syntax tree into nodes.
type yamlReader struct {
	file     string
	anchors  map[string]ast.Node
	nodes    int
	problems []*Problem
}

func (r *yamlReader) problem(n ast.Node, path, message string) *Problem {
	return problem(r.place(n), path, message)
}

// place returns the beginning of a node. The token of a mapping in block style is
// its first colon, so place uses the key before it.
func (r *yamlReader) place(n ast.Node) Place {
	var t *token.Token
	switch n := n.(type) {
	case *ast.MappingNode:
		if t = n.Start; !n.IsFlowStyle && len(n.Values) > 0 {
			t = n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	default:
		t = n.GetToken()
	}
	if t == nil || t.Position == nil {
		return Place{r.file, 1, 1}
	}
	return Place{r.file, t.Position.Line, t.Position.Column}
}

// value reads a node. An error means that reading on is pointless.
func (r *yamlReader) value(a ast.Node, path string, depth int) (*Node, error) {
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return nil, r.problem(a, path, fmt.Sprintf("the document has more than %d values or is nested deeper than %d", maxNodes, maxDepth))
	}
	n := &Node{Place: r.place(a)}
	switch a := a.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.scalar = boolean, strconv.FormatBool(a.Value)
	case *ast.IntegerNode:
		n.kind, n.scalar = number, fmt.Sprint(a.Value)
	case *ast.FloatNode:
		n.kind, n.scalar = number, strconv.FormatFloat(a.Value, 'g', -1, 64)
	case *ast.InfinityNode:
		n.kind, n.scalar = number, strconv.FormatFloat(a.Value, 'g', -1, 64)
	case *ast.NanNode:
		n.kind, n.scalar = number, "NaN"
	case *ast.StringNode:
		n.kind, n.scalar = text, a.Value
	case *ast.LiteralNode:
		n.kind, n.scalar = text, a.Value.Value
	case *ast.SequenceNode:
		n.kind = list
		for i, item := range a.Values {
			v, err := r.value(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	case *ast.MappingNode:
		n.kind = table
		return n, r.table(n, a.Values, path, depth)
	case *ast.MappingValueNode:
		n.kind = table
		return n, r.table(n, []*ast.MappingValueNode{a}, path, depth)
	case *ast.AnchorNode:
		r.anchors[a.Name.String()] = a.Value
		return r.value(a.Value, path, depth+1)
	case *ast.AliasNode:
		target, ok := r.anchors[a.Value.String()]
		if !ok {
			r.problems = append(r.problems, r.problem(a, path, fmt.Sprintf("the alias *%s has no anchor before it", a.Value)))
			return n, nil
		}
		return r.value(target, path, depth+1)
	default:
		r.problems = append(r.problems, r.problem(a, path, "this kind of YAML value, such as a tag, is not supported"))
	}
	return n, nil
}

// table reads the keys of a mapping. The mapping's own keys take precedence over
// merged ones (<<).
func (r *yamlReader) table(n *Node, values []*ast.MappingValueNode, path string, depth int) error {
	var merged []*Node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			m, err := r.value(v.Value, path, depth+1)
			if err != nil {
				return err
			}
			switch m.kind {
			case table:
				merged = append(merged, m)
			case list:
				merged = append(merged, m.items...)
			default:
				r.problems = append(r.problems, r.problem(v.Key, path, "<< merges a table of keys, such as *name"))
			}
			continue
		}
		key := keyText(v.Key)
		below := joinPath(path, key)
		value, err := r.value(v.Value, below, depth+1)
		if err != nil {
			return err
		}
		if !n.Set(r.place(v.Key), key, value) {
			r.problems = append(r.problems, r.problem(v.Key, below, "duplicate key"))
		}
	}
	for _, m := range merged {
		for _, e := range m.entries {
			n.Set(e.Place, e.key, e.value)
		}
	}
	return nil
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.String()
}
