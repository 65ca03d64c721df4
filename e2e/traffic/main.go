// Command traffic sends generated visitors to a site that runs Hotboard, so that
// its boards visibly move, and checks the site's counts.
//
// It finds the articles on the index page and reads them with Zipf popularity, with
// bursts, and with visitors who return. Between them come bots, prefetches, HEAD
// requests and style sheets, which must not be counted.
//
// It computes the correct count itself, and compares it with /api/stats at the end.
// The two agree when nobody else reads the site meanwhile and the site trusts the
// X-Forwarded-For header, which gives every generated visitor an address.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Upper bounds of the flags.
const (
	maxRate     = 5000 // requests a second
	maxDuration = time.Hour
	maxVisitors = 1_000_000
)

type options struct {
	sites    []*url.URL
	list     string
	prefix   string
	duration time.Duration
	rate     float64
	visitors int
	dedup    time.Duration
	seed     uint64
	check    bool
	anywhere bool
	settle   time.Duration // how long to wait for the site's count at the end
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the run with its summary, a second one at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "traffic:", err)
		return 2
	}
	ok, err := drive(ctx, o, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "traffic:", err)
		return 1
	}
	if o.check && !ok {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{settle: 10 * time.Second}
	fs := flag.NewFlagSet("traffic", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, `Sends made-up visitors, bots and prefetches to a site that runs Hotboard, shows
the hot list while it moves, and compares the site's count with its own.

  go run ./e2e/traffic                      a minute of traffic for the quick start
  go run ./e2e/traffic -for 10m -rate 200
  go run ./e2e/traffic -url http://localhost:8081 -url http://localhost:8082

Ctrl-C ends the run early, with the summary.

`)
		fs.PrintDefaults()
	}
	fs.Func("url", "`address` of the site; repeat it to spread the visitors over several edges (default http://localhost:8080)", func(s string) error {
		u, err := url.Parse(strings.TrimSuffix(s, "/"))
		if err != nil {
			return err
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return errors.New("an address looks like http://localhost:8080")
		}
		o.sites = append(o.sites, u)
		return nil
	})
	fs.DurationVar(&o.duration, "for", time.Minute, "how long to send, at most "+maxDuration.String())
	fs.Float64Var(&o.rate, "rate", 50, fmt.Sprintf("requests a second, at most %d", maxRate))
	fs.IntVar(&o.visitors, "visitors", 2000, "the number of visitors")
	fs.StringVar(&o.list, "list", "articles", "the list of the articles")
	fs.StringVar(&o.prefix, "prefix", "/articles/", "the beginning of an article's path")
	fs.DurationVar(&o.dedup, "dedup", 10*time.Minute, "the list's dedup window; 0 when it has none")
	fs.Uint64Var(&o.seed, "seed", 0, "repeat a run's choices: the same seed makes the same visitors (default: random)")
	fs.BoolVar(&o.check, "check", false, "exit with status 1 when the site counted something else")
	fs.BoolVar(&o.anywhere, "anywhere", false, "allow a site that is not on this machine; ask its owner first")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -help", fs.Arg(0))
	}
	if len(o.sites) == 0 {
		o.sites = []*url.URL{{Scheme: "http", Host: "localhost:8080"}}
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o, o.validate()
}

func (o *options) validate() error {
	switch {
	case o.duration <= 0 || o.duration > maxDuration:
		return fmt.Errorf("-for %v is not between 0 and %v", o.duration, maxDuration)
	case !(o.rate > 0 && o.rate <= maxRate):
		return fmt.Errorf("-rate %v is not between 0 and %d", o.rate, maxRate)
	case o.visitors < 1 || o.visitors > maxVisitors:
		return fmt.Errorf("-visitors %d is not between 1 and %d", o.visitors, maxVisitors)
	case o.dedup < 0:
		return fmt.Errorf("-dedup %v is negative", o.dedup)
	}
	for _, u := range o.sites {
		if !o.anywhere && !loopback(u.Hostname()) {
			return fmt.Errorf("%s is not on this machine; -anywhere allows it, if its owner does", u.Host)
		}
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// drive sends the traffic and reports whether the site counted it right.
func drive(ctx context.Context, o *options, out *os.File) (bool, error) {
	site := newSite(o.sites, o.list)
	pages, assets, err := site.discover(ctx, o.prefix)
	if err != nil {
		return false, err
	}
	before, err := site.totals(ctx)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%d articles on %s, list %q; %v at %g requests a second, seed %d\n\n",
		len(pages), o.sites[0], o.list, o.duration, o.rate, o.seed)

	account := &account{}
	p := newPlan(planOptions{
		pages: pages, assets: assets, visitors: o.visitors, dedup: o.dedup, seed: o.seed, start: time.Now(),
	})
	screen := newScreen(out, o.prefix, o.duration)
	sending, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		screen.follow(sending, site, account)
	}()
	send(sending, site, p, account, o.rate)
	cancel()
	<-shown

	// The count lags behind the last request. The wait has its own limit, because
	// Ctrl-C has already ended ctx.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.settle)
	defer cancel()
	after, err := site.settle(settling, before, account.expected())
	if err != nil {
		return false, err
	}
	return summarize(out, account.snapshot(), after.minus(before)), nil
}
