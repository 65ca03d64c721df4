// Package clock is the clock of an edge. It exists so that tests can replay an
// old log: only Go code inside this module's tree can set it.
package clock

import (
	"sync/atomic"
	"time"
)

var now atomic.Pointer[func() time.Time]

// Now returns the current time.
func Now() time.Time {
	if f := now.Load(); f != nil {
		return (*f)()
	}
	return time.Now()
}

// Set makes Now return the result of f, for a test, until restore is called. f
// must be safe for concurrent use.
func Set(f func() time.Time) (restore func()) {
	old := now.Swap(&f)
	return func() { now.Store(old) }
}
