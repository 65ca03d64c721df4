// Package caddyrules reads rules from a Caddyfile.
package caddyrules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// Parser reads rules from the options of a Caddyfile, and remembers the
// position of each part.
type Parser struct {
	*caddyfile.Dispenser
	rules  ruleset.Config
	places []place
}

// place is the position of the value of a path such as lists[0].dedup.
type place struct {
	path string
	file string
	line int
}

// NewParser returns a parser that reads from d, which must be at the option that
// holds the rules.
func NewParser(d *caddyfile.Dispenser) *Parser {
	p := &Parser{Dispenser: d}
	p.mark("")
	return p
}

// Parse reads one option: list, limit, bots or rules_file.
func (p *Parser) Parse(option string) error {
	switch option {
	case "rules_file":
		return p.parseRulesFile()
	case "list":
		return p.parseList()
	case "limit":
		return p.parseLimit()
	case "bots":
		return p.parseBots()
	}
	return p.Errf("unknown option %q; options of rules: list, limit, bots and rules_file", option)
}

// Config returns the rules, or all their mistakes, each with its file and line.
func (p *Parser) Config() (ruleset.Config, error) {
	_, err := ruleset.Compile(p.rules)
	problems := configfile.Problems(errors.Join(err, ValidateIDs(&p.rules)))
	if len(problems) == 0 {
		return p.rules, nil
	}
	for _, problem := range problems {
		at := p.find(problem.Path)
		problem.File, problem.Line = at.file, at.line
	}
	slices.SortStableFunc(problems, func(a, b *configfile.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	errs := make([]error, len(problems))
	for i, problem := range problems {
		errs[i] = problem
	}
	return ruleset.Config{}, fmt.Errorf("the rules have mistakes:\n%w", errors.Join(errs...))
}

// mark records the current token as the beginning of a path's value.
func (p *Parser) mark(format string, values ...any) {
	p.places = append(p.places, place{fmt.Sprintf(format, values...), p.File(), p.Line()})
}

// find returns the place of a path, or of the innermost value that contains it.
func (p *Parser) find(path string) place {
	var found place
	for _, at := range p.places {
		rest, ok := strings.CutPrefix(path, at.path)
		if ok && (rest == "" || at.path == "" || rest[0] == '.' || rest[0] == '[') && len(at.path) >= len(found.path) {
			found = at
		}
	}
	return found
}

func (p *Parser) addList(l *ruleset.ListConfig) (path string) {
	path = fmt.Sprintf("lists[%d]", len(p.rules.Lists))
	p.mark("%s", path)
	p.rules.Lists = append(p.rules.Lists, l)
	return path
}

func (p *Parser) addLimit(l *ruleset.Limit) (path string) {
	path = fmt.Sprintf("limits[%d]", len(p.rules.Limits))
	p.mark("%s", path)
	p.rules.Limits = append(p.rules.Limits, l)
	return path
}

func (p *Parser) setBots(b *ruleset.Bots) error {
	if err := args.Once(p.Dispenser, "bots", p.rules.Bots != nil); err != nil {
		return err
	}
	p.mark("bots")
	p.rules.Bots = b
	return nil
}
