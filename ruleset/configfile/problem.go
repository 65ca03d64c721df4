// Package configfile reads configuration in YAML, which includes JSON, into Go
// structs, strictly: it reports unknown keys, wrong types and invalid values, all
// at once and each with its place: file, line, column and the path of the value.
// Other formats can fill its tree of values and share all of that.
//
// Struct fields are named by their json tags, so that a struct has one schema in
// YAML, in JSON and in Caddy's configuration.
package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Place is where a value stands. Line and Column count from 1. A Place is empty if
// the configuration did not come from a file. Column is also empty if only the line
// is known, as in a Caddyfile.
type Place struct {
	File         string
	Line, Column int
}

// Problem is one mistake in a configuration.
type Problem struct {
	Place
	// Path names the value, for example lists[0].dedup. It is empty for the
	// whole configuration.
	Path string
	// Message names the mistake and the remedy.
	Message string
}

// Error formats the problem on one line: file:line:column: path: message.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, "%d:", p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems returns the problems in err, in order. Any other error becomes a
// problem without a place. It returns nil for nil.
func Problems(err error) []*Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Problem
		for _, e := range joined.Unwrap() {
			all = append(all, Problems(e)...)
		}
		return all
	}
	if p := (*Problem)(nil); errors.As(err, &p) {
		return []*Problem{p}
	}
	return []*Problem{{Message: err.Error()}}
}

// Under returns err with the path of each problem prefixed by path: the problems
// of one part of a configuration become problems of the whole.
func Under(path string, err error) error {
	var all []error
	for _, p := range Problems(err) {
		moved := *p
		moved.Path = joinPath(path, p.Path)
		all = append(all, &moved)
	}
	return errors.Join(all...)
}

func joinPath(path, below string) string {
	if path == "" || below == "" || strings.HasPrefix(below, "[") {
		return path + below
	}
	return path + "." + below
}

// join sorts problems by their place and joins them into one error.
func join(problems []*Problem) error {
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = p
	}
	return errors.Join(all...)
}
