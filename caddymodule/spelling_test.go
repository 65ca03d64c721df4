package caddymodule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// The same rules have the same document in a Caddyfile, in the JSON that Caddy
// makes of it, in a YAML file and in a Caddyfile that names the YAML file.
func TestSpellingsHaveOneDocument(t *testing.T) {
	t.Parallel()
	const inYAML = `
lists:
  - name: articles
    pages: ["/articles/{id}", "/blog/{year}/{slug}"]
    dedup: 60m
    zone: Europe/Berlin
    weights: {pv: 1, uv: 0.5}
    score: {model: halflife, half_life: 24h, min_views: 3}
    boards: [all, day]
    keep: {day: 7}
  - name: products
    id: "{http.request.uri.query.id}"
    content_types: ["*"]
  - name: poll
    votes: {options: [red, green], opens: 2026-11-20T08:00:00Z, require_user: true}
  - name: robots
limits:
  - name: address
    by: [ip, item]
    windows: [{max: 5, per: 10s, burst: 20}, {max: 60, per: minute, calendar: true}, {max: 1000, per: day}]
  - name: person
    by: [user]
    windows: [{max: 3, per: campaign}]
    when: {lists: [poll], channels: [newsletter], devices: [mobile, tablet]}
    bonus: {newsletter: 2, partner: 1}
    shadow: true
bots:
  allow: {user_agents: [Our Monitor/], cidrs: [198.51.100.7]}
  deny: {cidrs: [192.0.2.1/24, "2001:db8::/32"]}
  count: [{list: robots, classes: [ai_crawler]}]
`
	const inCaddyfile = `
		list articles {
			page /articles/{id} /blog/{year}/{slug}
			dedup 1h
			zone Europe/Berlin
			weights 1 0.5
			score halflife {
				half_life 1d
				min_views 3
			}
			boards day all
			keep day 7
		}
		list products {
			id {query.id}
			content_type *
		}
		list poll {
			votes red green {
				opens 2026-11-20T09:00:00+01:00
				require_user
			}
		}
		list robots
		limit address {
			by ip item
			ipv4_prefix 32
			max 5 per 10s burst 20
			max 60 per minute calendar
			max 1000 per day
		}
		limit person {
			by user
			max 3 per campaign
			when list poll
			when channel newsletter
			when device mobile tablet
			bonus partner 1
			bonus newsletter 2
			shadow
		}
		bots {
			allow user_agent "Our Monitor/"
			allow cidr 198.51.100.7
			deny cidr 192.0.2.0/24 2001:db8::/32
			count robots ai_crawler
		}`
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(inYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := ruleset.ParseYAML(file, []byte(inYAML))
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]string{"Caddyfile": inCaddyfile, "rules_file": "rules_file " + file} {
		data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte("{\n\thotboard {\n"+options+"\n\t}\n}\n"), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var cfg struct {
			Apps struct{ Hotboard App }
		}
		if err := json.Unmarshal(data, &cfg); err != nil {
			t.Fatal(err)
		}
		r, err := ruleset.Compile(cfg.Apps.Hotboard.Config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.ID() != want.ID() || r.ID() == (hit.RulesID{}) {
			t.Errorf("%s: %v", name, ruleset.Diff(want, r))
		}
	}
}
