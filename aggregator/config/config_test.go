package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

const minimal = `
redis:
  url: redis://127.0.0.1:6379
rules:
  lists:
    - name: articles
      pages: ["/articles/{id}"]
`

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := Parse("/etc/hotboard/aggregator.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != DefaultListen || len(c.NATS.URLs) != 1 || c.Rules.List("articles").Dedup != ruleset.DefaultDedup {
		t.Errorf("%+v", c)
	}
	if o := c.NATS.LogOptions(); o.MaxAge != 0 || o.MaxBytes != 0 || o.Replicas != 0 {
		t.Errorf("%+v is not left to package ingest", o)
	}
}

func TestEverything(t *testing.T) {
	t.Setenv("HOTBOARD_TEST_PASSWORD", `p"a: #ss`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte("lists: [{name: articles, pages: [\"/a/{id}\"]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "aggregator.yaml")
	if err := os.WriteFile(file, []byte(`
listen: ":7071"
reload_token: ${HOTBOARD_TEST_PASSWORD}
slice: 2s
shards: 4
nats:
  urls: [nats://a:4222, "tls://b"]
  user: me
  password: "${HOTBOARD_TEST_PASSWORD}"
  max_age: 7d
  max_bytes: 1.5GiB
  replicas: 3
sqlite: {path: counts.db}
log: {format: json, level: debug}
rules_file: rules.yaml
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	secret := Text(`p"a: #ss`)
	want := &Config{
		Listen: ":7071", ReloadToken: secret, Slice: ruleset.Duration(2 * time.Second), Shards: 4,
		NATS: NATS{URLs: []Text{"nats://a:4222", "tls://b"}, User: "me", Password: secret,
			MaxAge: ruleset.Duration(7 * 24 * time.Hour), MaxBytes: 3 << 29, Replicas: 3},
		SQLite:    &SQLite{Path: Text(filepath.Join(dir, "counts.db"))},
		Log:       Log{Format: "json", Level: "debug"},
		RulesFile: Text(filepath.Join(dir, "rules.yaml")),
		Rules:     c.Rules,
	}
	if diff := cmp.Diff(want, c, cmp.Comparer(func(a, b *ruleset.Rules) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if c.Rules.List("articles") == nil {
		t.Error("the rules of the file are missing")
	}
}

func TestProblemsHavePlaces(t *testing.T) {
	t.Parallel()
	_, err := Parse("a.yaml", []byte(`listen: nowhere
slice: 5m
shards: -1
nats:
  urls: ["no url", 7]
  token: ${HOTBOARD_TEST_NOT_SET}
  password: x
  max_age: 5m
  max_bytes: much
redis: {}
log: {format: xml, level: loud}
rules:
  lists:
    - name: A B
      dedup: 5
typo: 1
`))
	var got []string
	for _, p := range configfile.Problems(err) {
		if p.File != "a.yaml" || p.Line == 0 {
			t.Errorf("no place: %v", p)
		}
		got = append(got, p.Path)
	}
	want := []string{"listen", "slice", "shards", "nats.urls[0]", "nats.urls[1]", "nats.token", "nats.password", "nats.max_age",
		"nats.max_bytes", "redis.url", "log.format", "log.level", "rules.lists[0].name", "rules.lists[0].dedup", "typo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

func TestSingleProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no store":          {"rules: {lists: [{name: a}]}", "no store"},
		"two stores":        {minimal + "sqlite: {path: x}\n", "two stores"},
		"two rules":         {minimal + "rules_file: x.yaml\n", "two sets of rules"},
		"empty rules":       {"sqlite: {path: x}\nrules: {lists: []}", "nothing would be counted"},
		"missing rules":     {"sqlite: {path: x}\nrules_file: /nonexistent/x.yaml", "/nonexistent/x.yaml"},
		"two ways":          {minimal + "nats: {token: a, user: b}\n", "several ways"},
		"no SQLite path":    {"sqlite: {}\nrules: {lists: [{name: a}]}", "sqlite.path"},
		"password in a URL": {minimal + "nats: {urls: [\"nats://u:hunter2@%zz\"]}\n", "nats.urls[0]"},
	} {
		_, err := Parse("a.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds a secret: %v", name, err)
		}
	}
	if _, err := Load("/nonexistent/a.yaml"); err == nil {
		t.Error("a missing file was loaded")
	}
}

// The file of bots is relative to the file that names it, from whatever directory
// the program is started.
func TestFileOfBotsIsRelativeToTheFileThatNamesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rules = "lists: [{name: a}]\nbots: {file: %s}\n"
	for name, want := range map[string]string{"bots.json": filepath.Join(dir, "bots.json"), "/etc/bots.json": "/etc/bots.json"} {
		file := filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, rules, name), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := LoadRules(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(filepath.Join(dir, "aggregator.yaml"), []byte("sqlite: {path: x}\nrules_file: rules.yaml\n"))
		if err != nil {
			t.Fatal(err)
		}
		inline, err := Parse(filepath.Join(dir, "aggregator.yaml"), []byte("sqlite: {path: x}\nrules: {lists: [{name: a}], bots: {file: "+name+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for how, got := range map[string]string{"alone": r.Bots.File, "rules_file": c.Rules.Bots.File, "rules": inline.Rules.Bots.File} {
			if got != want {
				t.Errorf("%s: %q is %q, want %q", how, name, got, want)
			}
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{"1": 1, "4GiB": 4 << 30, "500 MB": 500e6, "1.5kib": 1536, "2B": 2, "1TiB": 1 << 40} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "1XB", "-1", "9999999TiB", "1.2.3MB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q = %d, want an error", text, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("nats: {urls: [\"${HOME}\"], max_bytes: 4GiB}\nsqlite: {path: x}\nrules: {lists: [{name: a}]}"))
	f.Add([]byte("redis: [}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("a.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil {
			return
		}
		if c.Listen == "" || (c.Redis == nil) == (c.SQLite == nil) {
			t.Fatalf("accepted %+v", c)
		}
		if c.Rules == nil && c.RulesFile == "" {
			t.Fatal("accepted without rules")
		}
	})
}
