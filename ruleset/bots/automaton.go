package bots

// literal is a text to search for.
type literal struct {
	text string
	fold bool // ASCII letters match in either case; text is in lower case
}

// automaton finds all of many literals in one pass over a text (Aho and Corasick,
// 1975). Its time depends on the length of the text and the number of literals
// found, and not on the number of literals.
//
// It matches bytes in lower case, and compares a literal that does not fold again
// after a match.
type automaton struct {
	literals []literal
	same     []int32 // by literal: the next one with the same text in lower case, or -1
	// class maps a byte to its column in rows. Bytes that no literal contains are
	// class 0, which leads back to the root.
	class   [256]uint8
	classes int
	nodes   []node
	// rows hold the whole transitions of the root and of the nodes below it,
	// where a scan spends most of its time and nodes have many children.
	rows []int32
}

// node is a state: the longest prefix of a literal that ends at the current byte.
type node struct {
	class       uint8 // of the byte that leads here
	row         int32 // in rows, or -1
	child, next int32 // first child and next sibling, or -1
	fail        int32 // the node of the longest suffix that is one
	out         int32 // a literal that ends here, or -1
	suffix      int32 // the nearest node among suffixes that has an out, or -1
}

const root = 0

func newAutomaton(literals []literal) *automaton {
	a := &automaton{literals: literals, same: make([]int32, len(literals)), classes: 1}
	for _, l := range literals {
		for i := range len(l.text) {
			if c := lower(l.text[i]); a.class[c] == 0 {
				a.class[c] = uint8(a.classes)
				a.classes++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		a.class[c] = a.class[lower(c)]
	}
	a.add(node{})
	for i, l := range literals {
		n := int32(root)
		for j := range len(l.text) {
			n = a.childOf(n, a.class[l.text[j]])
		}
		a.same[i], a.nodes[n].out = a.nodes[n].out, int32(i)
	}
	a.link()
	return a
}

func (a *automaton) add(n node) int32 {
	n.row, n.child, n.out, n.suffix = -1, -1, -1, -1
	a.nodes = append(a.nodes, n)
	return int32(len(a.nodes) - 1)
}

// find returns the child of n for a class, or -1.
func (a *automaton) lookUp(n int32, class uint8) int32 {
	for m := a.nodes[n].child; m >= 0; m = a.nodes[m].next {
		if a.nodes[m].class == class {
			return m
		}
	}
	return -1
}

// childOf returns the child of n for a class, and creates it if necessary.
func (a *automaton) childOf(n int32, class uint8) int32 {
	if m := a.lookUp(n, class); m >= 0 {
		return m
	}
	m := a.add(node{class: class, next: a.nodes[n].child})
	a.nodes[n].child = m
	return m
}

// link sets the node where each node continues when a byte does not match,
// nearest to the root first, and fills the rows.
func (a *automaton) link() {
	queue := []int32{root}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		for m := a.nodes[n].child; m >= 0; m = a.nodes[m].next {
			fail := int32(root)
			if n != root {
				fail = a.step(a.nodes[n].fail, a.nodes[m].class)
			}
			a.nodes[m].fail = fail
			if a.nodes[m].suffix = fail; a.nodes[fail].out < 0 {
				a.nodes[m].suffix = a.nodes[fail].suffix
			}
			queue = append(queue, m)
		}
		if n == root || a.nodes[n].fail == root && i < a.classes {
			a.addRow(n)
		}
	}
}

func (a *automaton) addRow(n int32) {
	row := make([]int32, a.classes)
	for c := 1; c < a.classes; c++ {
		if m := a.lookUp(n, uint8(c)); m >= 0 {
			row[c] = m
		} else if n != root {
			row[c] = a.step(root, uint8(c))
		}
	}
	a.nodes[n].row = int32(len(a.rows))
	a.rows = append(a.rows, row...)
}

// step returns the node after one more byte.
func (a *automaton) step(n int32, class uint8) int32 {
	for {
		if row := a.nodes[n].row; row >= 0 {
			return a.rows[int(row)+int(class)]
		}
		if m := a.lookUp(n, class); m >= 0 {
			return m
		}
		n = a.nodes[n].fail
	}
}

// find calls found with every literal in text and the index of its end, in the
// order of their ends, until found returns false.
func (a *automaton) find(text string, found func(literal, end int) bool) {
	n := int32(root)
	for i := range len(text) {
		class := a.class[text[i]]
		if class == 0 {
			n = root
			continue
		}
		n = a.step(n, class)
		at := n
		if a.nodes[at].out < 0 {
			at = a.nodes[at].suffix
		}
		for ; at >= 0; at = a.nodes[at].suffix {
			for l := a.nodes[at].out; l >= 0; l = a.same[l] {
				lit := &a.literals[l]
				if !lit.fold && text[i+1-len(lit.text):i+1] != lit.text {
					continue
				}
				if !found(int(l), i+1) {
					return
				}
			}
		}
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
