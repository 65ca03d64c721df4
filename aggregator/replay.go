package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/hotboard/hotboard/aggregator/importer"
	"github.com/hotboard/hotboard/ruleset"
)

const replayUsage = `Counts the hits in files that edges saved because the aggregator may not have
counted them: doubtful-….hits in the directory of a spool. Replaying a file twice
counts it once. To continue an interrupted replay, run the same command again.

Replay ignores views that were counted before, as far as dedup recognises a
visitor's next view of the same item. The same holds for votes of a poll with
dedup, and for votes over the quota of a calendar window. Other votes, and views
after the dedup time of the list, may count twice.

Usage:

  aggregator replay -data DIR FILE...       into the embedded default, running or not
  aggregator replay [-config FILE] FILE...  into a running aggregator

`

func replay(ctx context.Context, args []string, t terminal) error {
	fs := flags("aggregator replay", replayUsage, t)
	open := targetFlags(fs, "hotboard replay", t)
	if err := parse(fs, args, true); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		fmt.Fprint(t.err, "aggregator replay: which file?\n\n")
		fs.Usage()
		return errUsage
	}
	target, err := open(ctx)
	if err != nil {
		return err
	}
	_, rules, err := target.current(ctx, nil)
	for _, name := range fs.Args() {
		if err == nil {
			err = target.replay(ctx, name, rules, t)
		}
	}
	return errors.Join(err, target.close())
}

// replay counts one file.
func (target *target) replay(ctx context.Context, name string, rules *ruleset.Rules, t terminal) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("opening the file: %w", err)
	}
	defer file.Close()
	r, err := importer.ReadRecording(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	lists := slices.Sorted(maps.Keys(r.Hits))
	for _, l := range lists {
		if rules.List(l) == nil {
			return errNoList(l)
		}
	}
	p := newProgress(t.err, name)
	already, err := importer.Replay(ctx, importer.Options{Conn: target.conn, Rules: rules, Progress: p.show}, r)
	p.end()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("replaying %s was interrupted; run the same command again to continue", name)
		}
		return fmt.Errorf("replaying %s: %w", name, err)
	}
	writeReplayed(t.out, name, lists, r, already)
	if r.Bad != nil {
		return fmt.Errorf("%s: the rest after its first %d batches is unreadable: %w", name, r.Batches, r.Bad)
	}
	return nil
}

func writeReplayed(w io.Writer, name string, lists []string, r *importer.Recording, already bool) {
	fmt.Fprintf(w, "%s\n%10d  batches\n", name, r.Batches)
	for _, l := range lists {
		fmt.Fprintf(w, "%10d  hits of list %s\n", r.Hits[l], l)
	}
	if already {
		fmt.Fprintln(w, "Nothing changed: all of this was replayed before.")
		return
	}
	fmt.Fprintln(w, "All hits are applied, except those that the rules refuse. You can delete the file.")
}
