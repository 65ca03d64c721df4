package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hotboard/hotboard/aggregator/importer"
)

// progress shows the progress of an import or a replay: on a terminal one changing
// line, elsewhere only the reasons for waiting.
type progress struct {
	w        io.Writer
	name     string
	terminal bool
	shown    time.Time
	waiting  string
}

func newProgress(w io.Writer, name string) *progress {
	p := &progress{w: w, name: name}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(now importer.Progress) {
	if now.Waiting != p.waiting {
		p.waiting = now.Waiting
		if now.Waiting != "" {
			p.end()
			fmt.Fprintf(p.w, "%s: %s\n", p.name, now.Waiting)
		}
	}
	if !p.terminal || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	share := 100
	if now.Batches > 0 {
		share = 100 * now.Counted / now.Batches
	}
	read := ""
	if now.Lines > 0 {
		read = fmt.Sprintf("%d lines read, ", now.Lines)
	}
	fmt.Fprintf(p.w, "\r%s: %s%d %% counted\x1b[K", p.name, read, share)
}

// end leaves a clean line behind.
func (p *progress) end() {
	if p.terminal && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = time.Time{}
	}
}
