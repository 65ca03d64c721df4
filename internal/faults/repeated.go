package faults

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Repeated logs one frequent message: the first time at once, then at most one line
// every [LogEvery], with the number of times since the last. It is for messages
// that accompany a fault in many places; the [Registry] logs the fault itself and
// its end.
type Repeated struct {
	log     *slog.Logger
	level   slog.Level
	message string

	mu     sync.Mutex
	times  int // since the last line of the log
	logged time.Time
}

// NewRepeated returns a Repeated that logs message.
func NewRepeated(log *slog.Logger, level slog.Level, message string) *Repeated {
	return &Repeated{log: log, level: level, message: message}
}

// Log counts one more time, with attributes as for [slog.Logger.Log].
func (r *Repeated) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times++
	now := time.Now()
	if now.Sub(r.logged) < LogEvery {
		return
	}
	r.log.Log(context.Background(), r.level, r.message, append(args, "times", r.times)...)
	r.times, r.logged = 0, now
}
