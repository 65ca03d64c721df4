package caddymodule

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

func botsSite(list, file string) string {
	return limited(list, "bots {\n file "+file+"\n }")
}

func TestBotsFile(t *testing.T) {
	log := startLog(t, 1)
	const list = "botsfile"
	path := filepath.Join(t.TempDir(), "bots.json")
	version := time.Now().Add(-time.Hour)
	write := func(data string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		version = version.Add(time.Second) // as the time between two versions is
		if err := os.Chtimes(path, version, version); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"pattern": "Gecko\\/20100101"}]`)
	e := startEdge(t, log, botsSite(list, path))
	judge := func(want ruleset.Reason) {
		t.Helper()
		before := counted(list, want)
		e.do(browse("/" + list + "/page"))
		if counted(list, want) != before+1 {
			t.Errorf("the verdict is not %s", want)
		}
	}
	failing := func(want int) {
		t.Helper()
		found := e.app.rt.Load().faults.Active()
		found = slices.DeleteFunc(found, func(f faults.Fault) bool { return f.Kind != faults.BotsFile })
		if len(found) != want {
			t.Errorf("faults of the file of bots: %v, want %d", found, want)
		}
	}
	judge(ruleset.Bot)
	write(`[]`)
	settle(t, "the changed file to be read", func() bool {
		return !e.app.generation.Load().bots.Classify(firefox, clientAddr(t, "192.0.2.1")).Bot
	})
	judge(ruleset.Counted)

	file := e.app.botsFile
	e.app.watching() // from here on, the test looks itself
	e.app.watcher.Wait()
	for _, bad := range []string{`[{"pattern": "("}]`, `[{"pattern": "Gecko"`, `{}`} {
		write(bad)
		file.Check(e.app.rt.Load().faults)
		failing(1)
		judge(ruleset.Counted)
		file.Check(e.app.rt.Load().faults) // and does not read it again
		failing(1)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	file.Check(e.app.rt.Load().faults)
	failing(1)
	write(`[{"pattern": "Firefox"}]`)
	file.Check(e.app.rt.Load().faults)
	failing(0)
	judge(ruleset.Bot)
	other := path + ".new" // as editors save
	if err := os.WriteFile(other, []byte(`[{"pattern": "Firebox"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, version, version); err != nil { // the same time and size
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	file.Check(e.app.rt.Load().faults)
	judge(ruleset.Counted)
}

func TestBotsFileThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`[{"pattern": "("}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bad, filepath.Join(dir, "none.json")} {
		config := strings.ReplaceAll(botsSite("badbots", path), "DIR", filepath.Join(dir, "data"))
		config = strings.Replace(config, "NATS", natsBroker("nats://127.0.0.1:1"), 1)
		err := caddy.Validate(adapt(t, config))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error that names it", filepath.Base(path), err)
		}
	}
}
