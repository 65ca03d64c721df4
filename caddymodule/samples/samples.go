// Package samples keeps recent requests and their verdicts in memory, for the
// admin API.
package samples

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

const (
	// maxKept is the number of samples kept per reason. perSecond is the maximum
	// number of new samples of a reason per second, so that a busy site pays
	// nothing for them.
	maxKept   = 256
	perSecond = 32
	// maxPath is the maximum length of a path in a sample, in bytes.
	maxPath = 256
)

// Sample is one request with its verdict, as the admin API shows it. It contains
// no address, User-Agent or user. Of the URL it contains only the path, because a
// query may identify a person.
type Sample struct {
	Time    time.Time      `json:"time"`
	List    string         `json:"list,omitempty"`
	Item    string         `json:"item,omitempty"`
	Reason  ruleset.Reason `json:"reason"`
	Bot     *Bot           `json:"bot,omitempty"`
	Method  string         `json:"method"`
	Path    string         `json:"path"`
	Page    string         `json:"page,omitempty"` // path of the page whose view a script reports
	Device  string         `json:"device,omitempty"`
	Channel string         `json:"channel,omitempty"`
	// Visitor is the beginning of the visitor's pseudonym of the day: enough to
	// recognize two samples of one client, too little to identify a person.
	Visitor string `json:"visitor,omitempty"`
}

// Bot is the reason for classifying a client as a bot.
type Bot struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// Samples keeps the latest samples of each reason. All limits share one reason
// here, so the number of reasons is fixed.
//
// Samples is safe for concurrent use.
type Samples struct {
	mu    sync.Mutex                               // held to add a ring
	rings atomic.Pointer[map[ruleset.Reason]*ring] // copied on write
}

// ring holds the latest samples of one reason.
type ring struct {
	taken atomic.Uint64 // the second, and the number of samples taken in it: see admits

	mu   sync.Mutex
	next int // index of the next sample, once the ring is full
	kept []Sample
}

// New returns empty Samples.
func New() *Samples {
	s := new(Samples)
	s.rings.Store(&map[ruleset.Reason]*ring{})
	return s
}

// classOf returns the reason without the limit's name.
func classOf(reason ruleset.Reason) ruleset.Reason {
	class, _, _ := strings.Cut(string(reason), ":")
	return ruleset.Reason(class)
}

// ring returns the ring of a reason.
func (s *Samples) ring(reason ruleset.Reason) *ring {
	class := classOf(reason)
	if r := (*s.rings.Load())[class]; r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rings := maps.Clone(*s.rings.Load())
	if rings[class] == nil {
		rings[class] = new(ring)
		s.rings.Store(&rings)
	}
	return rings[class]
}

// Admits reports whether there is room for another sample of a reason in the
// second of now. If so, add it with [Samples.Add].
func (s *Samples) Admits(reason ruleset.Reason, now time.Time) bool {
	return s.ring(reason).admits(now)
}

// Add keeps a sample. It copies the strings of a request, which are parts of
// larger texts, and truncates long paths.
func (s *Samples) Add(x Sample) {
	x.Item, x.Method, x.Channel = strings.Clone(x.Item), strings.Clone(x.Method), strings.Clone(x.Channel)
	x.Path, x.Page = clip(x.Path), clip(x.Page)
	s.ring(x.Reason).add(x)
}

func (r *ring) admits(now time.Time) bool {
	const countBits = 8
	second := uint64(now.Unix()) << countBits
	for {
		old := r.taken.Load()
		next := old + 1
		if old>>countBits<<countBits != second {
			next = second + 1
		} else if old&(1<<countBits-1) >= perSecond {
			return false
		}
		if r.taken.CompareAndSwap(old, next) {
			return true
		}
	}
}

func (r *ring) add(s Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < maxKept {
		r.kept = append(r.kept, s)
		return
	}
	r.kept[r.next] = s
	r.next = (r.next + 1) % maxKept
}

// Latest returns at most limit samples of a list and a reason, newest first; ""
// matches any. The reason may name one limit or all limits.
func (s *Samples) Latest(list string, reason ruleset.Reason, limit int) []Sample {
	found := []Sample{} // an empty array in JSON, not null
	for class, r := range *s.rings.Load() {
		if reason != "" && classOf(reason) != class {
			continue
		}
		r.mu.Lock()
		for _, x := range r.kept {
			if (list == "" || x.List == list) && (reason == "" || x.Reason == reason || classOf(x.Reason) == reason) {
				found = append(found, x)
			}
		}
		r.mu.Unlock()
	}
	slices.SortStableFunc(found, func(a, b Sample) int { return b.Time.Compare(a.Time) })
	return found[:min(limit, len(found))]
}

// clip returns a copy of the beginning of a path.
func clip(path string) string { return strings.Clone(path[:min(len(path), maxPath)]) }
