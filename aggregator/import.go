package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/aggregator/importer"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

const importUsage = `Counts access logs in combined, common or Caddy's JSON format, plain or gzipped,
by the same rules as live traffic and with the times in the log. Importing a log
twice counts it once; an import that was interrupted goes on when it is started
again.

Usage:

  aggregator import -data DIR LOG...       into the embedded default, running or not
  aggregator import [-config FILE] LOG...  into a running aggregator

LOG is a file, or - for standard input. The rules are those of the current
revision, unless -rules names others.

A log is refused, and nothing of it imported, if most of its lines cannot be read,
or if it has no User-Agents, as in the common format: nobody can tell bots from
readers then. With -without-bots-check it counts, bots included.

`

func importLogs(ctx context.Context, args []string, t terminal) error {
	fs := flags("aggregator import", importUsage, t)
	open := targetFlags(fs, "hotboard import", t)
	rulesFile := fs.String("rules", "", "a `file` of rules")
	list := fs.String("list", "", "the only `list` to count")
	withoutBots := fs.Bool("without-bots-check", false, "count requests without a User-Agent in the log as readers', also those of bots")
	botsFile := fs.String("bots", "", "the `file` of patterns of bots (default: the one that the rules name)")
	if err := parse(fs, args, true); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		fmt.Fprint(t.err, "aggregator import: which log?\n\n")
		fs.Usage()
		return errUsage
	}
	var rules *ruleset.Rules
	if *rulesFile != "" {
		var err error
		if rules, err = config.LoadRules(*rulesFile); err != nil {
			return err
		}
	}
	target, err := open(ctx)
	if err != nil {
		return err
	}
	current, inForce, failed := target.current(ctx, rules)
	var patterns *bots.Patterns
	if failed == nil {
		named := current.BotsFile
		if rules == nil {
			rules = inForce
		} else if named = ""; rules.Bots != nil {
			named = rules.Bots.File
		}
		patterns, failed = loadPatterns(*botsFile, named)
	}
	if failed == nil {
		failed = knows(inForce, rules, *list)
	}
	for _, name := range fs.Args() {
		if failed != nil {
			break
		}
		failed = importLog(ctx, importer.Options{
			Conn: target.conn, Rules: rules, Patterns: patterns, List: *list, WithoutBotsCheck: *withoutBots,
		}, name, t)
	}
	return errors.Join(failed, target.close())
}

// loadPatterns reads the patterns of bots from a file, or else from the one that the
// rules name, if any.
func loadPatterns(file, named string) (*bots.Patterns, error) {
	path := cmp.Or(file, named)
	if path == "" {
		return nil, nil
	}
	p, err := bots.LoadFile(path)
	if err != nil && file == "" {
		return nil, fmt.Errorf("%w (the rules name this file; if it is elsewhere, name it with -bots)", err)
	}
	return p, err
}

// knows makes sure that the rules in force have the lists that an import counts:
// nobody would see the others, and a log is imported only once.
func knows(inForce, rules *ruleset.Rules, only string) error {
	for _, l := range rules.Lists {
		if (only == "" || only == l.Name) && l.Votes == nil && inForce.List(l.Name) == nil {
			return errNoList(l.Name)
		}
	}
	return nil
}

func errNoList(name string) error {
	return fmt.Errorf("the current rules have no list %s, so nobody would see its hits: add it to the rules first", name)
}

// importLog imports one file, or standard input.
func importLog(ctx context.Context, o importer.Options, name string, t terminal) error {
	file, err := openLog(name, t)
	if err != nil {
		return err
	}
	defer file.Close()
	p := newProgress(t.err, name)
	o.Progress = p.show
	s, err := importer.Import(ctx, o, file)
	p.end()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("importing %s was interrupted; run the same command again to go on", name)
		}
		if errors.Is(err, importer.ErrNoUserAgents) {
			err = fmt.Errorf("%w. Import a log that has them, such as one in combined format, or count all of these requests as readers' with -without-bots-check", err)
		}
		return fmt.Errorf("importing %s: %w", name, err)
	}
	fmt.Fprintf(t.out, "%s\n", name)
	s.Write(t.out)
	return nil
}

// openLog opens a log so that it can be read twice: it copies standard input and pipes
// to a temporary file.
func openLog(name string, t terminal) (io.ReadSeekCloser, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
		// A pipe, such as <(zcat …).
		defer f.Close()
		return keep(f)
	}
	return keep(t.in)
}

func keep(r io.Reader) (io.ReadSeekCloser, error) {
	f, err := os.CreateTemp("", "hotboard-import-") // readable by the owner only
	if err != nil {
		return nil, fmt.Errorf("keeping the log for a second reading: %w", err)
	}
	kept := &keptLog{f}
	if _, err := io.Copy(f, r); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping the log for a second reading: %w", err), kept.Close())
	}
	return kept, nil
}

// keptLog is a temporary file that Close removes.
type keptLog struct{ *os.File }

// Close closes and removes the file.
func (k *keptLog) Close() error { return errors.Join(k.File.Close(), os.Remove(k.Name())) }
