package ruleset

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxParts is the largest number of named parts in a pattern. It bounds the array
// on the stack that holds a match.
const maxParts = 8

// pattern is a compiled path pattern.
type pattern struct {
	prefix   string    // literal text that every matching path begins with; ends in "/" or is the whole path
	segments []segment // the rest of the path
	parts    int       // number of segments with a named part
	id       int       // index of the part that is the item's id; -1: all of them, joined
	shape    string    // the pattern without its names: equal shapes match the same paths
}

// segment is one part of a pattern between slashes: literal text, or a named
// part with literal text around it.
type segment struct {
	before string // the whole segment if it is not named
	after  string
	named  bool
	rest   bool // {name...}
}

var partName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// compilePattern compiles a path pattern. If needsPart is set, the pattern must
// name the item.
func compilePattern(s string, needsPart bool) (*pattern, error) {
	if err := checkPatternText(s); err != nil {
		return nil, err
	}
	var (
		segments []segment
		names    []string
		shape    strings.Builder
	)
	// A trailing slash makes no difference, see match.
	path := strings.TrimSuffix(s[1:], "/")
	for i, text := range strings.Split(path, "/") {
		if text == "" && s != "/" {
			return nil, errors.New("empty segment: use a single slash")
		}
		seg, name, err := parseSegment(text)
		if err != nil {
			return nil, err
		}
		if len(segments) > 0 && segments[len(segments)-1].rest {
			return nil, errors.New("{name...} matches the rest of the path: nothing can follow it")
		}
		if i > 0 {
			shape.WriteByte('/')
		}
		shape.WriteString(seg.before)
		if seg.named {
			for _, n := range names {
				if n == name {
					return nil, fmt.Errorf("duplicate name %s", name)
				}
			}
			names = append(names, name)
			shape.WriteString("{}")
			if seg.rest {
				shape.WriteString("...")
			}
			shape.WriteString(seg.after)
		}
		segments = append(segments, seg)
	}
	switch {
	case len(names) == 0 && needsPart:
		return nil, errors.New("no named part: put {id} in the place of the item's id")
	case len(names) > maxParts:
		return nil, fmt.Errorf("%d named parts: at most %d are allowed", len(names), maxParts)
	}

	p := &pattern{parts: len(names), id: -1, shape: shape.String()}
	for i, n := range names {
		if n == "id" {
			p.id = i
		}
	}
	if len(names) == 1 {
		p.id = 0
	}
	// Compare the literal beginning first and in one piece: it rules out most
	// patterns for most paths.
	p.prefix = "/"
	for len(segments) > 1 && !segments[0].named {
		p.prefix += segments[0].before + "/"
		segments = segments[1:]
	}
	p.segments = segments
	return p, nil
}

func checkPatternText(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return errors.New(`must begin with "/"`)
	case !utf8.ValidString(s):
		return errors.New("not valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("contains control characters")
	case strings.ContainsAny(s, "?#"):
		return errors.New("patterns match the path alone: remove ? and # (the list's id can name a part of the query)")
	case strings.Contains(s, "*"):
		return errors.New("* is not a wildcard: use {id} for one segment, {id...} for the rest of the path")
	case percentEncoded.MatchString(s):
		return errors.New("patterns match the decoded path: write the character, not its % code")
	}
	return nil
}

var percentEncoded = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func parseSegment(s string) (seg segment, name string, err error) {
	before, rest, found := strings.Cut(s, "{")
	if !found {
		if strings.Contains(s, "}") {
			return segment{}, "", errors.New("} without {")
		}
		return segment{before: s}, "", nil
	}
	name, after, found := strings.Cut(rest, "}")
	switch {
	case !found:
		return segment{}, "", errors.New("{ without }")
	case strings.Contains(before, "}"):
		return segment{}, "", errors.New("} without {")
	case strings.ContainsAny(after, "{}"):
		return segment{}, "", fmt.Errorf("segment %q has more than one named part", s)
	}
	seg = segment{before: before, after: after, named: true}
	if n, ok := strings.CutSuffix(name, "..."); ok {
		if before != "" || after != "" {
			return segment{}, "", fmt.Errorf("{%s} must be a whole segment", name)
		}
		seg.rest, name = true, n
	}
	if !partName.MatchString(name) {
		return segment{}, "", fmt.Errorf("invalid name %q: use a letter a-z, then a-z, 0-9 and _", name)
	}
	return seg, name, nil
}

// match compares a decoded path with the pattern and returns the item's id, which
// is empty for a pattern without named parts. It allocates only to join several
// named parts.
//
// It ignores one trailing slash in the path and in the pattern: a page is the
// same page with and without it. A named part never matches an empty segment, "."
// or "..", which no page of a site has.
func (p *pattern) match(path string) (id string, ok bool) {
	if len(path) < len(p.prefix) || path[:len(p.prefix)] != p.prefix {
		return "", false
	}
	rest := path[len(p.prefix):]
	if n := len(rest); n > 0 && rest[n-1] == '/' {
		rest = rest[:n-1]
		if n == 1 && len(p.prefix) == 1 {
			return "", false // the path "//"
		}
	}
	var parts [maxParts]string
	n := 0
	last := len(p.segments) - 1
	for i := range p.segments {
		seg := &p.segments[i]
		text := rest
		if !seg.rest {
			end := strings.IndexByte(rest, '/')
			if (end < 0) != (i == last) {
				return "", false // too few or too many segments
			}
			if end >= 0 {
				text, rest = rest[:end], rest[end+1:]
			}
		}
		if !seg.named {
			if text != seg.before {
				return "", false
			}
			continue
		}
		if len(text) <= len(seg.before)+len(seg.after) ||
			text[:len(seg.before)] != seg.before || text[len(text)-len(seg.after):] != seg.after {
			return "", false
		}
		text = text[len(seg.before) : len(text)-len(seg.after)]
		if !plainSegments(text) {
			return "", false
		}
		parts[n] = text
		n++
	}
	switch {
	case n == 0:
		return "", true
	case p.id >= 0:
		return parts[p.id], true
	}
	return strings.Join(parts[:n], "/"), true
}

// plainSegments reports whether no segment of s is empty, "." or "..".
func plainSegments(s string) bool {
	for {
		seg, rest, more := strings.Cut(s, "/")
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
}
