package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hotboard/hotboard/aggregator/config"
	_ "github.com/hotboard/hotboard/caddymodule/allinone"
)

const examples = "../caddyfile-examples"

// TestExamplesAreValid adapts every Caddyfile of the examples, checks its format
// with Caddy's formatter, and lets Caddy provision the result.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*", "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	nested, err := filepath.Glob(filepath.Join(examples, "*", "*", "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, nested...)
	if len(files) < 5 {
		t.Fatalf("only %d examples were found: %v", len(files), files)
	}
	for _, file := range files {
		name, err := filepath.Rel(examples, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		// Not in parallel: Caddy validates in the state of the process.
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(text, []byte("# ")) {
				t.Error("the example does not begin by saying what it is")
			}
			if !bytes.Equal(text, caddyfile.Format(text)) {
				t.Errorf("not formatted; run: caddy fmt --overwrite %s", file)
			}
			config := adapt(t, file, text)
			var c caddy.Config
			if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(&c); err != nil {
				t.Errorf("not valid: %v\n%s", err, config)
			}
		})
	}
}

// TestExampleAggregatorsAreValid reads every configuration of an aggregator with
// its rules.
func TestExampleAggregatorsAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examples, "*", "aggregator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("only %d were found: %v", len(files), files)
	}
	for _, file := range files {
		if _, err := config.Load(file); err != nil {
			t.Error(err)
		}
	}
}

// adapt turns a Caddyfile into JSON; a warning is an error.
func adapt(t *testing.T, file string, text []byte) []byte {
	t.Helper()
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": file})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	return config
}
