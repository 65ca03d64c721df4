package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/aggregator/embedded"
	"github.com/hotboard/hotboard/aggregator/importer"
	"github.com/hotboard/hotboard/hit"
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

LOG is a file, or - for standard input. The rules are those of the configuration
or of the embedded default, unless -rules names others.

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
	target, err := open(ctx, rules)
	if err != nil {
		return err
	}
	patterns, failed := loadPatterns(*botsFile, target.rules)
	if failed == nil {
		failed = target.knows(ctx, *list)
	}
	for _, name := range fs.Args() {
		if failed != nil {
			break
		}
		failed = importLog(ctx, importer.Options{
			Conn: target.conn, Rules: target.rules, Patterns: patterns, List: *list, WithoutBotsCheck: *withoutBots,
		}, name, t)
	}
	return errors.Join(failed, target.close())
}

// loadPatterns reads the patterns of bots from a file, or else from the one that the
// rules name, if any.
func loadPatterns(file string, rules *ruleset.Rules) (*bots.Patterns, error) {
	named := file == "" && rules.Bots != nil && rules.Bots.File != ""
	if named {
		file = rules.Bots.File
	}
	if file == "" {
		return nil, nil
	}
	p, err := bots.LoadFile(file)
	if err != nil && named {
		return nil, fmt.Errorf("%w (the rules name this file; if it is elsewhere, name it with -bots)", err)
	}
	return p, err
}

// importTarget is the installation that receives imported and replayed hits.
type importTarget struct {
	conn  *nats.Conn
	rules *ruleset.Rules
	close func() error
}

// targetFlags adds the flags that name a target, and returns a function that opens
// it. name is the name of the connection. Without rules the target uses the rules in
// force there.
func targetFlags(fs *flag.FlagSet, name string, t terminal) (open func(context.Context, *ruleset.Rules) (*importTarget, error)) {
	path := fs.String("config", defaultConfig, "the aggregator's configuration `file`")
	data := fs.String("data", "", "the data `directory` of the embedded default")
	return func(ctx context.Context, rules *ruleset.Rules) (*importTarget, error) {
		// The progress line reports the state of the broker.
		log := slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelError}))
		if *data != "" {
			return embeddedTarget(ctx, *data, name, rules, log)
		}
		return daemonTarget(*path, name, rules, log)
	}
}

// knows makes sure that the aggregator has the lists: it would ignore the views of
// others, and a log is imported only once.
func (t *importTarget) knows(ctx context.Context, only string) error {
	inForce, err := rulesInForce(ctx, t.conn)
	if err != nil {
		return fmt.Errorf("asking the aggregator for its rules (is it running?): %w", err)
	}
	for _, l := range t.rules.Lists {
		if (only == "" || only == l.Name) && l.Votes == nil && inForce.List(l.Name) == nil {
			return errNoList(l.Name)
		}
	}
	return nil
}

func errNoList(name string) error {
	return fmt.Errorf("the aggregator has no list %s and would ignore its hits: add it to the rules there first", name)
}

// daemonTarget is the running aggregator of a configuration.
func daemonTarget(path, name string, rules *ruleset.Rules, log *slog.Logger) (*importTarget, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	nc, err := connect(c, name, log)
	if err != nil {
		return nil, err
	}
	if rules == nil {
		rules = c.Rules
	}
	return &importTarget{nc, rules, func() error { nc.Close(); return nil }}, nil
}

// embeddedTarget is the embedded backend that runs in a directory, or else one that
// it starts for the command.
func embeddedTarget(ctx context.Context, dir, name string, rules *ruleset.Rules, log *slog.Logger) (*importTarget, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("no directory %s: name the dir of the site's configuration, or create it for a new site", dir)
	}
	if url, err := embedded.URL(dir); err == nil {
		// One try: after a crash the file names a port where nothing listens.
		if probe, err := nats.Connect(url, nats.Timeout(2*time.Second)); err == nil {
			probe.Close()
			nc, err := nats.Connect(url, app.ConnectOptions(name, log)...)
			if err != nil {
				return nil, fmt.Errorf("connecting to the site that runs in %s: %w", dir, err)
			}
			if rules == nil {
				if rules, err = rulesInForce(ctx, nc); err != nil {
					nc.Close()
					return nil, fmt.Errorf("asking the site that runs in %s for its rules: %w", dir, err)
				}
			}
			return &importTarget{nc, rules, func() error { nc.Close(); return nil }}, nil
		}
	}
	e, err := embedded.Open(ctx, embedded.Options{Dir: dir, Rules: rules, Logger: log})
	if err != nil {
		return nil, err
	}
	return &importTarget{e.Conn(), e.Rules(), e.Close}, nil
}

func rulesInForce(ctx context.Context, nc *nats.Conn) (*ruleset.Rules, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, hit.SubjectRules, nil)
	if err != nil {
		return nil, err
	}
	if err := hit.ReplyError(msg.Header); err != nil {
		return nil, err
	}
	return ruleset.ParseJSON(msg.Data)
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
