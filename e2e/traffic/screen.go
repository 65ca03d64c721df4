package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	topRows  = 5
	moveStay = 5 * time.Second // how long a movement stays on the screen
	maxWidth = 78              // columns of a line
)

// screen shows the run: on a terminal a table, redrawn every second; elsewhere a
// line every second.
type screen struct {
	out      io.Writer
	terminal bool
	prefix   string
	total    time.Duration
	start    time.Time
	drawn    int // lines of the last table

	ranks map[string]int // at the last check
	moves map[string]movement
}

type movement struct {
	by   int // ranks gained
	seen time.Time
}

func newScreen(out *os.File, prefix string, total time.Duration) *screen {
	info, err := out.Stat()
	return &screen{
		out: out, prefix: prefix, total: total, start: time.Now(),
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
		moves:    map[string]movement{},
	}
}

// follow shows the progress of the run until ctx ends.
func (sc *screen) follow(ctx context.Context, s *site, a *account) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		hot, err := s.hot(ctx, topRows)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if err == nil {
			sc.compare(hot, now)
		}
		sc.draw(a.snapshot(), hot, err, now)
	}
}

// compare records movements since the last check.
func (sc *screen) compare(b *board, now time.Time) {
	ranks := map[string]int{}
	for _, item := range b.Items {
		ranks[item.ID] = item.Rank
		before, ok := sc.ranks[item.ID]
		if !ok {
			before = topRows + 1 // from below the table
		}
		if sc.ranks != nil && before != item.Rank {
			sc.moves[item.ID] = movement{before - item.Rank, now}
		}
	}
	sc.ranks = ranks
}

func (sc *screen) arrow(id string, now time.Time) string {
	m, ok := sc.moves[id]
	switch {
	case !ok || m.by == 0 || now.Sub(m.seen) > moveStay:
		return ""
	case m.by > 0:
		return fmt.Sprintf("▲%d", m.by)
	default:
		return fmt.Sprintf("▼%d", -m.by)
	}
}

func (sc *screen) draw(t tally, b *board, err error, now time.Time) {
	if !sc.terminal {
		fmt.Fprintln(sc.out, sc.line(t, b, err, now))
		return
	}
	lines := sc.table(t, b, err, now)
	if sc.drawn > 0 {
		fmt.Fprintf(sc.out, "\x1b[%dA\x1b[J", sc.drawn) // up, and clear to the end
	}
	sc.drawn = len(lines)
	for _, l := range lines {
		fmt.Fprintln(sc.out, clip(l))
	}
}

func (sc *screen) line(t tally, b *board, err error, now time.Time) string {
	s := fmt.Sprintf("%s  sent %d  to count %d  duplicates %d  bots %d  prefetches %d  failed %d",
		sc.clock(now), t.total(), t.counted, t.duplicate, t.sent[bot], t.sent[prefetch], t.failed)
	if err != nil {
		return s + "  hot: " + err.Error()
	}
	s += "  hot:"
	for _, item := range b.Items {
		s += fmt.Sprintf(" %d %s%s", item.Rank, item.ID, sc.arrow(item.ID, now))
	}
	return s
}

func (sc *screen) table(t tally, b *board, err error, now time.Time) []string {
	lines := []string{
		fmt.Sprintf("%s   %d requests, %d failed", sc.clock(now), t.total(), t.failed),
		fmt.Sprintf("to count %-8d duplicates %d", t.counted, t.duplicate),
		fmt.Sprintf("bots %-12d prefetches %-8d HEAD %-8d assets %d", t.sent[bot], t.sent[prefetch], t.sent[head], t.sent[asset]),
	}
	if t.burst != "" {
		lines = append(lines, "burst    "+strings.TrimPrefix(t.burst, sc.prefix), "")
	} else {
		lines = append(lines, "burst    none just now", "")
	}
	if err != nil {
		return append(lines, "hot      "+err.Error())
	}
	lines = append(lines, fmt.Sprintf("%4s  %-40s %4s %10s %9s", "hot", "", "", "score", "views"))
	for _, item := range b.Items {
		lines = append(lines, fmt.Sprintf("%4d  %-40s %4s %10.3f %9d",
			item.Rank, shorten(item.ID, 40), sc.arrow(item.ID, now), item.Score, item.Views))
	}
	return lines
}

func (sc *screen) clock(now time.Time) string {
	f := func(d time.Duration) string {
		d = d.Round(time.Second)
		return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
	}
	return f(now.Sub(sc.start)) + " of " + f(sc.total)
}

// clip shortens a line that would wrap and so spoil the next drawing.
func clip(line string) string { return shorten(line, maxWidth) }

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// summarize compares the site's count with the account and prints the result. It
// reports whether they agree.
func summarize(out io.Writer, t tally, site totals) bool {
	fmt.Fprintf(out, "\nsent %d requests: %d read", t.total(), t.sent[read])
	for k := bot; k < kinds; k++ {
		fmt.Fprintf(out, ", %d %s", t.sent[k], kindNames[k])
	}
	fmt.Fprintf(out, "; %d failed\n\n", t.failed)
	fmt.Fprintf(out, "%12s %10s %10s\n", "", "expected", "the site")
	fmt.Fprintf(out, "%12s %10d %10d\n", "counted", t.counted, site.Views)
	fmt.Fprintf(out, "%12s %10d %10d\n\n", "duplicates", t.duplicate, site.Duplicates)
	switch {
	case site == totals{t.counted, t.duplicate}:
		fmt.Fprintln(out, "The site counted exactly that.")
		return true
	case t.failed > 0:
		fmt.Fprintln(out, "They differ. A request that failed may have been counted or not.")
	case site.Views < t.counted:
		fmt.Fprintln(out, "The site counted less. Does it trust X-Forwarded-For from here (trusted_proxies)? Does -dedup equal the list's? Its metrics and log name dropped hits.")
	default:
		fmt.Fprintln(out, "The site counted more. Did somebody else read it meanwhile? Is -dedup the list's?")
	}
	return false
}
