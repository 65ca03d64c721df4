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
	// maxKept is how many samples of each reason are kept, and perSecond how many of
	// them are taken at most, so that they cost a busy site nothing.
	maxKept   = 256
	perSecond = 32
	// maxPath is how much of a path a sample shows, in bytes.
	maxPath = 256
)

// Sample is one request with its verdict, as the admin API shows it. It has no
// address, no User-Agent and no user; of the URL it has the path alone, because a
// query may identify a person.
type Sample struct {
	Time    time.Time      `json:"time"`
	List    string         `json:"list,omitempty"`
	Item    string         `json:"item,omitempty"`
	Reason  ruleset.Reason `json:"reason"`
	Bot     *Bot           `json:"bot,omitempty"`
	Method  string         `json:"method"`
	Path    string         `json:"path"`
	Page    string         `json:"page,omitempty"` // the path of the page that a script reports a view of
	Device  string         `json:"device,omitempty"`
	Channel string         `json:"channel,omitempty"`
	// Visitor is the beginning of the visitor's pseudonym of the day: enough to
	// see that two samples are the same client's, too little to find anybody by.
	Visitor string `json:"visitor,omitempty"`
}

// Bot is why a client was taken for a bot.
type Bot struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// Samples keeps the latest samples of each reason. All limits are one reason here,
// so that there are only as many reasons as the code has.
//
// A Samples may be used by several goroutines at once.
type Samples struct {
	mu    sync.Mutex                               // held to add a ring
	rings atomic.Pointer[map[ruleset.Reason]*ring] // never written in place
}

// ring is the latest samples of one reason.
type ring struct {
	taken atomic.Uint64 // the second, and how many samples were taken in it: see admits

	mu   sync.Mutex
	next int // where the next sample goes, once the ring is full
	kept []Sample
}

// New returns Samples without any.
func New() *Samples {
	s := new(Samples)
	s.rings.Store(&map[ruleset.Reason]*ring{})
	return s
}

// classOf returns the reason without the name of the limit.
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
// second of now. If there is, add it by [Samples.Add].
func (s *Samples) Admits(reason ruleset.Reason, now time.Time) bool {
	return s.ring(reason).admits(now)
}

// Add keeps a sample. It copies the strings of a request, which are parts of larger
// texts, and cuts long paths.
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

// Latest returns at most limit samples, the latest first, of a list and a reason;
// "" stands for any. The reason may be that of one limit, or of all.
func (s *Samples) Latest(list string, reason ruleset.Reason, limit int) []Sample {
	found := []Sample{} // in JSON an array, not null
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
