package caddymodule

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

var update = flag.Bool("update", false, "write what the code does now to the golden files")

const dashes = "\n----------\n"

// TestCaddyfiles holds testdata/*.caddyfiletest: a Caddyfile, ten dashes, and
// what it becomes: the JSON, or the error of adapting or of validating it.
func TestCaddyfiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOTBOARD_TEST_NATS_URL", "nats://127.0.0.1:4222")
	t.Setenv("HOTBOARD_TEST_NATS_TOKEN", "s3cret")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config, want, ok := strings.Cut(string(data), dashes)
			if !ok {
				t.Fatalf("%s has no line of dashes", file)
			}
			config += "\n"
			// The path of a file of bots is absolute.
			got := strings.ReplaceAll(adaptAndValidate([]byte(config)), directory, "DIRECTORY") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimSuffix(config, "\n")+dashes+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if formatted := caddyfile.Format([]byte(config)); string(formatted) != config {
				t.Errorf("is not formatted; caddy fmt makes it\n%s", formatted)
			}
		})
	}
}

func adaptAndValidate(config []byte) string {
	data, warnings, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt(config, map[string]any{"filename": "testdata/Caddyfile"})
	if err != nil {
		return err.Error()
	}
	for _, w := range warnings {
		return w.String()
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, data, "", "\t"); err != nil {
		return err.Error()
	}
	var cfg caddy.Config
	if err := caddy.StrictUnmarshalJSON(data, &cfg); err != nil {
		return err.Error()
	}
	if err := caddy.Validate(&cfg); err != nil {
		// Caddy provisions apps in random order, and its words before ours depend on it.
		_, ours, _ := strings.Cut(err.Error(), "provision http.handlers.hotboard: ")
		if _, app, ok := strings.Cut(err.Error(), "provision hotboard: "); ok {
			ours = app
		}
		return "invalid: " + ours
	}
	return pretty.String()
}

func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.caddyfiletest")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		config, _, _ := strings.Cut(string(data), dashes)
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		if strings.Contains(config, "import") || strings.Contains(config, "rules_file") {
			return // which read files
		}
		data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(config), nil)
		if err != nil {
			return
		}
		var cfg struct {
			Apps struct{ Hotboard json.RawMessage }
		}
		if err := json.Unmarshal(data, &cfg); err != nil {
			t.Fatalf("adapted to what is not JSON: %v", err)
		}
		if cfg.Apps.Hotboard == nil {
			return
		}
		if err := caddy.StrictUnmarshalJSON(cfg.Apps.Hotboard, new(App)); err != nil {
			t.Errorf("adapted to what the app cannot read: %v\n%s", err, cfg.Apps.Hotboard)
		}
	})
}
