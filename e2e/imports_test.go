package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/hotboard/hotboard"
	caddyPath  = "github.com/caddyserver/caddy/v2"
	natsServer = "github.com/nats-io/nats-server/v2"
	redis      = "github.com/redis/go-redis/v9"
	sqlite     = "modernc.org/sqlite"
)

// bothSides may import both the edge and the aggregator: the embedded default, and
// the Caddy that includes it. The tests in e2e may too.
var bothSides = []string{module + "/caddymodule/allinone", module + "/caddymodule/cmd/caddy"}

// withCaddy are the packages below caddymodule that may import Caddy: they read
// Caddyfiles, or follow its configurations and loggers.
var withCaddy = []string{module + "/caddymodule/caddyrules", module + "/caddymodule/internal"}

// TestImportDirection checks the direction of imports between packages: hit ◄
// ruleset ◄ caddymodule and hit ◄ ruleset ◄ aggregator. It looks at all
// dependencies of a package, except those of its tests.
func TestImportDirection(t *testing.T) {
	t.Parallel()
	packages := goList(t)
	for _, rule := range []struct {
		name   string
		of     string   // the package and those below it
		except []string // the same
		only   []string // packages of this module that it may depend on beside itself
		apart  bool     // packages below it may not depend on each other
		never  []string
	}{
		{name: "hit imports nothing of ours", of: "/hit", only: []string{}},
		{name: "what both sides use knows neither", of: "/internal", only: []string{module + "/hit", module + "/ruleset"}},
		{name: "ruleset imports hit only", of: "/ruleset", only: []string{module + "/hit"}},
		{
			name: "rules and wire format know neither side", of: "/ruleset",
			never: []string{caddyPath, natsServer, "github.com/nats-io/nats.go", redis, sqlite},
		},
		{
			name: "the edge knows no aggregator, no store and no server", of: "/caddymodule", except: bothSides,
			only:  []string{module + "/hit", module + "/ruleset", module + "/internal"},
			never: []string{natsServer, redis, sqlite},
		},
		{
			name: "the parts of the edge know neither Caddy nor each other", of: "/caddymodule/", except: slices.Concat(withCaddy, bothSides),
			only:  []string{module + "/hit", module + "/ruleset", module + "/internal", module + "/caddymodule/internal"},
			apart: true,
			never: []string{caddyPath},
		},
		{
			name: "the aggregator knows no edge", of: "/aggregator",
			only:  []string{module + "/hit", module + "/ruleset", module + "/internal"},
			never: []string{caddyPath},
		},
		{
			name: "counting knows no boards", of: "/aggregator/fold",
			never: []string{module + "/aggregator/board", module + "/aggregator/api"},
		},
		{
			name: "what xcaddy links is the edge alone", of: "", except: []string{module + "/"},
			only:  []string{module + "/hit", module + "/ruleset", module + "/internal", module + "/caddymodule"},
			never: []string{natsServer, redis, sqlite},
		},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			of, seen := module+rule.of, 0
			for path, deps := range packages {
				if !under(path, of) || slices.ContainsFunc(rule.except, func(e string) bool { return under(path, e) }) {
					continue
				}
				seen++
				for _, dep := range deps {
					ours := under(dep, module) && rule.only != nil
					allowed := under(dep, of) && rule.of != "" && !rule.apart || slices.ContainsFunc(rule.only, func(o string) bool { return under(dep, o) })
					if ours && !allowed || slices.ContainsFunc(rule.never, func(n string) bool { return under(dep, n) }) {
						t.Errorf("%s depends on %s", path, dep)
					}
				}
			}
			if seen == 0 {
				t.Errorf("there is no package %s", of)
			}
		})
	}
}

// TestBothSidesAreSeen checks the list of packages itself: the embedded default
// does depend on packages that are forbidden to others.
func TestBothSidesAreSeen(t *testing.T) {
	t.Parallel()
	deps := goList(t)[module+"/caddymodule/allinone"]
	for _, want := range []string{module + "/caddymodule", module + "/aggregator/app", natsServer + "/server", sqlite, caddyPath} {
		if !slices.Contains(deps, want) {
			t.Errorf("allinone does not depend on %s", want)
		}
	}
}

// under reports whether a package is another one or below it. A path with a
// trailing slash matches only packages below it.
func under(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(root, "/"))
}

// goList returns the dependencies of each package of the module.
func goList(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	packages := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages[p.ImportPath] = p.Deps
	}
}
