package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/fold"
)

type metrics struct {
	hits      *prometheus.CounterVec
	shadowed  *prometheus.CounterVec
	batches   *prometheus.CounterVec
	lost      prometheus.Counter
	conflicts prometheus.Counter
	rewinds   prometheus.Counter
	commit    prometheus.Histogram
	size      prometheus.Histogram
	delay     prometheus.Histogram
	position  *prometheus.GaugeVec
	gaps      *prometheus.GaugeVec
	owned     prometheus.Gauge
	logBytes  prometheus.Gauge
	logMax    prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		hits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_hits_total",
			Help: "Hits by verdict. A hit that is folded again after the store or the log went back is counted here again.",
		}, []string{"list", "reason"}),
		shadowed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_shadowed_total",
			Help: "Votes that a limit in shadow would have refused.",
		}, []string{"list", "rule"}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_batches_total",
			Help: "Batches read from the log, by result.",
		}, []string{"result"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hotboard_batches_lost_total",
			Help: "Lost batches: neither the log nor their edge has them any more.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hotboard_commit_conflicts_total",
			Help: "Commits that the store refused because the shard was at another position.",
		}),
		rewinds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hotboard_log_rewinds_total",
			Help: "How often a shard of the log was read again from its beginning.",
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hotboard_commit_duration_seconds",
			Help:    "Duration of folding and committing a group of batches.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hotboard_commit_hits",
			Help:    "Hits in one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hotboard_ingest_delay_seconds",
			Help:    "Age in the log of the oldest batch of a commit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		position: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hotboard_position",
			Help: "Stream sequence of the last applied message of each shard that this aggregator folds.",
		}, []string{"shard"}),
		gaps: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hotboard_gaps",
			Help: "Edges with batches that cannot be counted yet, by shard: earlier ones are missing, or they have a newer version.",
		}, []string{"shard"}),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hotboard_shards_owned",
			Help: "Number of shards that this aggregator folds; hotboard_position shows which.",
		}),
		logBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hotboard_log_bytes",
			Help: "Size of the log.",
		}),
		logMax: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hotboard_log_bytes_max",
			Help: "Largest size of the log.",
		}),
	}
	reg.MustRegister(m.hits, m.shadowed, m.batches, m.lost, m.conflicts, m.rewinds, m.commit, m.size, m.delay,
		m.position, m.gaps, m.owned, m.logBytes, m.logMax)
	return m
}

// committed takes in a committed fold.
func (m *metrics) committed(msgs []fold.Message, res *fold.Result, took time.Duration) {
	hits := 0
	for i := range msgs {
		hits += hitsIn(&msgs[i])
	}
	for o, n := range res.Hits {
		m.hits.WithLabelValues(o.List, string(o.Reason)).Add(float64(n))
	}
	for k, n := range res.Shadowed {
		m.shadowed.WithLabelValues(k.List, k.Limit).Add(float64(n))
	}
	for _, g := range res.Lost {
		m.lost.Add(float64(g.To - g.From + 1))
	}
	applied := len(msgs) - res.Skipped - len(res.Held) - len(res.Poisoned)
	m.batches.WithLabelValues("applied").Add(float64(max(0, applied)))
	m.batches.WithLabelValues("skipped").Add(float64(res.Skipped))
	m.batches.WithLabelValues("held").Add(float64(len(res.Held)))
	m.batches.WithLabelValues("poisoned").Add(float64(len(res.Poisoned)))
	m.commit.Observe(took.Seconds())
	m.size.Observe(float64(hits))
	m.delay.Observe(max(0, time.Since(msgs[0].Received).Seconds()))
}
