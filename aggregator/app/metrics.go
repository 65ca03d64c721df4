package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.HistogramVec
	outcomes *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	loaded   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hotboard_request_duration_seconds",
			Help:    "Duration of requests, by entry point and whether they were answered.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"via", "answered"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_outcomes_total",
			Help: "Verdicts on votes and used-up keys for edges, by result: published, failed, or dropped because there were too many.",
		}, []string{"result"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hotboard_rules_reloads_total",
			Help: "Reloads of the rules of the configuration, by result: ok, or refused because of mistakes.",
		}, []string{"result"}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hotboard_rules_loaded_timestamp_seconds",
			Help: "Since when answers are made by the present rules.",
		}),
	}
	reg.MustRegister(m.requests, m.outcomes, m.reloads, m.loaded)
	m.loaded.SetToCurrentTime()
	return m
}

func (m *metrics) answered(via string, ok bool, took time.Duration) {
	label := "no"
	if ok {
		label = "yes"
	}
	m.requests.WithLabelValues(via, label).Observe(took.Seconds())
}

func (m *metrics) reloaded(err error) {
	if err != nil {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
}
