package stack

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
)

// Pages are the pages on the site of every edge, by their ids.
var pages = [...]string{"welcome", "second", "third", "fourth"}

// Pages returns the ids of the pages on the site of every edge: each is at
// /articles/ and its id.
func Pages() []string { return pages[:] }

// EdgeOptions configures an edge.
type EdgeOptions struct {
	// Broker is a line of the global option hotboard, such as
	// "nats nats://127.0.0.1:4222" or "embedded".
	Broker string
	// Rules is the path of the file with the rules. Without one, the edge follows.
	Rules string
	// Site is the content of the directive hotboard's block.
	Site string
	// Data is the dir of the global option hotboard. Default: an empty one.
	Data string
}

// Edge is a Caddy in front of a small site of files.
type Edge struct {
	*services.Program
	// URL is the site's, without a path; Admin is that of Caddy's admin API.
	URL, Admin string
	// Config is the path of the Caddyfile.
	Config string
	// Data is the directory of the edge's spool and secrets.
	Data string
}

// StartEdge runs a Caddy until the test ends. It trusts X-Forwarded-For from this
// machine, so that a test can be many visitors.
func StartEdge(t testing.TB, o EdgeOptions) *Edge {
	t.Helper()
	dir := t.TempDir()
	writeSite(t, filepath.Join(dir, "site"))
	site, admin := services.FreePort(t), services.FreePort(t)
	e := &Edge{
		URL:    fmt.Sprintf("http://127.0.0.1:%d", site),
		Admin:  fmt.Sprintf("http://127.0.0.1:%d", admin),
		Config: filepath.Join(dir, "Caddyfile"),
		Data:   cmp.Or(o.Data, filepath.Join(dir, "hotboard")),
	}
	if o.Rules != "" {
		o.Rules = "rules_file " + o.Rules
	}
	directive := "hotboard"
	if o.Site != "" {
		directive += " {\n\t\t" + o.Site + "\n\t}"
	}
	text := strings.NewReplacer(
		"ADMIN", strings.TrimPrefix(e.Admin, "http://"), "URL", e.URL, "DATA", e.Data, "DIR", dir,
		"BROKER", o.Broker, "RULES", o.Rules, "HOTBOARD", directive,
	).Replace(caddyfile)
	if err := os.WriteFile(e.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Program = services.StartProgram(t, services.Caddy, e.URL, "run", "--adapter", "caddyfile", "--config", e.Config)
	return e
}

const caddyfile = `{
	admin ADMIN
	persist_config off
	storage file_system DIR/storage
	hotboard {
		dir DATA
		BROKER
		RULES
	}
	servers {
		trusted_proxies static 127.0.0.1/32
	}
}

URL {
	HOTBOARD
	root DIR/site
	try_files {path}.html {path}
	file_server
}
`

func writeSite(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "articles"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"index.html": "<h1>A site of a test</h1>\n"}
	for i, id := range pages {
		// Two sizes: one fits into a packet, one does not.
		text := strings.Repeat("<p>What is read is counted, and what is counted was read.\n", 1+40*i)
		files["articles/"+id+".html"] = "<!DOCTYPE html>\n<title>" + id + "</title>\n" + text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Reload makes the running Caddy load a Caddyfile, like an operator.
func (e *Edge) Reload(t testing.TB, config string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), services.Binary(t, services.Caddy), "reload",
		"--adapter", "caddyfile", "--config", config, "--address", strings.TrimPrefix(e.Admin, "http://"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("caddy reload: %v\n%s", err, out)
	}
}

// Metrics returns the edge's metrics.
func (e *Edge) Metrics() (Metrics, error) { return readMetrics(e.Admin + "/metrics") }
