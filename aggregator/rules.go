package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/revisions"
)

const rulesUsage = `Shows and changes the rules of an installation. They are kept in the broker as
numbered revisions; the one with the highest number is the current revision.

Usage:

  aggregator rules [list]         list the revisions, the newest last
  aggregator rules show N         print the rules of a revision; they are a rules file
  aggregator rules use N          put the rules of an earlier revision in force again.
                                  N may also be the name of a document, as add prints it
  aggregator rules add FILE       put the document of a rules file into the broker. It
                                  becomes the first revision if there is none
  aggregator rules authority NAME choose what decides the rules: caddyfile (the edges'
                                  configuration) or aggregator (the aggregator's)

Each takes -config FILE or -data DIR before its argument. To see beforehand what
other rules would change, use aggregator check -against N.

`

func rules(ctx context.Context, args []string, t terminal) error {
	command := "list"
	if len(args) > 0 && (args[0] == "" || args[0][0] != '-') {
		command, args = args[0], args[1:]
	}
	do, known := map[string]func(context.Context, *target, string, io.Writer) error{
		"list": listRevisions, "show": showRevision, "use": useRevision, "add": addDocument, "authority": setAuthority,
	}[command]
	fs := flags("aggregator rules", rulesUsage, t)
	open := targetFlags(fs, "hotboard rules", t)
	if err := parse(fs, args, true); err != nil {
		return err
	}
	wanted := 1
	if command == "list" {
		wanted = 0
	}
	if !known || fs.NArg() != wanted {
		fmt.Fprintf(t.err, "aggregator rules %s: ", command)
		switch {
		case !known:
			fmt.Fprint(t.err, "unknown command\n\n")
		case wanted == 0:
			fmt.Fprintf(t.err, "unexpected argument %q\n\n", fs.Arg(0))
		default:
			fmt.Fprint(t.err, "one argument is required\n\n")
		}
		fs.Usage()
		return errUsage
	}
	target, err := open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, target, fs.Arg(0), t.out), target.close())
}

// revisions returns all revisions, the oldest first.
func (t *target) revisions(ctx context.Context) ([]revisions.Revision, error) {
	if _, err := t.newest(ctx, nil); err != nil {
		return nil, err
	}
	return t.book.Revisions(ctx)
}

// revision returns the revision with a number.
func (t *target) revision(ctx context.Context, number uint64) (r revisions.Revision, err error) {
	all, err := t.revisions(ctx)
	if err != nil {
		return r, err
	}
	for _, r := range all {
		if r.Number == number {
			return r, nil
		}
	}
	return r, fmt.Errorf("no revision %d: there are %d to %d", number, all[0].Number, all[len(all)-1].Number)
}

func listRevisions(ctx context.Context, target *target, _ string, out io.Writer) error {
	all, err := target.revisions(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tRULES\tADDED\tAUTHORITY\tBY\tFROM")
	for i, r := range all {
		mark := ""
		if i == len(all)-1 {
			mark = " (current)"
		}
		fmt.Fprintf(w, "%d%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, mark, r.Rules.Short(), r.At.Format(time.RFC3339), r.Authority, r.By, r.From)
	}
	return w.Flush()
}

func showRevision(ctx context.Context, target *target, arg string, out io.Writer) error {
	number, err := parseNumber(arg)
	if err != nil {
		return err
	}
	r, err := target.revision(ctx, number)
	if err != nil {
		return err
	}
	rules, err := target.book.Rules(ctx, r.Rules)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(json.RawMessage(rules.Document()), "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "# %s, %s, from %s\n%s\n", r, r.At.Format(time.RFC3339), dash(r.From), text)
	return err
}

func useRevision(ctx context.Context, target *target, arg string, out io.Writer) error {
	current, err := target.newest(ctx, nil)
	if err != nil {
		return err
	}
	next := revisions.Revision{Authority: current.Authority}
	if id, err := hit.ParseRulesID(arg); err == nil {
		next.Rules, next.From = id, "document "+id.Short()
	} else {
		number, err := parseNumber(arg)
		if err != nil {
			return err
		}
		r, err := target.revision(ctx, number)
		if err != nil {
			return err
		}
		next.Rules, next.BotsFile, next.From = r.Rules, r.BotsFile, fmt.Sprint("revision ", r.Number)
	}
	if next.Rules == current.Rules {
		fmt.Fprintf(out, "Nothing changes: %s has these rules.\n", current)
		return nil
	}
	if _, err := target.book.Rules(ctx, next.Rules); err != nil { // nobody could use it
		return err
	}
	return target.add(ctx, next, current, out)
}

// add adds a revision after the current one.
func (t *target) add(ctx context.Context, next, current revisions.Revision, out io.Writer) error {
	next.By = whoami()
	added, err := t.book.Add(ctx, next, current.Number)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Added %s. It is the current revision.\n", added)
	return nil
}

func addDocument(ctx context.Context, target *target, file string, out io.Writer) error {
	r, err := config.LoadRules(file)
	if err != nil {
		return err
	}
	current, err := target.newest(ctx, r)
	if err != nil {
		return err
	}
	if err := target.book.PutDocument(ctx, r.Document()); err != nil {
		return err
	}
	fmt.Fprintf(out, "The broker has the document %s.\n", r.ID())
	if current.Rules == r.ID() {
		fmt.Fprintf(out, "It is in force already, as %s.\n", current)
	} else {
		fmt.Fprintf(out, "To put it in force: aggregator rules use %s\n", r.ID())
	}
	return nil
}

func setAuthority(ctx context.Context, target *target, name string, out io.Writer) error {
	authority, err := revisions.ParseAuthority(name)
	if err != nil {
		return err
	}
	current, err := target.newest(ctx, nil)
	if err != nil {
		return err
	}
	if current.Authority == authority {
		fmt.Fprintf(out, "Nothing changes: %s has this authority.\n", current)
		return nil
	}
	return target.add(ctx, revisions.Revision{Rules: current.Rules, BotsFile: current.BotsFile, Authority: authority, From: fmt.Sprint("revision ", current.Number)}, current, out)
}

func parseNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%.80q is not the number of a revision", s)
	}
	return n, nil
}
