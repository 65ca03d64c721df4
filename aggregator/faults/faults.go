// Package faults keeps what is wrong at the moment, so that nothing is silently
// wrong: each fault is a log line, a metric and a reason why the aggregator is
// not ready.
//
// There are two sorts. A condition holds until it is cleared: the store is away.
// An event happened at one instant and cannot be undone: a message could not be
// read. It is shown for [EventShown] after it last happened, which is long enough
// for any probe to see it, and its counter keeps it for ever.
package faults

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is a sort of fault; the label of its metrics.
type Kind string

// Conditions.
const (
	StoreAway Kind = "store_away" // the store cannot be read or written
	LogAway   Kind = "log_away"   // the log cannot be read
	Gap       Kind = "gap"        // batches are missing before others that came
	LogShards Kind = "log_shards" // the log and the store have different numbers of shards
	LogFull   Kind = "log_full"   // the log is full of what is not counted yet and refuses more
)

// Events.
const (
	Poisoned    Kind = "poisoned_message" // a message could not be read and was set aside
	BatchesLost Kind = "batches_lost"     // batches that neither the log nor an edge has any more
	LogReplaced Kind = "log_replaced"     // the stream is not the one that was read, or lost its tail
	StoreBehind Kind = "store_behind"     // the store went back to an older state
)

// Kinds is every kind of fault.
var Kinds = []Kind{StoreAway, LogAway, Gap, LogShards, LogFull, Poisoned, BatchesLost, LogReplaced, StoreBehind}

// EventShown is how long an event is shown after it last happened.
const EventShown = time.Minute

// Fault is one thing that is wrong.
type Fault struct {
	Kind Kind `json:"kind"`
	// Where is the part that has the fault, such as "shard 3"; it may be empty.
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
	// Since is when the condition began, or when the event last happened.
	Since time.Time `json:"since"`
}

type place struct {
	kind  Kind
	where string
}

// Registry holds the faults of one aggregator. Its methods are safe for
// concurrent use. It is bounded: callers name places from a fixed set, such as
// the shards.
type Registry struct {
	log *slog.Logger
	now func() time.Time

	mu         sync.Mutex
	conditions map[place]Fault
	events     map[place]Fault

	count *prometheus.CounterVec
}

// New returns a registry without faults, which shows itself on reg.
func New(log *slog.Logger, reg prometheus.Registerer) *Registry {
	r := &Registry{
		log: log, now: time.Now,
		conditions: map[place]Fault{}, events: map[place]Fault{},
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_faults_total",
			Help: "How often each kind of fault began or happened.",
		}, []string{"kind"}),
	}
	reg.MustRegister(r.count)
	for _, k := range Kinds {
		r.count.WithLabelValues(string(k)) // shown as 0, so that an alert can see the first one
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "hotboard_fault",
			Help:        "In how many places a fault is shown now; the aggregator is ready only when all are 0.",
			ConstLabels: prometheus.Labels{"kind": string(k)},
		}, func() float64 { return float64(r.active(k)) }))
	}
	return r
}

// Set says that a condition holds. Only its beginning is logged and counted.
func (r *Registry) Set(kind Kind, where, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{kind, where}
	f, held := r.conditions[p]
	if !held {
		f = Fault{Kind: kind, Where: where, Since: r.now().UTC()}
		r.count.WithLabelValues(string(kind)).Inc()
		r.log.Error("fault", "kind", kind, "where", where, "message", message)
	}
	f.Message = message
	r.conditions[p] = f
}

// Clear says that a condition does not hold.
func (r *Registry) Clear(kind Kind, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := place{kind, where}
	if f, held := r.conditions[p]; held {
		delete(r.conditions, p)
		r.log.Info("fault is over", "kind", kind, "where", where, "lasted", r.now().Sub(f.Since).Round(time.Millisecond))
	}
}

// Event says that something happened. Every call is logged and counted.
func (r *Registry) Event(kind Kind, where, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[place{kind, where}] = Fault{Kind: kind, Where: where, Message: message, Since: r.now().UTC()}
	r.count.WithLabelValues(string(kind)).Inc()
	r.log.Error("fault", "kind", kind, "where", where, "message", message)
}

// Active returns the faults that are shown now, by kind and place.
func (r *Registry) Active() []Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Fault
	for _, f := range r.conditions {
		all = append(all, f)
	}
	r.expire()
	for _, f := range r.events {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Where, b.Where))
	})
	return all
}

func (r *Registry) active(kind Kind) (n int) {
	for _, f := range r.Active() {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

func (r *Registry) expire() {
	for p, f := range r.events {
		if r.now().Sub(f.Since) >= EventShown {
			delete(r.events, p)
		}
	}
}
