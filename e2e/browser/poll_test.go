package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
)

func TestPollSite(t *testing.T) {
	t.Parallel()
	const example = "../../caddyfile-examples/poll"
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
		"\thotboard {\n\t\t# Votes", fmt.Sprintf("\tadmin localhost:%d\n\thotboard {\n\t\t# Votes", services.FreePort(t)),
		"dir hotboard-data", "dir "+filepath.Join(t.TempDir(), "hotboard-data"),
		"caddyfile-examples/poll/site", site,
		"max 1 per day", "max 1 per campaign", // no midnight comes between
		"confirm 2s", "confirm 10s", // on a busy machine
	).Replace(string(text))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "http://localhost" + port
	services.StartProgram(t, services.Caddy, url+"/api/stats/dinner", "run", "--adapter", "caddyfile", "--config", file)

	click := func(b *tab, option, says string) {
		t.Helper()
		eval[any](b, `document.querySelector("[value=`+option+`]").click()`)
		b.until(fmt.Sprintf(`(() => {
			const said = document.getElementById("said").textContent;
			if (said.includes("cannot be taken now")) document.querySelector("[value=%[1]s]").click(); // an edge that has just started
			return said.startsWith(%[2]q);
		})()`, option, says))
	}
	shows := func(b *tab, board string) {
		t.Helper()
		b.until(fmt.Sprintf(`[...document.querySelectorAll("hot-list li:not([hidden])")].map((li) => li.innerText.replace(/\s+/g, " ").trim()).join(" | ") === %q`, board))
	}

	desktop := newTab(t, startBrowser(t, devices[0]))
	desktop.visit(url)
	desktop.until(`document.querySelector("hot-list").matches("[state=empty]")`)
	click(desktop, "ramen", "Thank you. Ramen is number 1 now.")
	shows(desktop, "Ramen 1")
	click(desktop, "tacos", "You have voted already.")

	mobile := newTab(t, startBrowser(t, devices[1]))
	mobile.visit(url + "/?via=newsletter")
	click(mobile, "curry", "Thank you. Curry is number ")
	click(mobile, "ramen", "Thank you. Ramen is number 1 now.")
	click(mobile, "curry", "You have voted already.")
	shows(mobile, "Ramen 2 | Curry 1")
	shows(desktop, "Ramen 2 | Curry 1")
	desktop.noMistakes()
	mobile.noMistakes()
}
