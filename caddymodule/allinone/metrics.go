package allinone

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows the metrics of the running backends among Caddy's. It lives
// as long as the process, as they go on counting through reloads.
type collector struct{}

// register adds the collector to the registry of a configuration.
func register(r prometheus.Registerer) error {
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(collector{}); err != nil && !errors.As(err, &already) {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// Describe names no metric, because a backend's are known only once it runs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (collector) Collect(ch chan<- prometheus.Metric) {
	backends.Range(func(_, v any) bool {
		v.(*backend).Registry().Collect(ch)
		return false // of two, during a reload, one: they have the same metrics
	})
}
