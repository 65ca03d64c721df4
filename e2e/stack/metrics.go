package stack

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are the metrics of a process: values by series, in the exposition
// format's spelling, for example
// hotboard_hits_total{list="articles",reason="counted"}.
type Metrics map[string]float64

// metricsTimeout bounds a request for metrics.
const metricsTimeout = 10 * time.Second

func readMetrics(url string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	m := Metrics{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%s says %q", url, line)
		}
		m[line[:i]] = value
	}
	return m, lines.Err()
}

// Sum adds up the series of a metric with all the given labels, each spelled like
// kind="gap".
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
series:
	for series, value := range m {
		rest, ok := strings.CutPrefix(series, name)
		if !ok || rest != "" && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, "{"+l) && !strings.Contains(rest, ","+l) {
				continue series
			}
		}
		sum += value
	}
	return sum
}
