// Package caddyrules reads rules from a Caddyfile.
package caddyrules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// Parser turns the options of a Caddyfile into the document that a YAML file with
// the same rules would be, and decodes that.
type Parser struct {
	*caddyfile.Dispenser
	root *configfile.Node
}

// NewParser returns a parser that reads from d, which must be at the option that
// holds the rules.
func NewParser(d *caddyfile.Dispenser) *Parser {
	return &Parser{Dispenser: d, root: configfile.Table(place(d.Token()))}
}

// Parse reads one option: list, limit, bots or rules_file.
func (p *Parser) Parse(name string) error {
	line := p.line()
	table := configfile.Table(line[0].Place)
	switch name {
	case "list", "limit":
		if len(line) != 2 {
			return p.Errf("a %[1]s needs one name: %[1]s <name> { … }", name)
		}
		table.Set(line[0].Place, "name", line[1])
		p.root.Child(line[0].Place, name+"s").Append(table)
	case "bots":
		if len(line) > 1 {
			return p.ArgErr()
		}
		if !p.root.Set(line[0].Place, "bots", table) {
			return p.Err("duplicate bots")
		}
	case "rules_file":
		return p.parseRulesFile(line)
	default:
		return p.Errf("unknown option %q; options of rules: list, limit, bots and rules_file", name)
	}
	return p.parseBlock(name, options[name], table, 1)
}

// parseBlock reads the options of a block into a table.
func (p *Parser) parseBlock(name string, options []option, into *configfile.Node, nesting int) error {
	for p.NextBlock(nesting) {
		i := slices.IndexFunc(options, func(o option) bool { return o.name == p.Val() })
		if i < 0 {
			names := make([]string, len(options))
			for j, o := range options {
				names[j] = o.name
			}
			return p.Errf("unknown option %q; options of %s: %s", p.Val(), name, join(names))
		}
		o := options[i]
		switch err := o.read(into, p.line()); {
		case err == errUsage && o.usage == "":
			return p.ArgErr()
		case err == errUsage:
			return p.Err(o.usage)
		case err != nil:
			return p.WrapErr(err)
		}
		if o.block == nil {
			continue
		}
		if err := p.parseBlock(o.name, o.block, into, nesting+1); err != nil {
			return err
		}
	}
	return nil
}

// line reads the current token and those after it on its line.
func (p *Parser) line() []*configfile.Node {
	tokens := append([]caddyfile.Token{p.Token()}, p.RemainingArgsAsTokens()...)
	line := make([]*configfile.Node, len(tokens))
	for i, t := range tokens {
		line[i] = configfile.Word(place(t), t.Text)
	}
	return line
}

func place(t caddyfile.Token) configfile.Place { return configfile.Place{File: t.File, Line: t.Line} }

// parseRulesFile adds the rules of a YAML file.
func (p *Parser) parseRulesFile(line []*configfile.Node) error {
	if len(line) != 2 {
		return p.ArgErr()
	}
	name := beside(line[1].File, line[1].Text())
	data, err := os.ReadFile(name)
	if err != nil {
		return p.Errf("rules_file: %v", err)
	}
	rules, err := configfile.ParseYAML(name, data)
	if err == nil {
		err = p.root.Merge(rules)
	}
	if err != nil {
		return p.Errf("rules_file:\n%v", err)
	}
	return nil
}

// Config returns the rules, or all their mistakes, each with its file and line.
func (p *Parser) Config() (ruleset.Config, error) {
	var c ruleset.Config
	err := p.root.Decode("", &c, func() error {
		_, err := ruleset.Compile(c)
		return errors.Join(err, ValidateIDs(&c))
	})
	if err != nil {
		return c, fmt.Errorf("the rules have mistakes:\n%w", err)
	}
	if c.Bots != nil && c.Bots.File != "" {
		// The server may run in another directory than the command that adapts.
		if c.Bots.File, err = filepath.Abs(beside(p.root.Get("bots").Get("file").File, c.Bots.File)); err != nil {
			return c, fmt.Errorf("bots.file: %w", err)
		}
	}
	return c, nil
}

// beside resolves a path in a file against the file's directory.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// join lists names as in a sentence: "a, b and c".
func join(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
