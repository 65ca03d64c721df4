package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
)

func TestQuickstartSite(t *testing.T) {
	t.Parallel()
	const example = "../../caddyfile-examples/quickstart"
	site, err := filepath.Abs(filepath.Join(example, "site"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(example, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%d", services.FreePort(t))
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := strings.NewReplacer(
		":8080", port,
		"\thotboard {\n\t\t#", fmt.Sprintf("\tadmin localhost:%d\n\thotboard {\n\t\t#", services.FreePort(t)),
		"dir hotboard-data", "dir "+filepath.Join(t.TempDir(), "hotboard-data"),
		"caddyfile-examples/quickstart/site", site,
	).Replace(string(text))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "http://localhost" + port
	services.StartProgram(t, services.Caddy, url+"/api/stats/articles", "run", "--adapter", "caddyfile", "--config", file)

	for i, views := range []string{"1 view", "2 views"} {
		d := devices[i]
		b := newTab(t, startBrowser(t, d))
		b.visit(url)
		b.until(`document.querySelector("hot-list").matches("[state=empty], [state=ready]")`)
		b.visit(url + "/articles/tail-latency")
		b.until(`[...document.querySelectorAll("hot-count")].map((e) => e.textContent).join() === "` + fmt.Sprintf("%[1]d,%[1]d", i+1) + `"`)
		b.until(`document.querySelector("hot-list li").textContent.replace(/\s+/g, " ").trim() === "1 The slowest one percent is everybody ` + views + `"`)
		b.noMistakes()
	}
}
