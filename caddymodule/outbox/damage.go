package outbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
)

// Files that the operator must inspect. A fault is raised while one exists.
const (
	damageFiles   = "damage-*.txt"
	doubtfulFiles = "doubtful-*.hits"
)

// damage counts unreadable batches.
type damage struct {
	Lost  uint64 // batches
	Saved uint64 // readable batches
	// Unknown reports that more may be lost, because the state was unreadable
	// too.
	Unknown bool
}

func (d *damage) text() string {
	atLeast := ""
	if d.Unknown {
		atLeast = "at least "
	}
	text := fmt.Sprintf("Batches of hits that could not be read from the spool: %s%d. Hits in them that are not counted yet are lost.", atLeast, d.Lost)
	if d.Saved > 0 {
		text += fmt.Sprintf(" Batches that could be read and are sent: %d.", d.Saved)
	}
	return text
}

// report writes damage to a file. It replaces a report of the same name.
func (s *spool) report(name string, d *damage) error {
	return datadir.Replace(filepath.Join(s.dir, "damage-"+name+".txt"), []byte(d.text()+"\n"))
}

// reportUnreadable reports batches that became unreadable after the spool was
// opened.
func (s *spool) reportUnreadable(batches uint64) error {
	s.unreadable += batches
	return s.report(s.edge, &damage{Lost: s.unreadable})
}

// lookForFiles raises faults for files that the operator must inspect, and clears
// those whose files are gone.
func (o *Outbox) lookForFiles() {
	damaged, _ := filepath.Glob(filepath.Join(o.opts.Dir, damageFiles)) // the pattern is valid
	var texts []byte
	for _, path := range damaged[:min(len(damaged), 3)] {
		text, err := os.ReadFile(path)
		if err != nil {
			text = []byte("Batches of hits could not be read from the spool.\n")
		}
		texts = fmt.Appendf(texts, "%.300s ", bytes.TrimSpace(text))
	}
	if len(damaged) > 0 {
		texts = fmt.Appendf(texts, "Check the disk. The edge set aside unreadable data in %s, where possible. To acknowledge this, delete %s",
			filepath.Join(o.opts.Dir, "*.damaged-*"), filepath.Join(o.opts.Dir, damageFiles))
	}
	select {
	case <-o.opened:
		texts = o.appendMissing(texts, o.spool.missingDocuments())
	default:
	}
	if len(texts) > 0 {
		o.opts.Faults.Set(faults.SpoolDamaged, faults.Whole, string(texts))
	} else {
		o.opts.Faults.Clear(faults.SpoolDamaged, faults.Whole)
	}
	doubtful, _ := filepath.Glob(filepath.Join(o.opts.Dir, doubtfulFiles))
	if len(doubtful) == 0 {
		o.opts.Faults.Clear(faults.Doubtful, faults.Whole)
		return
	}
	o.opts.Faults.Set(faults.Doubtful, faults.Whole, fmt.Sprintf(
		"it is unknown whether the hits in %s were counted, because two processes had the same spool. To count them, run `aggregator replay` with that file; then, or to discard them, delete it (%d such files)",
		doubtful[0], len(doubtful)))
}

// appendMissing describes documents that batches name and that cannot be read from
// the spool.
func (o *Outbox) appendMissing(text []byte, missing []document) []byte {
	if len(missing) == 0 {
		return text
	}
	if len(text) > 0 {
		text = append(text, ". "...)
	}
	batches := 0
	for _, d := range missing {
		batches += d.live
	}
	return fmt.Appendf(text, "The document %s of the rules of %d batches cannot be read from %s (%d such documents). "+
		"Unless the log has it, these batches wait. Check the disk, then load the rules again under which the hits were accepted, or run `aggregator rules add` with them",
		missing[0].id, batches, filepath.Join(o.opts.Dir, documentDir), len(missing))
}
