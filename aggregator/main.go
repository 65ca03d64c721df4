// The aggregator reads the log of hits, keeps the counts and serves the boards.
// It also checks its configuration and imports access logs; see -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `The Hotboard aggregator counts the hits that edges send, and serves the boards.

Usage:

  aggregator [-config FILE]                  run until interrupted
  aggregator check [-config FILE | -rules FILE]
                                             find mistakes in a configuration
  aggregator rules [-config FILE | -data DIR]
                                             list the revisions of the rules; -help for more
  aggregator import [-config FILE | -data DIR] LOG...
                                             count access logs; - is standard input
  aggregator replay [-config FILE | -data DIR] FILE...
                                             count hits that an edge wrote to a file
  aggregator bots [-file FILE] [-rules FILE] classify User-Agents as bots or persons
  aggregator version                         say which build this is

FILE defaults to aggregator.yaml. Run a command with -help for more.

While it runs:

  SIGHUP             reloads the rules of the configuration
  SIGTERM, SIGINT    finishes the commits in progress and stops; a second one aborts

`

// defaultConfig is the default configuration file.
const defaultConfig = "aggregator.yaml"

// errUsage ends a command with wrong arguments, after a message to the user.
var errUsage = errors.New("usage")

// terminal is the input and output of a command.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	// The first signal ends the context. A second one kills the process, as in any
	// program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], terminal{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs one command and returns the exit status: 0, 1 for a failure, 2 for wrong
// arguments.
func run(ctx context.Context, args []string, t terminal) int {
	command, rest := "serve", args
	if len(args) > 0 && (args[0] == "" || args[0][0] != '-') {
		command, rest = args[0], args[1:]
	}
	var err error
	switch command {
	case "serve":
		err = serve(ctx, rest, t)
	case "check":
		err = check(ctx, rest, t)
	case "rules":
		err = rules(ctx, rest, t)
	case "import":
		err = importLogs(ctx, rest, t)
	case "replay":
		err = replay(ctx, rest, t)
	case "bots":
		err = classifyBots(rest, t)
	case "version":
		err = printVersion(rest, t)
	case "help":
		fmt.Fprint(t.out, usage)
	default:
		fmt.Fprintf(t.err, "aggregator: unknown command %q\n\n%s", command, usage)
		err = errUsage
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintf(t.err, "aggregator: %v\n", err)
		return 1
	}
}

// flags returns the flag set of a command. text begins its -help.
func flags(name, text string, t terminal) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprint(t.err, text)
		fs.PrintDefaults()
	}
	return fs
}

// parse reads a command's arguments. It refuses any but flags unless others is set.
func parse(fs *flag.FlagSet, args []string, others bool) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage // package flag has printed the mistake
	}
	if !others && fs.NArg() > 0 {
		fmt.Fprintf(fs.Output(), "aggregator: unexpected argument %q\n\n", fs.Arg(0))
		fs.Usage()
		return errUsage
	}
	return nil
}
