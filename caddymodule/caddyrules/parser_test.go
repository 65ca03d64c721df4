package caddyrules

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// parse reads the global option hotboard of a Caddyfile.
func parse(file, text string) (ruleset.Config, error) {
	blocks, err := caddyfile.Parse(file, []byte(text))
	if err != nil || len(blocks) == 0 || len(blocks[0].Segments) == 0 {
		return ruleset.Config{}, errNoCaddyfile
	}
	d := caddyfile.NewDispenser(blocks[0].Segments[0])
	d.Next()
	p := NewParser(d)
	for d.NextBlock(0) {
		if err := p.Parse(d.Val()); err != nil {
			return ruleset.Config{}, err
		}
	}
	return p.Config()
}

var errNoCaddyfile = errors.New("not a Caddyfile")

// write puts files into a new directory and returns the path of the Caddyfile.
func write(t *testing.T, files map[string]string) (caddyfile string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "Caddyfile")
}

const asYAML = `lists:
  - name: articles
    pages: ["/a/{id}", "/b/{id}", "/c/{id}"]
    statuses: [200, 410]
    content_types: ["*"]
    published_header: Published
    dedup: 1h
    zone: Europe/Berlin
    weights: {pv: 1, uv: 0.5}
    score: {model: halflife, half_life: 2d, min_views: 3}
    boards: [day, all]
    keep: {day: 7}
  - name: shop
    id: "{http.request.uri.query.id}"
    score: {model: gravity, base: 1.5, gamma: 2, damping: log}
  - name: poll
    votes: {options: [yes, "5"], opens: 2026-11-20T09:30:00Z, closes: 2026-11-21T09:30:00Z, require_user: true}
  - name: robots
limits:
  - name: person
    by: [ip, user]
    ipv4_prefix: 24
    ipv6_prefix: 48
    windows: [{max: 3, per: day}, {max: 10, per: 10s, burst: 20}, {max: 5, per: minute, calendar: true}]
    when: {lists: [poll, articles], channels: [mail], devices: [mobile]}
    bonus: {"a.b[0]": 2, mail: 3}
    shadow: true
bots:
  file: bots.json
  allow: {user_agents: [Monitor, Probe], cidrs: [192.0.2.1]}
  deny: {cidrs: [198.51.100.0/24]}
  count:
    - {list: robots, classes: [ai_crawler, archiver]}
`

const asCaddyfile = `{
	hotboard {
		list articles {
			page /a/{id} /b/{id}
			page /c/{id}
			status 200 410
			content_type *
			published_header Published
			dedup 1h
			zone Europe/Berlin
			weights 1 0.5
			score halflife {
				half_life 2d
				min_views 3
			}
			boards day all
			keep day 7
		}
		list shop {
			id {query.id}
			score gravity {
				base 1.5
				gamma 2
				damping log
			}
		}
		list poll {
			votes yes 5 {
				opens 2026-11-20T09:30:00Z
				closes 2026-11-21T09:30:00Z
				require_user
			}
		}
		list robots
		limit person {
			by ip user
			ipv4_prefix 24
			ipv6_prefix 48
			max 3 per day
			max 10 per 10s burst 20
			max 5 per minute calendar
			when list poll
			when list articles
			when channel mail
			when device mobile
			bonus a.b[0] 2
			bonus mail 3
			shadow
		}
		bots {
			file bots.json
			allow user_agent Monitor Probe
			allow cidr 192.0.2.1
			deny cidr 198.51.100.0/24
			count robots ai_crawler archiver
		}
	}
}
`

// A Caddyfile, and one that names a YAML file, give what the YAML gives.
func TestSpellingsAgree(t *testing.T) {
	t.Parallel()
	file := write(t, map[string]string{"rules.yaml": asYAML})
	root, err := configfile.ParseYAML("rules.yaml", []byte(asYAML))
	if err != nil {
		t.Fatal(err)
	}
	var want ruleset.Config
	if err := root.Decode("", &want, nil); err != nil {
		t.Fatal(err)
	}
	want.Bots.File = filepath.Join(filepath.Dir(file), "bots.json")
	for _, text := range []string{asCaddyfile, "{\n hotboard {\n rules_file rules.yaml\n }\n}"} {
		got, err := parse(file, text)
		if err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngave %+v\nwant %+v", text, got, &want)
		}
	}
}

