package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// ledger is the visitors' knowledge, in a process that nobody kills.
type ledger struct {
	mu sync.Mutex
	// beacons holds, for each reported item, whether the answer was 2xx.
	beacons map[string]bool
	// repeated is how often a client sent the beacon of an item again, because the
	// connection was closed without an answer. Each repetition may be a duplicate.
	repeated map[string]int
	// served and tried count the requests for each page: those with the right answer,
	// and all.
	served, tried map[string]int
}

func newLedger() *ledger {
	return &ledger{beacons: map[string]bool{}, repeated: map[string]int{}, served: map[string]int{}, tried: map[string]int{}}
}

func (l *ledger) beacon(id string, acknowledged bool, repeated int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beacons[id] = acknowledged
	l.repeated[id] = repeated
}

func (l *ledger) page(id string, served bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried[id]++
	if served {
		l.served[id]++
	}
}

// acknowledged returns the number of beacons with a 2xx answer so far.
func (l *ledger) acknowledged() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ok := range l.beacons {
		if ok {
			n++
		}
	}
	return n
}

// pageViews returns the number of pages served so far.
func (l *ledger) pageViews() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, served := range l.served {
		n += served
	}
	return n
}

// balance is the result of comparing the counts with the ledger.
type balance struct {
	acknowledged, lost, double int
	// unknown items were counted though their beacons got no 2xx: the answer was lost,
	// or the edge died before it.
	unknown int
	stray   []string // items without a report
}

// balance compares the ledger with the counts of the reported items. exactPages
// compares the pages.
func (l *ledger) balance(counts map[string]int) (b balance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, acknowledged := range l.beacons {
		n := counts[id]
		switch {
		case acknowledged && n == 0:
			b.lost++
		case !acknowledged && n > 0:
			b.unknown++
		}
		if acknowledged {
			b.acknowledged++
		}
		b.double += max(0, n-1-l.repeated[id])
	}
	for id, n := range counts {
		if _, ok := l.beacons[id]; ok {
			continue
		}
		if tried, ok := l.tried[id]; ok {
			b.double += max(0, n-tried)
			continue
		}
		b.stray = append(b.stray, id)
	}
	return b
}

// wrong describes broken promises, or is "".
func (b balance) wrong() string {
	if b.lost == 0 && b.double == 0 && len(b.stray) == 0 {
		return ""
	}
	return fmt.Sprintf("acknowledged %d, lost %d, double %d, %d items that nobody reported (%.100q)",
		b.acknowledged, b.lost, b.double, len(b.stray), b.stray)
}

// exact describes the differences when every served page and every acknowledged
// beacon must be counted once; "" without any.
func (l *ledger) exact(counts map[string]int) string {
	if wrong := l.balance(counts).wrong(); wrong != "" {
		return wrong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, served := range l.served {
		if counts[id] != served {
			return fmt.Sprintf("the page %s was served %d times and has %d views", id, served, counts[id])
		}
	}
	return ""
}

// TestLedger checks that the ledger finds differences.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := newLedger()
	for _, id := range []string{"a", "b", "c"} {
		l.beacon(id, true, 0)
	}
	l.beacon("unanswered", false, 0)
	l.beacon("repeated", true, 1)
	l.page("page", true)
	l.page("page", true)
	l.page("page", false)
	for name, tt := range map[string]struct {
		counts map[string]int
		kept   bool // every acknowledged beacon is counted once
		exact  bool // and so are the pages
	}{
		"as it has to be":        {map[string]int{"a": 1, "b": 1, "c": 1, "page": 2, "repeated": 1}, true, true},
		"an answer was lost":     {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1, "page": 2, "unanswered": 1}, true, true},
		"a page view was lost":   {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1, "page": 1}, true, false},
		"all pages were lost":    {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1}, true, false},
		"a beacon was lost":      {map[string]int{"repeated": 1, "a": 1, "b": 1, "page": 2}, false, false},
		"a beacon counts twice":  {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 2, "page": 2}, false, false},
		"unanswered twice":       {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1, "page": 2, "unanswered": 2}, false, false},
		"more pages than tried":  {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1, "page": 4}, false, false},
		"repeated, a duplicate":  {map[string]int{"repeated": 2, "a": 1, "b": 1, "c": 1, "page": 2}, true, true},
		"more than repeated":     {map[string]int{"repeated": 3, "a": 1, "b": 1, "c": 1, "page": 2}, false, false},
		"an item out of nowhere": {map[string]int{"repeated": 1, "a": 1, "b": 1, "c": 1, "page": 2, "x": 1}, false, false},
	} {
		if wrong := l.balance(tt.counts).wrong(); (wrong == "") != tt.kept {
			t.Errorf("%s: %q", name, wrong)
		}
		if wrong := l.exact(tt.counts); (wrong == "") != tt.exact {
			t.Errorf("%s, exactly: %q", name, wrong)
		}
	}
}
