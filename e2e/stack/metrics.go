package stack

import (
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics of a process by name.
type Metrics map[string]*dto.MetricFamily

// metricsTimeout bounds a request for metrics.
const metricsTimeout = 10 * time.Second

func readMetrics(url string) (Metrics, error) {
	client := http.Client{Timeout: metricsTimeout}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

// Sum adds up the counters or gauges of a metric that have all the given labels,
// each a name followed by its value.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
series:
	for _, series := range m[name].GetMetric() {
		has := make(map[string]string)
		for _, l := range series.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if has[labels[i]] != labels[i+1] {
				continue series
			}
		}
		sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
	}
	return sum
}
