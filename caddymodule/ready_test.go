package caddymodule

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/internal/faults"
)

// readiness returns the status and the body of /hotboard/-/ready.
func readiness(t testing.TB) (int, string) {
	t.Helper()
	return adminAsk(t, http.MethodGet, "/hotboard/-/ready", "")
}

// faultMetric returns the value of hotboard_edge_fault of a kind.
func faultMetric(t testing.TB, e *edge, kind faults.Kind) float64 {
	t.Helper()
	families, err := e.ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "hotboard_edge_fault" && m.GetLabel()[0].GetValue() == string(kind) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric of the fault %s", kind)
	return 0
}

func TestReadiness(t *testing.T) {
	log := startLog(t, 1)
	dir := t.TempDir()
	salts := filepath.Join(dir, "salts.json")
	if err := os.WriteFile(salts, []byte(`{"2026-11-20":`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := startEdge(t, log, strings.Replace(limited("ready", ""), "DIR", dir, 1))
	settle(t, "the damaged secrets to be replaced", func() bool {
		status, _ := readiness(t)
		return status == http.StatusOK
	})
	var onDisk map[string]any
	if data, err := os.ReadFile(salts); err != nil || json.Unmarshal(data, &onDisk) != nil || len(onDisk) == 0 {
		t.Errorf("the secrets on disk: %d, %v", len(onDisk), err)
	}

	// Of a kind that nothing else in this test raises or clears.
	e.app.rt.Load().faults.Set(faults.BotsFile, faults.Whole, "no space left on device")
	if status, body := readiness(t); status != http.StatusServiceUnavailable || !strings.Contains(body, "no space left") {
		t.Errorf("with a fault: %d %s", status, body)
	}
	if got := faultMetric(t, e, faults.BotsFile); got != 1 {
		t.Errorf("hotboard_edge_fault is %v, want 1", got)
	}
	e.app.rt.Load().faults.Clear(faults.BotsFile, faults.Whole)
	if err := os.Remove(salts); err != nil {
		t.Fatal(err)
	}
	e.app.rt.Load().secrets.Check()
	settle(t, "the secrets to be written down again", func() bool {
		status, _ := readiness(t)
		_, err := os.Stat(salts)
		return status == http.StatusOK && err == nil
	})
	if e.do(browse("/ready/page")).Code != http.StatusOK {
		t.Error("no page")
	}
}