// Every mistake has its own file and line, wherever the options come from.
func TestPlacesOfMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ main, imported, yaml, want string }{
		"imported": {
			main:     "{\n\timport defaults\n}\n(snippet) {\n\tlist a {\n\t\tdedup 5\n\t}\n}\n",
			imported: "hotboard {\n\tlist b {\n\t\tzone Mars\n\t\tpage x\n\t}\n}\n",
			want: `DIR/imported:3: lists[0].zone: "Mars" is not an IANA time zone such as UTC or Europe/Berlin
DIR/imported:4: lists[0].pages[0]: pattern "x": must begin with "/"`,
		},
		"snippet and rules file": {
			main: "(snippet) {\n\tlist a {\n\t\tdedup 5\n\t}\n}\n{\n\thotboard {\n\t\timport snippet\n\t\trules_file rules.yaml\n\t\tlist c {\n\t\t\tweights 1 two\n\t\t}\n\t}\n}\n",
			yaml: "lists:\n  - name: b\n    zone: Mars\nlimits:\n  - name: l\n    by: [ip]\n    windows: [{max: 1, per: day}]\n    when: {lists: [a, d]}\n",
			want: `DIR/Caddyfile:3: lists[0].dedup: duration "5": want a number and a unit, such as "90s", "10m", "36h", "7d" or "1w2d"
DIR/Caddyfile:11: lists[2].weights.uv: "two" is not a number
DIR/rules.yaml:3:11: lists[1].zone: "Mars" is not an IANA time zone such as UTC or Europe/Berlin
DIR/rules.yaml:8:23: limits[0].when.lists[1]: unknown list "d"`,
		},
		"rules file of other types": {
			main: "{\n\thotboard {\n\t\trules_file rules.yaml\n\t\tlist a\n\t}\n}\n",
			yaml: "lists: 3\nlimits:\nbot: {}\n",
			want: "DIR/rules.yaml:1:8: lists: want a list, not a number\nDIR/rules.yaml:3:1: bot: unknown key; known here are bots, limits, lists",
		},
		"rules file without keys": {
			main: "{\n\thotboard {\n\t\trules_file rules.yaml\n\t}\n}\n",
			yaml: "- a\n",
			want: "DIR/rules.yaml:1:1: want a table of keys, not a list, at DIR/Caddyfile:3",
		},
		"two rules files": {
			main: "{\n\thotboard {\n\t\trules_file rules.yaml\n\t\trules_file rules.yaml\n\t}\n}\n",
			yaml: "lists:\n  - name: a\nbots: {}\n",
			want: "DIR/rules.yaml:3:1: bots: duplicate: DIR/rules.yaml:3 has it, at DIR/Caddyfile:4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, map[string]string{"imported": tt.imported, "rules.yaml": tt.yaml})
			dir := filepath.Dir(file)
			_, err := parse(file, strings.ReplaceAll(tt.main, "defaults", filepath.Join(dir, "imported")))
			if err == nil {
				t.Fatal("no error")
			}
			_, got, _ := strings.Cut(strings.ReplaceAll(err.Error(), dir, "DIR"), "\n")
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A rules file may lack lists: the Caddyfile may have them.
func TestEmptyRulesFile(t *testing.T) {
	t.Parallel()
	file := write(t, map[string]string{"rules.yaml": "lists:\nlimits:\nbots:\n"})
	r, err := parse(file, "{\n\thotboard {\n\t\trules_file rules.yaml\n\t\tlist a\n\t\trules_file rules.yaml\n\t}\n}\n")
	if err != nil || len(r.Lists) != 1 || r.Bots != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

var placed = regexp.MustCompile(`, at Caddyfile:[1-9][0-9]*( import chain \['.*'\])?$`)

func FuzzParser(f *testing.F) {
	goldens, err := filepath.Glob("../testdata/*.caddyfiletest")
	if err != nil || len(goldens) == 0 {
		f.Fatalf("no goldens: %v", err)
	}
	for _, golden := range goldens {
		text, err := os.ReadFile(golden)
		if err != nil {
			f.Fatal(err)
		}
		config, _, _ := strings.Cut(string(text), "\n----------\n")
		f.Add(strings.Replace(config, "nats nats://127.0.0.1:4222", "", 1))
	}
	f.Add(asCaddyfile)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "import") || strings.Contains(text, "rules_file") {
			return // which read files
		}
		c, err := parse("Caddyfile", text)
		if err == nil && len(c.Lists) > 0 {
			checkAdapted(t, c)
		}
		if err == nil || err == errNoCaddyfile || placed.MatchString(err.Error()) {
			return
		}
		problems := configfile.Problems(errors.Unwrap(err))
		if len(problems) == 0 {
			t.Errorf("%q has no place", err)
		}
		for _, p := range problems {
			if p.File != "Caddyfile" || p.Line < 1 {
				t.Errorf("%q has no place", p)
			}
		}
	})
}

// checkAdapted verifies that the JSON which a Caddyfile becomes has the same rules.
func checkAdapted(t *testing.T, c ruleset.Config) {
	t.Helper()
	rules, err := ruleset.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	adapted, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var read ruleset.Config
	if err := json.Unmarshal(adapted, &read); err != nil {
		t.Fatal(err)
	}
	again, err := ruleset.Compile(read)
	if err != nil {
		t.Fatalf("%v in\n%s", err, adapted)
	}
	want, _ := json.Marshal(rules)
	if got, _ := json.Marshal(again); string(got) != string(want) {
		t.Errorf("the adapted configuration has the rules\n%s\nwant\n%s", got, want)
	}
}
