// Package clock is the time that an edge goes by. It exists so that tests can
// replay an old log: it can be set from Go, inside this module's tree, and from
// nowhere else.
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

// Set makes Now return what f returns, for a test, until restore is called. f
// must be safe for concurrent use.
func Set(f func() time.Time) (restore func()) {
	old := now.Swap(&f)
	return func() { now.Store(old) }
}
