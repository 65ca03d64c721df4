package caddyrules

import (
	"os"
	"path/filepath"

	"github.com/hotboard/hotboard/caddymodule/internal/args"
	"github.com/hotboard/hotboard/ruleset"
)

// parseRulesFile reads the rules of a YAML file.
func (p *Parser) parseRulesFile() error {
	var name string
	if err := args.Word(p.Dispenser, &name); err != nil {
		return err
	}
	name = beside(p.File(), name)
	data, err := os.ReadFile(name)
	if err != nil {
		return p.Errf("rules_file: %v", err)
	}
	r, err := ruleset.ParseYAML(name, data)
	if err != nil {
		return p.Errf("rules_file:\n%v", err)
	}
	for _, l := range r.Lists {
		p.addList(&l.ListConfig)
	}
	for _, l := range r.Limits {
		p.addLimit(l)
	}
	if r.Bots == nil {
		return nil
	}
	if r.Bots.File != "" {
		if r.Bots.File, err = filepath.Abs(beside(name, r.Bots.File)); err != nil {
			return p.Errf("rules_file: %v", err)
		}
	}
	return p.setBots(r.Bots)
}

// beside resolves a path in a file against the file's directory.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
