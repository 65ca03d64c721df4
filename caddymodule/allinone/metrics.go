package allinone

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// collector exports the metrics of the running backends with Caddy's. It lives as
// long as the process, because the backends keep counting through reloads.
type collector struct{}

// register adds the collector to the registry of a configuration.
func register(r prometheus.Registerer) error {
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(collector{}); err != nil && !errors.As(err, &already) {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// Describe names no metrics, because a backend's metrics are unknown until it
// runs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (collector) Collect(ch chan<- prometheus.Metric) {
	backends.Range(func(_, v any) bool {
		v.(backend).Registry().Collect(ch)
		return false // during a reload, only one of two: they have the same metrics
	})
}
