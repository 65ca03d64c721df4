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
                                             say what is wrong with a configuration
  aggregator import [-config FILE | -data DIR] LOG...
                                             count access logs; - is standard input
  aggregator replay [-config FILE | -data DIR] FILE...
                                             count hits that an edge wrote to a file
  aggregator bots [-file FILE] [-rules FILE] say which User-Agents are bots', and why
  aggregator version                         say which build this is

FILE is aggregator.yaml unless it is given. Each command tells more with -help.

While it runs:

  SIGHUP             reads the rules again
  SIGTERM, SIGINT    finish what is being counted and stop; a second one aborts

`

// defaultConfig is the configuration file where none is named.
const defaultConfig = "aggregator.yaml"

// errUsage ends a command whose arguments make no sense; what is wrong has been
// said already.
var errUsage = errors.New("usage")

// terminal is what a command speaks to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	// The first signal ends the context. From then on a signal does what it does
	// to any program: it kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], terminal{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs one command and returns the exit status: 0, 1 for a failure, 2 for
// arguments that make no sense.
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
		err = check(rest, t)
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
		fmt.Fprintf(t.err, "aggregator: there is no command %q\n\n%s", command, usage)
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

// flags returns the flag set of a command. text is what its -help begins with.
func flags(name, text string, t terminal) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprint(t.err, text)
		fs.PrintDefaults()
	}
	return fs
}

// parse reads a command's arguments. It takes no others than flags unless
// others is set.
func parse(fs *flag.FlagSet, args []string, others bool) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage // package flag has said what is wrong
	}
	if !others && fs.NArg() > 0 {
		fmt.Fprintf(fs.Output(), "aggregator: nothing can be done with %q\n\n", fs.Arg(0))
		fs.Usage()
		return errUsage
	}
	return nil
}
