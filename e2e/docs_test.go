package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/ruleset"
)

// What docs/configuration.md shows has to be what the programs take.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(doc)
		if m == nil {
			t.Fatalf("there is no %s in it", language)
		}
		return string(m[1])
	}
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(block("caddyfile")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") { // its comments stand in a column
			t.Error(w)
		}
	}
	if !strings.Contains(string(adapted), `"handler":"hotboard"`) {
		t.Errorf("no handler in %s", adapted)
	}
	file := filepath.Join(t.TempDir(), "aggregator.yaml")
	if err := os.WriteFile(file, []byte(block("yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rules.Lists) != 2 {
		t.Errorf("%d lists", len(c.Rules.Lists))
	}
	for _, r := range []ruleset.Reason{ruleset.Counted, ruleset.Bot, ruleset.OptOut, ruleset.DroppedQueueFull} {
		if !strings.Contains(string(doc), "| `"+string(r)+"` |") {
			t.Errorf("the reason %s is missing", r)
		}
	}
}
