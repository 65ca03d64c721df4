package currentlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/zap"
)

func TestLogger(t *testing.T) {
	defer caddy.Stop()
	dir := t.TempDir()
	load := func(file string) {
		t.Helper()
		cfg, err := json.Marshal(map[string]any{
			"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
			"logging": map[string]any{"logs": map[string]any{"default": map[string]any{
				"writer": map[string]any{"output": "file", "filename": filepath.Join(dir, file)},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := caddy.Load(cfg, true); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) string {
		data, _ := os.ReadFile(filepath.Join(dir, file))
		return string(data)
	}
	load("first")
	log := Logger("hotboard.test").With(zap.Int("n", 7))
	log.Info("one")
	load("second")
	log.Error("two")
	log.Debug("not at this level")
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
	if s := read("first"); !strings.Contains(s, `"msg":"one","n":7`) || strings.Contains(s, `"two"`) {
		t.Errorf("the first log has %s", s)
	}
	if s := read("second"); !strings.Contains(s, `"logger":"hotboard.test","msg":"two","n":7`) || strings.Contains(s, "level\":\"debug") {
		t.Errorf("the second log has %s", s)
	}
}
