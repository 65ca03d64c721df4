package caddymodule

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/outbox"
)

// The collectors live as long as the process, so that they keep counting through
// reloads; Caddy makes a new registry for each configuration, and register adds
// them to it. Labels are bounded: lists are configured and reasons are constants.
var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "hotboard", Subsystem: "edge", Name: "requests_total",
		Help: "Page views and beacons by list and verdict.",
	}, []string{"list", "reason"})

	shadowedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "hotboard", Subsystem: "edge", Name: "shadowed_total",
		Help: "Views and votes that a limit in shadow would have refused, by list and limit.",
	}, []string{"list", "rule"})

	speculativeTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "hotboard", Subsystem: "edge", Name: "speculative_total",
		Help: "Speculative views by list and outcome: confirmed (the page was shown, and they count), expired (it was not shown), dropped (too many waited).",
	}, []string{"list", "outcome"})

	boardsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "hotboard", Subsystem: "edge", Name: "boards_total",
		Help: "Requests for boards, by answer: current, stale (the last answer, because no aggregator answers), none.",
	}, []string{"answer"})
)

func countSpeculative(list, outcome string) {
	speculativeTotal.WithLabelValues(list, outcome).Inc()
}

// register adds the collectors to the registry of a configuration.
func register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{requestsTotal, shadowedTotal, speculativeTotal, boardsTotal, runtimeCollector{}} {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// runtimeCollector exports metrics of the state that the edge keeps through
// reloads. On each collection it reads the existing runtimes: one, except for the
// moments in which a reload moves to another directory.
type runtimeCollector struct{}

// runtimeState is the sum of the runtimes' states.
type runtimeState struct {
	outbox.Stats
	limits                limit.Stats
	pending               int
	connected, sharedSalt bool
}

type runtimeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*runtimeState) float64
}

var runtimeMetrics = []runtimeMetric{
	gauge("queued_views", "Views in memory that wait for the disk.",
		func(s *runtimeState) float64 { return float64(s.QueuedViews) }),
	gauge("queued_beacon_hits", "Hits of beacons that wait for the disk, unanswered.",
		func(s *runtimeState) float64 { return float64(s.QueuedHits) }),
	gauge("spool_batches", "Batches on disk.",
		func(s *runtimeState) float64 { return float64(s.Batches) }),
	gauge("spool_bytes", "Bytes of the batches on disk.",
		func(s *runtimeState) float64 { return float64(s.Bytes) }),
	gauge("unsent_batches", "Batches on disk that the log has not acknowledged.",
		func(s *runtimeState) float64 { return float64(s.Unsent) }),
	gauge("unapplied_batches", "Batches on disk that are not known to be in the counts.",
		func(s *runtimeState) float64 { return float64(s.Unapplied) }),
	gauge("oldest_unapplied_seconds", "Age of the oldest batch that is not known to be in the counts.",
		func(s *runtimeState) float64 { return s.OldestUnapplied.Seconds() }),
	counter("spooled_hits_total", "Hits written to disk.",
		func(s *runtimeState) float64 { return float64(s.SpooledHits) }),
	counter("spooled_batches_total", "Batches written to disk.",
		func(s *runtimeState) float64 { return float64(s.SpooledBatches) }),
	counter("spool_writes_total", "Transactions that wrote batches to disk.",
		func(s *runtimeState) float64 { return float64(s.Writes) }),
	counter("rejected_hits_total", "Hits that the spool refused because they are not valid.",
		func(s *runtimeState) float64 { return float64(s.RejectedHits) }),
	counter("published_batches_total", "Batches that the log acknowledged.",
		func(s *runtimeState) float64 { return float64(s.Published) }),
	counter("resent_batches_total", "Batches that the log acknowledged again.",
		func(s *runtimeState) float64 { return float64(s.Resent) }),
	counter("publish_errors_total", "Attempts to publish with an unknown outcome.",
		func(s *runtimeState) float64 { return float64(s.PublishErrors) }),
	counter("applied_went_back_total", "Times the counts went back to an older copy.",
		func(s *runtimeState) float64 { return float64(s.WentBack) }),
	counter("identity_renewed_total", "Times a new edge id was taken because the spool is an old copy or in use twice.",
		func(s *runtimeState) float64 { return float64(s.Renewed) }),
	gauge("spool_failing", "1 while hits cannot be written to disk.",
		func(s *runtimeState) float64 { return oneIf(s.SpoolError != nil) }),
	gauge("publish_failing", "1 while batches cannot be published.",
		func(s *runtimeState) float64 { return oneIf(s.PublishError != nil) }),
	gauge("applied_failing", "1 while no aggregator reports applied positions.",
		func(s *runtimeState) float64 { return oneIf(s.AppliedError != nil) }),
	gauge("pending_views", "Pages that were fetched speculatively, and wait to be shown.",
		func(s *runtimeState) float64 { return float64(s.pending) }),
	gauge("limit_keys", "Counts of limits in memory.",
		func(s *runtimeState) float64 { return float64(s.limits.Keys) }),
	gauge("limit_keys_max", "Maximum of hotboard_edge_limit_keys.",
		func(s *runtimeState) float64 { return float64(s.limits.MaxKeys) }),
	counter("limit_keys_reclaimed_total", "Forgotten counts of limits without effect.",
		func(s *runtimeState) float64 { return float64(s.limits.Reclaimed) }),
	counter("limit_estimated_total", "Decisions of limits by an estimate, because the keys exceed the maximum.",
		func(s *runtimeState) float64 { return float64(s.limits.Estimated) }),
	gauge("broker_connected", "1 while there is a connection to the broker.",
		func(s *runtimeState) float64 { return oneIf(s.connected) }),
	gauge("salt_shared", "1 if this edge has today's shared secrets, 0 while it cannot share them: a visitor of two edges counts as two, and votes with quotas are refused.",
		func(s *runtimeState) float64 { return oneIf(s.sharedSalt) }),
}

func gauge(name, help string, value func(*runtimeState) float64) runtimeMetric {
	return runtimeMetric{prometheus.NewDesc("hotboard_edge_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*runtimeState) float64) runtimeMetric {
	m := gauge(name, help, value)
	m.kind = prometheus.CounterValue
	return m
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements [prometheus.Collector].
func (runtimeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range runtimeMetrics {
		ch <- m.desc
	}
	newFaults(nil).Describe(ch)
}

// Collect implements [prometheus.Collector].
func (runtimeCollector) Collect(ch chan<- prometheus.Metric) {
	var open []*runtime
	runtimes.Range(func(_, v any) bool {
		open = append(open, v.(*runtime))
		return true
	})
	sums := make([]float64, len(runtimeMetrics))
	for _, rt := range open {
		nc, ok := rt.conns.Current()
		state := runtimeState{
			Stats:      rt.outbox.Stats(),
			limits:     rt.limits.Stats(),
			pending:    rt.pending.Len(clock.Now()),
			connected:  ok && nc.IsConnected(),
			sharedSalt: rt.secrets.AllShared(),
		}
		for i, m := range runtimeMetrics {
			sums[i] += m.value(&state)
		}
	}
	if len(open) == 0 {
		return
	}
	for i, m := range runtimeMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, sums[i])
	}
	open[0].faults.Collect(ch)
}
