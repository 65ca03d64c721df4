package bots

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is derived from a pattern.
const (
	maxAlternatives = 64 // texts of which a match has one
	maxClass        = 8  // runes of a character class that is spelled out
)

// requirement is a necessary condition for a text to match a pattern.
type requirement struct {
	// texts: every match contains at least one of them. Empty if unknown.
	texts []literal
	// complete means that the converse holds too: every text with one of them
	// matches.
	complete bool
}

// required derives the requirement of a regular expression that compiles.
func required(pattern string) requirement {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return requirement{}
	}
	p := analyse(re.Simplify())
	return requirement{texts: p.best(), complete: p.exact != nil && !p.anchored && usable(p.exact)}
}

// part holds the known properties of one part of a pattern.
type part struct {
	// exact lists every text that the part matches, or is nil if there are too
	// many.
	exact []literal
	// anchored means that a match depends on more than the text, such as its
	// place.
	anchored bool
	// inner: if exact is nil, every match of the part contains at least one of
	// these. Empty if unknown.
	inner []literal
}

func (p *part) best() []literal {
	if usable(p.exact) {
		return p.exact
	}
	return p.inner
}

// usable reports whether searching for the texts rules anything out.
func usable(texts []literal) bool { return shortest(texts) > 0 }

func shortest(texts []literal) int {
	if len(texts) == 0 {
		return 0
	}
	n := len(texts[0].text)
	for _, t := range texts {
		n = min(n, len(t.text))
	}
	return n
}

// better returns the texts that occur in fewer other texts.
func better(a, b []literal) []literal {
	if shortest(b) > shortest(a) || shortest(b) == shortest(a) && len(b) < len(a) {
		return b
	}
	return a
}

func analyse(re *syntax.Regexp) part {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return part{exact: []literal{{}}}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return part{exact: []literal{{}}, anchored: true}
	case syntax.OpLiteral:
		return analyseLiteral(re)
	case syntax.OpCharClass:
		return analyseClass(re)
	case syntax.OpCapture:
		return analyse(re.Sub[0])
	case syntax.OpPlus:
		p := analyse(re.Sub[0])
		return part{inner: p.best()}
	case syntax.OpRepeat:
		if re.Min > 0 {
			p := analyse(re.Sub[0])
			return part{inner: p.best()}
		}
	case syntax.OpQuest:
		if p := analyse(re.Sub[0]); p.exact != nil && len(p.exact) < maxAlternatives {
			p.exact = append(slices.Clone(p.exact), literal{})
			return p
		}
	case syntax.OpConcat:
		return analyseConcat(re)
	case syntax.OpAlternate:
		return analyseAlternate(re)
	}
	return part{}
}

func analyseLiteral(re *syntax.Regexp) part {
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) {
		return part{} // matches any byte that is not UTF-8
	}
	if re.Flags&syntax.FoldCase == 0 {
		return part{exact: []literal{{text: text}}}
	}
	// A folded k also matches a Kelvin sign: search in lower case only for runes
	// whose other cases are all ASCII.
	var runs []string
	rest := re.Rune
	for len(rest) > 0 {
		n := 0
		for n < len(rest) && foldsInASCII(rest[n]) {
			n++
		}
		runs = append(runs, strings.ToLower(string(rest[:n])))
		rest = rest[min(n+1, len(rest)):]
	}
	longest := slices.MaxFunc(runs, func(a, b string) int { return len(a) - len(b) })
	if len(longest) == len(text) {
		return part{exact: []literal{{text: longest, fold: true}}}
	}
	if longest == "" {
		return part{}
	}
	return part{inner: []literal{{text: longest, fold: true}}}
}

func foldsInASCII(r rune) bool {
	for f := r; ; {
		if f >= utf8.RuneSelf {
			return false
		}
		if f = unicode.SimpleFold(f); f == r {
			return true
		}
	}
}

func analyseClass(re *syntax.Regexp) part {
	var p part
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if len(p.exact) == maxClass || r == utf8.RuneError {
				return part{}
			}
			p.exact = append(p.exact, literal{text: string(r)})
		}
	}
	return p
}

func analyseConcat(re *syntax.Regexp) part {
	p := part{exact: []literal{{}}}
	var inner []literal // the best so far
	broken := false     // p.exact no longer covers all parts from the beginning
	for _, sub := range re.Sub {
		q := analyse(sub)
		p.anchored = p.anchored || q.anchored
		if q.exact != nil {
			if joined := join(p.exact, q.exact); joined != nil {
				p.exact = joined
				continue
			}
		}
		broken = true
		inner = better(better(inner, p.exact), q.best())
		if p.exact = q.exact; p.exact == nil {
			p.exact = []literal{{}}
		}
	}
	if !broken {
		return p
	}
	return part{inner: better(inner, p.exact)}
}

// join returns every text of a followed by every text of b, or nil if there are
// too many or their cases differ.
func join(a, b []literal) []literal {
	if len(a)*len(b) > maxAlternatives {
		return nil
	}
	all := make([]literal, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			if x.fold != y.fold && x.text != "" && y.text != "" {
				return nil
			}
			all = append(all, literal{text: x.text + y.text, fold: x.fold || y.fold})
		}
	}
	return all
}

func analyseAlternate(re *syntax.Regexp) part {
	var p part
	exact := true
	for _, sub := range re.Sub {
		q := analyse(sub)
		p.anchored = p.anchored || q.anchored
		exact = exact && q.exact != nil
		found := q.exact
		if found == nil {
			found = q.inner
		}
		if len(found) == 0 || len(p.inner)+len(found) > maxAlternatives {
			return part{}
		}
		p.inner = append(p.inner, found...)
	}
	if exact {
		p.exact, p.inner = p.inner, nil
	} else if !usable(p.inner) {
		return part{}
	}
	return p
}
