package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// block is a block of code in a document.
type block struct {
	name     string // the document and the first line
	language string
	text     string
}

// documented returns the blocks of code in README.md and docs.
func documented(t *testing.T) []block {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	var blocks []block
	fence := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			line := 1 + bytes.Count(text[:m[0]], []byte("\n"))
			blocks = append(blocks, block{
				name:     fmt.Sprintf("%s:%d", filepath.Base(file), line),
				language: string(text[m[2]:m[3]]),
				text:     string(text[m[4]:m[5]]),
			})
		}
	}
	return blocks
}

// The programs must accept the examples in the documents.
func TestDocumentedConfiguration(t *testing.T) {
	// Not in parallel: Caddy validates in the state of the process.
	dir := t.TempDir()
	patterns, err := os.ReadFile("testdata/bots.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crawler-user-agents.json"), patterns, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, b := range documented(t) {
		t.Run(b.name, func(t *testing.T) {
			switch {
			case b.language == "caddyfile":
				validateCaddy(t, adaptBlock(t, dir, b.text))
			case b.language == "json" && strings.Contains(b.text, `"apps"`):
				validateCaddy(t, []byte(b.text))
			case b.language == "yaml" && strings.HasPrefix(b.text, "lists:"):
				if _, err := ruleset.ParseYAML(b.name, []byte(b.text)); err != nil {
					t.Error(err)
				}
			case b.language == "yaml" && strings.HasPrefix(b.text, "listen:"):
				if _, err := config.Parse(filepath.Join(dir, "aggregator.yaml"), []byte(b.text)); err != nil {
					t.Error(err)
				}
			default:
				return
			}
			seen[b.language]++
		})
	}
	if seen["caddyfile"] < 8 || seen["json"] < 1 || seen["yaml"] < 2 {
		t.Errorf("only so many were found: %v", seen)
	}
}

func adaptBlock(t *testing.T, dir, text string) []byte {
	t.Helper()
	if formatted := caddyfile.Format([]byte(text)); string(formatted) != text {
		t.Errorf("not formatted; caddy fmt makes it\n%s", formatted)
	}
	return adapt(t, filepath.Join(dir, "Caddyfile"), []byte(text))
}

func validateCaddy(t *testing.T, config []byte) {
	t.Helper()
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&c); err != nil {
		t.Errorf("not valid: %v\n%s", err, config)
	}
}

// The documents explain every reason in the code, and no other.
func TestDocumentedReasons(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readText(t, "../docs/configuration.md"), "| reason | meaning |")
	var explained []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)(?::<name>)?` \\|").FindAllStringSubmatch(table, -1) {
		explained = append(explained, m[1])
	}
	slices.Sort(explained)
	var known []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +(?:Reason +)?= "([a-z_]+)"`).FindAllStringSubmatch(readText(t, "../ruleset/reason.go"), -1) {
		known = append(known, m[1])
	}
	slices.Sort(known)
	if len(known) < 20 || !slices.Equal(known, explained) {
		t.Errorf("the code has\n%v\ndocs/configuration.md explains\n%v", known, explained)
	}
}

// Every fault has a row with its cause, what is safe, and what to do, and no other
// has.
func TestDocumentedFaults(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readText(t, "../docs/operations.md"), "## Faults")
	table, _, _ = strings.Cut(table, "## Metrics")
	var explained []faults.Kind
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|(.*)\\|(.*)\\|(.*)\\|$").FindAllStringSubmatch(table, -1) {
		explained = append(explained, faults.Kind(m[1]))
		for _, cell := range m[2:] {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("the row of %s has an empty cell", m[1])
			}
		}
	}
	known := slices.Concat(faults.Aggregator, faults.Edge)
	slices.Sort(known)
	slices.Sort(explained)
	if known = slices.Compact(known); !slices.Equal(known, explained) {
		t.Errorf("the code has\n%v\ndocs/operations.md explains\n%v", known, explained)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
