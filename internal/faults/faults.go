// Package faults keeps the current faults of one process, so that nothing goes
// wrong silently: each fault is a log line, a metric and a reason why the process
// is not ready.
//
// There are two sorts. A condition holds until it is cleared: the store is away. An
// event happened at one instant and cannot be undone: a message was unreadable. An
// event is active for [EventShown] after it last happened, long enough for any
// probe to see it, and its counter keeps it for ever.
//
// One cause often shows in many places and many times: a store that is away in all
// shards, a full disk at each write. It is one fault with its shards, and one log
// line followed by a count every [LogEvery].
package faults

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EventShown is how long an event stays active after it last happened.
const EventShown = time.Minute

// LogEvery is the least time between two log lines about faults of one kind.
const LogEvery = 10 * time.Second

// In place of the shard of a fault that concerns no single shard.
const (
	Whole = -1
	Edges = -2 // edges reported it
)

// Fault is one current problem.
type Fault struct {
	Kind Kind `json:"kind"`
	// Shards have the fault, in ascending order; empty when it concerns no single
	// shard.
	Shards  []int  `json:"shards,omitempty"`
	Message string `json:"message"`
	// Since is when the condition began, or when the event last happened.
	Since time.Time `json:"since"`
}

type place struct {
	kind  Kind
	shard int
}

// entry is a fault in one place.
type entry struct {
	message string
	since   time.Time
}

// report is the news of one kind that the log does not have yet.
type report struct {
	times   int
	shards  []int
	message string
	open    bool // the log has the beginning of a condition, but not its end
	began   time.Time
	quiet   *time.Timer // runs for LogEvery after each line
}

// Registry holds the faults of one process. It is a [prometheus.Collector]. Its
// methods are safe for concurrent use, and the numbers of kinds and shards bound
// its size.
type Registry struct {
	log           *slog.Logger
	kinds         []Kind
	active, total *prometheus.Desc

	mu         sync.Mutex
	conditions map[place]entry
	events     map[place]entry
	counts     map[Kind]int
	reports    map[Kind]*report
}

var _ prometheus.Collector = (*Registry)(nil)

// New returns a registry without faults. Its metrics are <prefix>_fault and
// <prefix>_faults_total. Each of kinds has a series from the start, so that an
// alert can see the first fault.
func New(log *slog.Logger, prefix string, kinds []Kind) *Registry {
	r := &Registry{
		log: log, kinds: kinds,
		active: prometheus.NewDesc(prefix+"_fault",
			"In how many places a fault is active; the process is ready only when all are 0.", []string{"kind"}, nil),
		total: prometheus.NewDesc(prefix+"_faults_total",
			"How often each kind of fault began or happened.", []string{"kind"}, nil),
		conditions: map[place]entry{}, events: map[place]entry{},
		counts: map[Kind]int{}, reports: map[Kind]*report{},
	}
	for _, k := range kinds {
		r.reports[k] = &report{}
	}
	return r
}

// Set records that a condition holds in a shard, or [Whole]. It counts only the
// beginning. Places with the same message share one fault, so a message must not
// name its shard.
func (r *Registry) Set(kind Kind, shard int, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{kind, shard}
	e, held := r.conditions[p]
	if !held {
		e.since = time.Now().UTC()
	}
	e.message = message
	r.conditions[p] = e
	if held {
		return
	}
	if rep := r.reports[kind]; !rep.open {
		rep.open, rep.began = true, e.since
	}
	r.happened(p, message)
}

// Clear records that a condition no longer holds.
func (r *Registry) Clear(kind Kind, shard int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{kind, shard}
	if _, held := r.conditions[p]; held {
		delete(r.conditions, p)
		r.write(kind)
	}
}

// Event records that something happened in a shard, or [Whole].
func (r *Registry) Event(kind Kind, shard int, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{kind, shard}
	r.events[p] = entry{message, time.Now().UTC()}
	r.happened(p, message)
}

// happened counts and logs a new condition or an event. The caller holds mu.
func (r *Registry) happened(p place, message string) {
	r.counts[p.kind]++
	rep := r.reports[p.kind]
	rep.times++
	rep.message = message
	if p.shard >= 0 && !slices.Contains(rep.shards, p.shard) {
		rep.shards = append(rep.shards, p.shard)
	}
	r.write(p.kind)
}

// write logs the news of a kind. Within LogEvery of the last line it waits. The
// caller holds mu.
func (r *Registry) write(kind Kind) {
	rep := r.reports[kind]
	if rep.quiet != nil {
		return
	}
	wrote := false
	if rep.times > 0 {
		fields := []any{"kind", kind, "message", rep.message, "times", rep.times}
		if len(rep.shards) > 0 {
			slices.Sort(rep.shards)
			fields = append(fields, "shards", rep.shards)
		}
		r.log.Error("fault", fields...)
		rep.times, rep.shards, wrote = 0, nil, true
	}
	if rep.open && !r.holds(kind) {
		r.log.Info("fault is over", "kind", kind, "lasted", time.Since(rep.began).Round(time.Millisecond))
		rep.open, wrote = false, true
	}
	if wrote {
		rep.quiet = time.AfterFunc(LogEvery, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			rep.quiet = nil
			r.write(kind)
		})
	}
}

func (r *Registry) holds(kind Kind) bool {
	for p := range r.conditions {
		if p.kind == kind {
			return true
		}
	}
	return false
}

// Active returns the current faults by kind, beginning and message.
func (r *Registry) Active() []Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	var all []Fault
	for _, entries := range []map[place]entry{r.conditions, r.events} {
		for p, e := range entries {
			i := slices.IndexFunc(all, func(f Fault) bool { return f.Kind == p.kind && f.Message == e.message })
			if i < 0 {
				i = len(all)
				all = append(all, Fault{Kind: p.kind, Message: e.message, Since: e.since})
			}
			if p.shard >= 0 {
				all[i].Shards = append(all[i].Shards, p.shard)
			}
			if e.since.Before(all[i].Since) {
				all[i].Since = e.since
			}
		}
	}
	for i := range all {
		slices.Sort(all[i].Shards)
	}
	slices.SortFunc(all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Since.Compare(b.Since), cmp.Compare(a.Message, b.Message))
	})
	return all
}

func (r *Registry) expire() {
	for p, e := range r.events {
		if time.Since(e.since) >= EventShown {
			delete(r.events, p)
		}
	}
}

// Describe implements [prometheus.Collector].
func (r *Registry) Describe(ch chan<- *prometheus.Desc) {
	ch <- r.active
	ch <- r.total
}

// Collect implements [prometheus.Collector].
func (r *Registry) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	places := map[Kind]int{}
	for p := range r.conditions {
		places[p.kind]++
	}
	for p := range r.events {
		places[p.kind]++
	}
	for _, k := range r.kinds {
		ch <- prometheus.MustNewConstMetric(r.active, prometheus.GaugeValue, float64(places[k]), string(k))
		ch <- prometheus.MustNewConstMetric(r.total, prometheus.CounterValue, float64(r.counts[k]), string(k))
	}
}

// WriteReady answers a readiness probe: 200 without faults, else 503 with the
// faults as JSON.
func WriteReady(w http.ResponseWriter, found []Fault) {
	if found == nil {
		found = []Fault{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(found) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(struct { // the client has gone away
		Ready  bool    `json:"ready"`
		Faults []Fault `json:"faults"`
	}{len(found) == 0, found})
}
