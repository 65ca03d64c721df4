package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/internal/faults"
)

// Aggregator is an aggregator with its HTTP listener.
type Aggregator struct {
	*services.Program
	// URL is the listener's, without a path.
	URL string
	// Config is the path of its configuration.
	Config string
}

// AggregatorOptions configures an aggregator.
type AggregatorOptions struct {
	NATS     []string // URLs of the servers
	Replicas int      // of the log. Default: 1
	Redis    string   // URL
	// Rules is the path of the file with the rules. Without one, the aggregator
	// follows.
	Rules string
}

// StartAggregator runs an aggregator until the test ends. On return it answers, but
// need not be ready.
func StartAggregator(t testing.TB, o AggregatorOptions) *Aggregator {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", services.FreePort(t))
	a := &Aggregator{URL: "http://" + address, Config: filepath.Join(t.TempDir(), "aggregator.yaml")}
	// Every JSON text is YAML.
	config := map[string]any{
		"listen": address,
		"nats":   map[string]any{"urls": o.NATS, "replicas": max(1, o.Replicas)},
		"redis":  map[string]any{"url": o.Redis},
	}
	if o.Rules != "" {
		config["rules_file"] = o.Rules
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.Config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Program = services.StartProgram(t, services.Aggregator, a.URL+"/-/healthy", "-config", a.Config)
	return a
}

// readyTimeout bounds /-/ready, which promises to fail fast.
const readyTimeout = 10 * time.Second

// Ready returns the aggregator's status and its faults.
func (a *Aggregator) Ready() (status int, found []faults.Fault, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/-/ready", nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Faults []faults.Fault
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return resp.StatusCode, nil, fmt.Errorf("reading /-/ready: %w", err)
	}
	return resp.StatusCode, answer.Faults, nil
}

// Metrics returns the aggregator's metrics.
func (a *Aggregator) Metrics() (Metrics, error) { return readMetrics(a.URL + "/metrics") }
