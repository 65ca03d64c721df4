// Package succession decides which configuration's value is in force while
// several configurations overlap.
package succession

import "sync"

// Of holds the overlapping configurations that share something. Caddy starts a
// new configuration before it stops the old one, and stops the new one if a part
// of it fails to start. So the value of the configuration that entered last is in
// force; when that configuration leaves, the previous value is in force again.
//
// The zero Of is empty and ready to use. It is safe for concurrent use.
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

// Leave removes the value of owner, if it entered.
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

// Only returns the value of the only owner, or false if there is none or several.
func (s *Of[T]) Only() (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 1 {
		return s.entries[0].value, true
	}
	var none T
	return none, false
}

// Current returns the value in force, or false if there is none.
func (s *Of[T]) Current() (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].value, true
	}
	var none T
	return none, false
}
