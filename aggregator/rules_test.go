package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/aggregator/embedded"
	"github.com/hotboard/hotboard/internal/brokertest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := t.TempDir()
	one := write(t, dir, "one.yaml", articles)
	two := write(t, dir, "two.yaml", `lists: [{name: articles, pages: ["/articles/{id}"], dedup: 1h}, {name: more}]`)
	rules, err := config.LoadRules(two)
	if err != nil {
		t.Fatal(err)
	}
	second := rules.ID()
	for _, tt := range []struct {
		args   []string
		status int
		want   []string
	}{
		{[]string{"rules", "-data", data}, 1, []string{"no rules yet"}},
		{[]string{"rules", "add", "-data", data, one}, 0, []string{"revision 1 (", "caddyfile"}},
		{[]string{"rules", "add", "-data", data, one}, 0, []string{"revision 1 ("}},
		{[]string{"rules", "add", "-data", data, two}, 0, []string{"aggregator rules use " + second.String()}},
		{[]string{"rules", "use", "-data", data, second.String()}, 0, []string{"revision 2 (" + second.Short()}},
		{[]string{"rules", "use", "-data", data, "2"}, 0, []string{"Nothing changes"}},
		{[]string{"rules", "use", "-data", data, "1"}, 0, []string{"revision 3 ("}},
		{[]string{"rules", "use", "-data", data, "4"}, 1, []string{"there are 1 to 3"}},
		{[]string{"rules", "use", "-data", data, "x"}, 1, []string{"not the number of a revision"}},
		{[]string{"rules", "use", "-data", data, strings.Repeat("0a", 16)}, 1, []string{"lacks the document"}},
		{[]string{"rules", "authority", "-data", data, "nobody"}, 1, []string{"caddyfile or aggregator"}},
		{[]string{"rules", "authority", "-data", data, "caddyfile"}, 0, []string{"Nothing changes"}},
		{[]string{"rules", "authority", "-data", data, "aggregator"}, 0, []string{"revision 4 (", "aggregator"}},
		{[]string{"rules", "list", "-data", data}, 0, []string{"1 ", "2 ", "3 ", "4 (current)", "revision 1", "document " + second.Short()}},
		{[]string{"rules", "show", "-data", data, "2"}, 0, []string{"# revision 2 (", `"name": "more"`}},
		{[]string{"rules", "show", "-data", data}, 2, []string{"one argument"}},
		{[]string{"rules", "list", "-data", data, "1"}, 2, []string{"unexpected argument"}},
		{[]string{"rules", "typo"}, 2, []string{"unknown command"}},
		{[]string{"rules", "-help"}, 0, []string{"rules authority NAME"}},
		{[]string{"check", "-rules", two, "-against", one}, 0, []string{"lists.articles.dedup: 10m → 1h", "lists.more added", "counts from now on"}},
		{[]string{"check", "-rules", two, "-against", "1", "-data", data}, 0, []string{"lists.more added"}},
		{[]string{"check", "-rules", two, "-against", "2", "-data", data}, 0, []string{"Nothing changes"}},
		{[]string{"check", "-rules", two, "-against", "9", "-data", data}, 1, []string{"no revision 9"}},
		{[]string{"check", "-rules", two, "-against", "none.yaml"}, 1, []string{"none.yaml"}},
	} {
		status, out, errs := command(t, "", tt.args...)
		for _, want := range tt.want {
			if status != tt.status || !strings.Contains(out+errs, want) {
				t.Errorf("%v: %d, want %d with %q\n%s%s", tt.args, status, tt.status, want, out, errs)
			}
		}
	}
	_, shown, _ := command(t, "", "rules", "show", "-data", data, "2")
	again, err := config.LoadRules(write(t, dir, "shown.yaml", shown))
	if err != nil || again.ID() != second {
		t.Errorf("what show prints is another document: %v\n%s", err, shown)
	}
}

// A running site follows what a command changes.
func TestRulesOfARunningSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	rules, err := config.LoadRules(write(t, dir, "one.yaml", articles))
	if err != nil {
		t.Fatal(err)
	}
	e, err := embedded.Open(t.Context(), embedded.Options{Dir: data, Logger: slog.New(slog.DiscardHandler), Slice: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	propose(t, e, rules)
	two := write(t, dir, "two.yaml", "lists: [{name: other}]")
	_, out, errs := command(t, "", "rules", "add", "-data", data, two)
	_, name, ok := strings.Cut(strings.TrimSpace(out), "rules use ")
	if !ok {
		t.Fatal(out, errs)
	}
	if status, out, errs := command(t, "", "rules", "use", "-data", data, name); status != 0 {
		t.Fatal(out, errs)
	}
	brokertest.Eventually(t, func() string {
		if e.Rules().List("other") == nil {
			return fmt.Sprintf("answers are made by %s", e.Rules().Document())
		}
		return ""
	})
}

func TestCheckWithoutRules(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "aggregator.yaml", "sqlite: {path: counts.db}")
	if status, out, errs := command(t, "", "check", "-config", file); status != 0 || !strings.Contains(out, "follows the current revision") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
	if status, _, errs := command(t, "", "check", "-config", file, "-against", "1"); status != 1 || !strings.Contains(errs, "no rules to compare") {
		t.Errorf("%d\n%s", status, errs)
	}
}
