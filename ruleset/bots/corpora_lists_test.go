package bots

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The npm packages with lists of User-Agents, and the SHA-256 of their tarballs.
var npmPackages = map[string]string{
	"crawler-user-agents@1.60.0": "355ff319e17919f1738122752c8036d605d0e1bcba81de31e84377d12b286d79",
	"express-useragent@1.0.15":   "4dde5f99f7ba6734632dbe6bac660c36c25d1ef890306c7760b1161b715964a8",
	"random-useragent@0.5.0":     "ddd7379d6323b8d1e8ad13b6e77e877fa75ec475720d426ae8bb5a09f2eafe5c",
	"top-user-agents@2.1.138":    "1a0a2769adff6cad92f08b408c60ca5331a881d0d1645f90020cb6895e3939c1",
	"ua-parser-js@0.7.18":        "ecdef667c5aaa70f5ce54c4677d0e7cf26a96358d30f54dd4474cc14ad48175a",
	"user-agents@1.0.4":          "7d8e0f0b56808ddac4755ab4642bb28869bba84c0c4928e379030121388d8b40",
	"user-agents@2.1.198":        "581c4f5074669b6f125263b8ddf302d221a26a06842488c6cc8d50dc5c5c0851",
}

// corpora returns the lists. The files are those of the packages, none of which
// is part of this repository.
func corpora(t *testing.T, npm func(pkg, file string) []byte) []corpus {
	crawlers := decode[[]struct {
		Tags      []string
		Instances []string
	}](t, npm("crawler-user-agents@1.60.0", "crawler-user-agents.json"))
	tagged := func(tag string) (agents []string) {
		for _, c := range crawlers {
			if tag == "" || slices.Contains(c.Tags, tag) {
				agents = append(agents, c.Instances...)
			}
		}
		return unique(agents)
	}
	random := decode[[]struct{ Folder, UserAgent string }](t, npm("random-useragent@0.5.0", "useragent-data.json"))
	inFolder := func(re string) (agents []string) {
		for _, r := range random {
			if regexp.MustCompile(re).MatchString(r.Folder) {
				agents = append(agents, r.UserAgent)
			}
		}
		return unique(agents)
	}
	measured := func(data []byte) (agents []string) {
		for agent := range devices(t, data) {
			agents = append(agents, agent)
		}
		return unique(agents)
	}
	var parsed []string
	for _, file := range []string{"browser", "device", "os"} {
		for _, r := range decode[[]struct{ UA string }](t, npm("ua-parser-js@0.7.18", "test/"+file+"-test.json")) {
			parsed = append(parsed, r.UA)
		}
	}
	var express []string
	for _, m := range regexp.MustCompile(`(?m)^\s+var s(?:ource)? = '(.*)';$`).FindAllSubmatch(npm("express-useragent@1.0.15", "test/bots.test.js"), -1) {
		express = append(express, string(m[1]))
	}
	const folders = `^/(Browsers|Mobile Devices|Miscellaneous/(Browsers|Game))`
	return []corpus{
		{"bots: npm crawler-user-agents 1.60.0", true, 98, tagged("")},
		{"  of them tagged ai-crawler", true, 99, tagged("ai-crawler")},
		{"  of them tagged http-library", true, 99, tagged("http-library")},
		{"bots: npm express-useragent 1.0.15, tests", true, 95, unique(express)},
		{"bots: npm random-useragent 0.5.0, spiders", true, 95, inFolder(`Spider|Feed Readers|Libraries|Validators`)},
		{"bots: Go mssola/useragent 1.0.0, mileusna/useragent 1.3.5, tests", true, 95, testTables(t)},
		{"people: npm user-agents 2.1.198", false, 0.1, measured(npm("user-agents@2.1.198", "dist/user-agents.json"))},
		{"people: npm user-agents 1.0.4", false, 0.1, measured(gunzip(t, npm("user-agents@1.0.4", "src/user-agents.json.gz")))},
		{"people: npm top-user-agents 2.1.138", false, 0.1, unique(decode[[]string](t, npm("top-user-agents@2.1.138", "src/index.json")))},
		{"people: npm random-useragent 0.5.0, browsers", false, 0.1, inFolder(folders)},
		{"people: npm ua-parser-js 0.7.18, tests", false, 0.1, unique(parsed)},
	}
}

// devices returns the kinds of device that the source of the package user-agents
// measured.
func devices(t *testing.T, data []byte) map[string]string {
	all := make(map[string]string)
	for _, r := range decode[[]struct{ UserAgent, DeviceCategory string }](t, data) {
		all[r.UserAgent] = r.DeviceCategory
	}
	return all
}

// testTables returns the bots in the tables of tests of two Go modules.
func testTables(t *testing.T) (agents []string) {
	eachLiteral(t, filepath.Join(goModule(t, "github.com/mssola/useragent@v1.0.0"), "all_test.go"), func(fields map[string]string, _ []string) {
		if strings.Contains(fields["expected"], "Bot:true") {
			agents = append(agents, fields["ua"])
		}
	})
	eachLiteral(t, filepath.Join(goModule(t, "github.com/mileusna/useragent@v1.3.5"), "ua_test.go"), func(_ map[string]string, list []string) {
		if len(list) >= 4 && list[3] == "bot" { // User-Agent, name, version, device
			agents = append(agents, list[0])
		}
	})
	return unique(agents)
}

// eachLiteral calls f with the strings of every composite literal of a Go file,
// those with keys and those without.
func eachLiteral(t *testing.T, file string, f func(fields map[string]string, list []string)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(e ast.Expr) string {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				return s
			}
		}
		return ""
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		fields, list := make(map[string]string), []string(nil)
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					fields[key.Name] = text(kv.Value)
				}
				continue
			}
			list = append(list, text(e))
		}
		f(fields, list)
		return true
	})
}

// goModule returns the directory of a module, which the go command fetches.
func goModule(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // so that it changes no go.mod
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		unavailable(t, "%s cannot be fetched: %v %s%s", module, err, out, stderr.Bytes())
	}
	return decode[struct{ Dir string }](t, out).Dir
}

// npmPack fetches the packages and returns a function that reads their files.
func npmPack(t *testing.T) func(pkg, file string) []byte {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		unavailable(t, "there is no npm, which fetches lists of User-Agents")
	}
	files := make(map[string]map[string][]byte)
	for pkg, sum := range npmPackages {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "--prefer-offline", "--pack-destination", dir, pkg)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			unavailable(t, "npm cannot fetch %s: %v %s", pkg, err, out)
		}
		tarballs, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		if err != nil || len(tarballs) != 1 {
			t.Fatalf("npm pack %s left %v (%v)", pkg, tarballs, err)
		}
		data, err := os.ReadFile(tarballs[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Fatalf("%s has changed: SHA-256 %x, want %s", pkg, got, sum)
		}
		files[pkg] = untar(t, gunzip(t, data))
	}
	return func(pkg, file string) []byte {
		data, ok := files[pkg]["package/"+file]
		if !ok {
			t.Fatalf("%s has no file %s", pkg, file)
		}
		return data
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// unavailable skips the test, unless all services are required.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOTBOARD_REQUIRE_SERVICES") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
