package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

const checkUsage = `Finds every mistake in a configuration, with its line. With -against it also shows
what the rules change, and what each change does to counts that are already there.
It connects to nothing, except for a revision.

Usage:

  aggregator check [-config FILE]              the aggregator's configuration, with its rules
  aggregator check -rules FILE                 a file of rules alone
  aggregator check [-rules FILE] -against FILE what they change, compared with another file
  aggregator check [-rules FILE] [-config FILE | -data DIR] -against N
                                               what they change, compared with a revision;
                                               aggregator rules lists them

`

func check(ctx context.Context, args []string, t terminal) error {
	fs := flags("aggregator check", checkUsage, t)
	open := targetFlags(fs, "hotboard check", t)
	path := fs.Lookup("config").Value
	rulesFile := fs.String("rules", "", "a `file` of rules, instead of a configuration")
	against := fs.String("against", "", "a file of rules or the number of a `revision` to compare with")
	if err := parse(fs, args, false); err != nil {
		return err
	}
	var rules *ruleset.Rules
	var err error
	checked := path.String()
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
		return err // no file, so no mistake to report
	}
	patterns := 0
	if err == nil && rules != nil && rules.Bots != nil && rules.Bots.File != "" {
		var p *bots.Patterns
		if p, err = bots.LoadFile(rules.Bots.File); err == nil {
			patterns = p.Len()
		}
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
	switch {
	case rules == nil && *against != "":
		return fmt.Errorf("%s has no rules to compare: it follows the current revision", checked)
	case rules == nil:
		fmt.Fprintf(t.out, "%s is good. It has no rules, and follows the current revision.\n", checked)
		return nil
	case *against != "":
		return compare(ctx, *against, rules, open, t.out)
	}
	describe(t.out, checked, rules, patterns)
	return nil
}

// compare prints what rules change, compared with a file or a revision.
func compare(ctx context.Context, with string, rules *ruleset.Rules, open func(context.Context) (*target, error), w io.Writer) error {
	was, err := rulesToCompare(ctx, with, open)
	if err != nil {
		return err
	}
	changes := ruleset.Diff(was, rules)
	if len(changes) == 0 {
		fmt.Fprintln(w, "Nothing changes: the rules are the same.")
	}
	for _, c := range changes {
		fmt.Fprintf(w, "%s\n    %s\n", c, c.Effect)
	}
	return nil
}

// rulesToCompare returns the rules of a file or a revision.
func rulesToCompare(ctx context.Context, with string, open func(context.Context) (*target, error)) (*ruleset.Rules, error) {
	number, err := strconv.ParseUint(with, 10, 64)
	if err != nil {
		return config.LoadRules(with)
	}
	target, err := open(ctx)
	if err != nil {
		return nil, err
	}
	var rules *ruleset.Rules
	r, err := target.revision(ctx, number)
	if err == nil {
		rules, err = target.book.Rules(ctx, r.Rules)
	}
	return rules, errors.Join(err, target.close())
}

// describe summarizes valid rules.
func describe(w io.Writer, file string, r *ruleset.Rules, patterns int) {
	polls := 0
	for _, l := range r.Lists {
		if l.Votes != nil {
			polls++
		}
	}
	fmt.Fprintf(w, "%s is good: %s (%d of votes), %s", file, plural(len(r.Lists), "list"), polls, plural(len(r.Limits), "limit"))
	if r.Bots != nil && r.Bots.File != "" {
		fmt.Fprintf(w, ", %s of bots", plural(patterns, "pattern"))
	}
	fmt.Fprintln(w, ".")
	for _, l := range r.Lists {
		fmt.Fprintf(w, "  list  %-20s %-10s %s\n", l.Name, l.Score.Model, describeList(r, l))
	}
	for _, l := range r.Limits {
		fmt.Fprintf(w, "  limit %-20s %s\n", l.Name, describeLimit(l))
	}
	if b := r.Bots; b != nil {
		fmt.Fprintf(w, "  bots  %s allowed, %s denied\n", describeClients(b.Allow), describeClients(b.Deny))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func describeList(r *ruleset.Rules, l *ruleset.List) string {
	switch {
	case l.Votes != nil:
		s := "votes for any option"
		if l.Votes.Options[0] != "*" {
			s = "votes for " + plural(len(l.Votes.Options), "option")
		}
		if t := l.Votes.Opens; !t.IsZero() {
			s += ", from " + t.In(l.Location()).Format(time.RFC3339)
		}
		if t := l.Votes.Closes; !t.IsZero() {
			s += ", until " + t.In(l.Location()).Format(time.RFC3339)
		}
		if l.Votes.RequireUser {
			s += ", of users"
		}
		return s
	case r.CountsBots(l.Name):
		return "(bots)"
	case len(l.Pages) > 0:
		return strings.Join(l.Pages, " ")
	case l.ID != "":
		return l.ID
	}
	return "(beacons only)"
}

func describeLimit(l *ruleset.Limit) string {
	var b strings.Builder
	for i := range l.Windows {
		w := &l.Windows[i]
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d per %s", w.Max, w.Per)
	}
	b.WriteString(" by")
	for _, d := range l.By {
		b.WriteString(" " + string(d))
	}
	if l.Shadow {
		b.WriteString(" (shadow: refuses nothing)")
	}
	return b.String()
}

func describeClients(c *ruleset.Clients) string {
	if c == nil {
		return "0"
	}
	return fmt.Sprint(len(c.UserAgents) + len(c.CIDRs))
}
