package caddymodule

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/ruleset"
)

const (
	// samplesKept is how many samples of each reason are kept, and samplesPerSecond
	// how many of them are taken at most, so that they cost a busy site nothing.
	samplesKept      = 256
	samplesPerSecond = 32
	// maxSamplePath is how much of a path a sample shows, in bytes.
	maxSamplePath = 256
)

// sample is one request and what became of it, as the admin API shows it. It has
// neither an address nor a User-Agent nor a user; of the URL it has the path
// alone, because a query may say who somebody is.
type sample struct {
	Time    time.Time      `json:"time"`
	List    string         `json:"list,omitempty"`
	Item    string         `json:"item,omitempty"`
	Reason  ruleset.Reason `json:"reason"`
	Bot     *botSample     `json:"bot,omitempty"`
	Method  string         `json:"method"`
	Path    string         `json:"path"`
	Page    string         `json:"page,omitempty"` // the path of the page that a script reports a view of
	Device  string         `json:"device,omitempty"`
	Channel string         `json:"channel,omitempty"`
	// Visitor is the beginning of the visitor's pseudonym of the day: enough to
	// see that two samples are the same client's, too little to find anybody by.
	Visitor string `json:"visitor,omitempty"`
}

// botSample is why a client was taken for a bot.
type botSample struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// samples are the latest requests of each reason. All limits are one reason here,
// so that there are only as many as the code has.
type samples struct {
	mu    sync.Mutex                               // held to add a ring
	rings atomic.Pointer[map[ruleset.Reason]*ring] // never written in place
}

// ring is the latest samples of one reason.
type ring struct {
	taken atomic.Uint64 // the second, and how many samples were taken in it: see admits

	mu   sync.Mutex
	next int // where the next sample goes, once the ring is full
	kept []sample
}

func newSamples() *samples {
	s := new(samples)
	s.rings.Store(&map[ruleset.Reason]*ring{})
	return s
}

// classOf returns the reason without the name of the limit.
func classOf(reason ruleset.Reason) ruleset.Reason {
	class, _, _ := strings.Cut(string(reason), ":")
	return ruleset.Reason(class)
}

// ring returns the ring of a reason.
func (s *samples) ring(reason ruleset.Reason) *ring {
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

// admits reports whether there is room for another sample in this second.
func (r *ring) admits(now time.Time) bool {
	const countBits = 8
	second := uint64(now.Unix()) << countBits
	for {
		old := r.taken.Load()
		next := old + 1
		if old>>countBits<<countBits != second {
			next = second + 1
		} else if old&(1<<countBits-1) >= samplesPerSecond {
			return false
		}
		if r.taken.CompareAndSwap(old, next) {
			return true
		}
	}
}

func (r *ring) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < samplesKept {
		r.kept = append(r.kept, s)
		return
	}
	r.kept[r.next] = s
	r.next = (r.next + 1) % samplesKept
}

// latest returns at most limit samples, the latest first, of a list and a reason,
// or of any. The reason may be that of one limit, or of all.
func (s *samples) latest(list string, reason ruleset.Reason, limit int) []sample {
	found := []sample{} // in JSON an array, not null
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
	slices.SortStableFunc(found, func(a, b sample) int { return b.Time.Compare(a.Time) })
	return found[:min(limit, len(found))]
}

// sample keeps a request among the samples, if there is room for another one of
// its reason now.
func (h *Handler) sample(r *http.Request, c *client, list, item string, reason ruleset.Reason) {
	rt := h.app.rt.Load()
	if rt == nil {
		return
	}
	ring := rt.samples.ring(reason)
	if !ring.admits(c.time) {
		return
	}
	asked := askedFor(r)
	s := sample{
		Time: c.time.UTC(), List: list, Reason: reason, Device: c.bot.Device,
		// cloned, because they are parts of larger texts that would be kept too
		Method: strings.Clone(asked.Method), Item: strings.Clone(item), Path: clip(asked.URL.EscapedPath()), Page: clip(c.page), Channel: strings.Clone(c.channel),
	}
	if c.bot.Bot {
		s.Bot = &botSample{c.bot.Class, c.bot.Reason}
	}
	if c.userAgent != "" || c.who.text != "" {
		s.Visitor = fmt.Sprintf("%06x", rt.visitors.of(c.who, rt.secrets.OfDay(c.time))>>40)
	}
	ring.add(s)
}

// askedFor returns what the visitor asked for, before any rewrite: the method, the
// URL and the RequestURI.
func askedFor(r *http.Request) http.Request {
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return orig
	}
	return *r
}

// clip returns a copy of the beginning of a path.
func clip(path string) string { return strings.Clone(path[:min(len(path), maxSamplePath)]) }
