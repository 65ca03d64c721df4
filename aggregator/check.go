package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

const checkUsage = `Says what is wrong with a configuration, every mistake with its line, and
connects to nothing.

Usage:

  aggregator check [-config FILE]    the aggregator's configuration, with its rules
  aggregator check -rules FILE       a file of rules alone

`

func check(args []string, t terminal) error {
	fs := flags("aggregator check", checkUsage, t)
	path := fs.String("config", defaultConfig, "the configuration `file`")
	rulesFile := fs.String("rules", "", "a `file` of rules, instead of a configuration")
	if err := parse(fs, args, false); err != nil {
		return err
	}
	var rules *ruleset.Ruleset
	var err error
	checked := *path
	if *rulesFile != "" {
		checked = *rulesFile
		rules, err = config.LoadRules(checked)
	} else {
		var c *config.Config
		if c, err = config.Load(checked); err == nil {
			rules = c.Rules
		}
	}
	if file := (*os.PathError)(nil); errors.As(err, &file) {
		return err // nothing to read, so nothing to find a mistake in
	}
	if err != nil {
		problems := configfile.Problems(err)
		for _, p := range problems {
			fmt.Fprintln(t.err, p)
		}
		if len(problems) == 1 {
			return fmt.Errorf("%s has a mistake", checked)
		}
		return fmt.Errorf("%s has %d mistakes", checked, len(problems))
	}
	fmt.Fprintf(t.out, "%s is good.\n", checked)
	for _, l := range rules.Lists {
		pages := strings.Join(l.Pages, " ")
		if pages == "" {
			pages = "(beacons only)"
		}
		fmt.Fprintf(t.out, "  %-20s %-10s %s\n", l.Name, l.Score.Model, pages)
	}
	return nil
}
