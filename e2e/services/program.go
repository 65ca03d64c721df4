package services

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Program is a Caddy or an aggregator, built from this tree, as a process.
type Program struct {
	*Process
	// Dir is the working directory of the process, where it may write files.
	Dir string
}

// Program kinds: the packages that the binaries are built from.
const (
	Caddy      = "github.com/hotboard/hotboard/caddymodule/cmd/caddy"
	Aggregator = "github.com/hotboard/hotboard/aggregator"
)

// StartProgram builds a package, [Caddy] or [Aggregator], and runs it with args
// until the test ends. It is ready when a GET of the URL ready gets a status below
// 500.
func StartProgram(t testing.TB, pkg, ready string, args ...string) *Program {
	t.Helper()
	path := Binary(t, pkg)
	p := &Program{Dir: t.TempDir()}
	p.Process = newProcess(t, filepath.Base(path), path, p.Dir, args, func(ctx context.Context) error {
		return answers(ctx, ready)
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// binaries holds the built programs, by package: each is built once per test
// process.
var binaries sync.Map

// Binary builds a package of this tree and returns the path of the program.
func Binary(t testing.TB, pkg string) string {
	t.Helper()
	build, _ := binaries.LoadOrStore(pkg, sync.OnceValues(func() (string, error) { return buildProgram(pkg) }))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err) // not a missing server: the tree does not compile
	}
	return path
}

// buildProgram builds into the user's cache directory, in a place of this tree's
// own: another tree may test another version. A test process that runs the old
// program keeps its file.
func buildProgram(pkg string) (string, error) {
	tree, err := goCommand("list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "hotboard-test", fmt.Sprintf("%x", sha256.Sum256([]byte(tree)))[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	name := filepath.Base(pkg)
	built := filepath.Join(tmp, name)
	// As xcaddy-build.sh does it, so that one build serves both.
	flags := []string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", "nobadger,nomysql,nopgx"}
	if _, err := goCommand(append(flags, "-o", built, pkg)...); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.Rename(built, path)
}
