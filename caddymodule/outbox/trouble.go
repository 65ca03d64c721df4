package outbox

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hotboard/hotboard/internal/faults"
)

// trouble is a failing operation that is retried, in one or more lanes.
type trouble struct {
	grace time.Duration // see lasting

	mu      sync.Mutex
	since   time.Time
	failing map[*lane]bool
	last    error
}

func (t *trouble) fail(err error) { t.failIn(nil, err) }
func (t *trouble) ok()            { t.okIn(nil) }

// failIn records a failure in a lane; nil: in no particular lane.
func (t *trouble) failIn(l *lane, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failing) == 0 {
		t.since, t.failing = time.Now(), map[*lane]bool{}
	}
	t.failing[l] = true
	t.last = err
}

// okIn records success in a lane, or that it has nothing to do. The trouble ends
// once that is so in all lanes.
func (t *trouble) okIn(l *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.failing, l); len(t.failing) == 0 {
		t.last = nil
	}
}

// err returns the last error of a current failure, or nil.
func (t *trouble) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// lasting returns the last error of a failure that has lasted for grace, or nil.
func (t *trouble) lasting() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || time.Since(t.since) < t.grace {
		return nil
	}
	return t.last
}

// diskFailed records that hits cannot be written to the spool.
func (o *Outbox) diskFailed(err error) {
	o.diskTrouble.fail(err)
	o.opts.Faults.Set(faults.SpoolFailing, faults.Whole, fmt.Sprintf("%.500s. %s. "+
		"Until then beacons and votes are refused, and views wait in memory", err, remedy(err)))
}

// remedy returns the remedy for an error of the spool.
func remedy(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return "Bring back the log or the aggregator, so that hits are counted"
	case errors.Is(err, syscall.ENOSPC):
		return "Make room on the disk"
	}
	return "Correct this; the edge tries again by itself"
}

// diskWorks records that hits can be written.
func (o *Outbox) diskWorks() {
	o.diskTrouble.ok()
	o.opts.Faults.Clear(faults.SpoolFailing, faults.Whole)
}
