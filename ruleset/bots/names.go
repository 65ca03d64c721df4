package bots

import "strings"

// names finds the known families in a User-Agent.
type names struct {
	texts *automaton
	list  []name // by literal
}

type name struct {
	class, reason string
	// first means that the name begins the User-Agent, open that letters may
	// follow it, and shared that apps or browsers use it too.
	first, open, shared bool
}

func newNames() *names {
	n := &names{}
	var literals []literal
	for _, f := range families() {
		for _, s := range strings.Split(f.names, ",") {
			s = strings.TrimSpace(s)
			e := name{class: f.class}
			s, e.first = strings.CutPrefix(s, "^")
			s, e.shared = strings.CutSuffix(s, "?")
			s, e.open = strings.CutSuffix(s, "*")
			e.reason = "token " + s
			literals = append(literals, literal{text: strings.ToLower(s), fold: true})
			n.list = append(n.list, e)
		}
	}
	n.texts = newAutomaton(literals)
	return n
}

// find returns the first family and the first shared name in a User-Agent, or
// nil.
func (n *names) find(userAgent string) (own, shared *name) {
	first := [2]int{len(n.list), len(n.list)} // index of the first name, by shared or not
	n.texts.find(userAgent, func(i, end int) bool {
		l := &n.texts.literals[i]
		begin := end - len(l.text)
		e := &n.list[i]
		best := &first[0]
		if e.shared {
			best = &first[1]
		}
		switch {
		case i >= *best:
		case e.first && begin > 0:
		case begin > 0 && isWord(l.text[0]) && isWord(userAgent[begin-1]):
		case end < len(userAgent) && !e.open && isLetter(l.text[len(l.text)-1]) && isLetter(userAgent[end]):
		default:
			*best = i
		}
		return true
	})
	if first[0] < len(n.list) {
		own = &n.list[first[0]]
	}
	if first[1] < len(n.list) {
		shared = &n.list[first[1]]
	}
	return own, shared
}

func isWord(c byte) bool { return isLetter(c) || isDigit(c) }
