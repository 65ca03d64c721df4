package outbox

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// remindEvery is how often a failure that goes on is logged again.
	remindEvery = time.Minute
	// quietFor is how long a failure that comes and goes is not logged again.
	quietFor = 10 * time.Second
)

// trouble logs a failure that is retried: when it has lasted for grace, once a
// minute while it goes on, and when it is over.
type trouble struct {
	log   *zap.Logger
	what  string // "publishing hits": what fails
	grace time.Duration

	mu     sync.Mutex
	since  time.Time
	logged time.Time
	count  int
	said   bool // this failure was logged
	last   error
}

func (t *trouble) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.count == 0 {
		t.since = now
	}
	t.count++
	t.last = err
	wait := quietFor
	if t.said {
		wait = remindEvery
	}
	if now.Sub(t.since) >= t.grace && now.Sub(t.logged) >= wait {
		t.logged, t.said = now, true
		t.log.Error(t.what+" fails, will be retried", zap.Error(err), zap.Int("failures", t.count), zap.Time("since", t.since))
	}
}

func (t *trouble) ok() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.said {
		t.log.Info(t.what+" works again", zap.Int("failures", t.count), zap.Duration("after", time.Since(t.since)))
	}
	t.count, t.said, t.last = 0, false, nil
}

// err returns the last error of a failure that is not over, or nil.
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
