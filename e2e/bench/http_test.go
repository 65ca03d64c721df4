package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
)

// Counted page views through Caddy with the module, against the same binary without
// the directive. Caddy, wrk and nats-server share the machine. The two runs
// alternate, because machines get slower and faster.
func TestPages(t *testing.T) {
	wanted(t)
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		t.Fatal("wrk is needed: apt-get install wrk")
	}
	dir := t.TempDir()
	nc := connect(t)
	ensure(t, nc, 16)
	site := filepath.Join(dir, "site", "articles")
	if err := os.MkdirAll(site, 0o755); err != nil {
		t.Fatal(err)
	}
	page := "<!doctype html><title>An article</title><p>" + strings.Repeat("Words of an article. ", 200)
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(site, fmt.Sprintf("a%d.html", i)), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	stock := startCaddy(t, dir, "stock", "", "")
	module := startCaddy(t, dir, "module", fmt.Sprintf(`hotboard {
		dir %s
		nats %s
		list articles {
			page /articles/{id}.html
		}
	}`, filepath.Join(dir, "spool"), nc.ConnectedUrl()), "hotboard")
	script := filepath.Join(dir, "pages.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o644); err != nil {
		t.Fatal(err)
	}
	rates := map[string][]float64{}
	for range 9 {
		for name, url := range map[string]string{"stock": stock, "module": module} {
			rates[name] = append(rates[name], wrkRate(t, wrk, script, url))
		}
	}
	var ratios []float64
	for i := range rates["stock"] {
		ratios = append(ratios, rates["module"][i]/rates["stock"][i])
	}
	row("page views through Caddy", fmt.Sprintf("%.0f/s", median(rates["module"])), fmt.Sprintf("stock Caddy %.0f/s", median(rates["stock"])), fmt.Sprintf("%.2f", median(ratios)), ">= 0.9")
}

const wrkScript = `
local n = 0
wrk.headers["Accept"] = "text/html,application/xhtml+xml"
wrk.headers["Sec-Fetch-Dest"] = "document"
wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
request = function()
  n = (n + 1) % 100
  return wrk.format("GET", "/articles/a" .. n .. ".html")
end
`

// startCaddy runs a Caddy with the site, and returns its URL.
func startCaddy(t *testing.T, dir, name, global, directive string) string {
	t.Helper()
	port := services.FreePort(t)
	config := filepath.Join(dir, name+".Caddyfile")
	err := os.WriteFile(config, fmt.Appendf(nil, `{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
	%s
}
http://127.0.0.1:%d {
	%s
	root %s
	file_server
}
`, global, port, directive, filepath.Join(dir, "site")), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	services.StartProgram(t, services.Caddy, url+"/articles/a0.html", "run", "--config", config)
	return url
}

var requestsPerSecond = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

func wrkRate(t *testing.T, wrk, script, url string) float64 {
	t.Helper()
	out, err := exec.Command(wrk, "-t1", "-c32", "-d3s", "-s", script, url).CombinedOutput()
	if err != nil {
		t.Fatalf("wrk: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "Non-2xx") {
		t.Fatalf("not every page was served:\n%s", out)
	}
	m := requestsPerSecond.FindSubmatch(out)
	if m == nil {
		t.Fatalf("wrk says no rate:\n%s", out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
