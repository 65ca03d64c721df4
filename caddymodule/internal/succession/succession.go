// Package succession says which configuration's value is in force while several
// configurations overlap.
package succession

import "sync"

// Of is the line of configurations that hold something in common. Caddy starts
// a new configuration before it stops the old one, and stops the new one when a
// part of it fails to start: so the value of the configuration that entered
// last is in force, and when that one leaves, the one before it is again.
//
// The zero Of is empty and ready to use, by several goroutines at once.
type Of[T any] struct {
	mu      sync.Mutex
	entries []entry[T]
}

type entry[T any] struct {
	owner any
	value T
}

// Enter puts the value of owner in force. An owner enters once.
func (s *Of[T]) Enter(owner any, value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entry[T]{owner, value})
}

// Leave takes back the value of owner, if it entered.
func (s *Of[T]) Leave(owner any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.entries {
		if e.owner == owner {
			s.entries = append(s.entries[:i:i], s.entries[i+1:]...)
			return
		}
	}
}

// Current returns the value in force; false when nobody's is.
func (s *Of[T]) Current() (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].value, true
	}
	var none T
	return none, false
}
