package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// childDir, when set in the environment, makes the test binary a site that
// counts in that directory until it is killed.
const childDir = "HOTBOARD_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := countUntilKilled(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func rulesOf(lists ...string) *ruleset.Rules {
	var c ruleset.Config
	for _, l := range lists {
		c.Lists = append(c.Lists, &ruleset.ListConfig{Name: l})
	}
	return ruleset.MustCompile(c)
}

func options(dir string) Options {
	return Options{Dir: dir, LogBytes: 64 << 20, Slice: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
}

// open opens a backend, and carries rules with lists like an edge; without any, it
// follows those of the last time.
func open(t *testing.T, dir string, lists ...string) *Embedded {
	t.Helper()
	e, err := Open(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if len(lists) > 0 {
		carry(t, e, lists...)
	}
	return e
}

// carry proposes rules until the test ends, like an edge.
func carry(t *testing.T, e *Embedded, lists ...string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	k := revisions.NewKeeper(revisions.KeeperOptions{
		Book: revisions.New(e.Conn, 0), Authority: revisions.Caddyfile,
		Faults: faults.New(log, "hotboard_edge", faults.Edge), Logger: log,
	})
	k.Carry(rulesOf(lists...), "a test")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// propose proposes rules once.
func propose(ctx context.Context, e *Embedded, lists ...string) error {
	_, _, err := revisions.New(e.Conn, 0).Propose(ctx, rulesOf(lists...), revisions.Source{Authority: revisions.Caddyfile}, 0)
	return err
}

func edge(t *testing.T, nc *nats.Conn, id string) *brokertest.Edge {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	e := brokertest.NewEdge(t, js, id, Shards)
	e.Rules = rulesOf("articles").ID()
	return e
}

// views returns the number of counted views, or -1 if the counts are unreadable.
func views(t *testing.T, e *Embedded) int64 {
	t.Helper()
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/stats/articles", nil))
	if w.Code == http.StatusServiceUnavailable {
		return -1
	}
	var s board.Stats
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	return s.Periods[calendar.All].Views
}

func counts(t *testing.T, e *Embedded, want int64) {
	t.Helper()
	brokertest.Eventually(t, func() string {
		if n := views(t, e); n != want {
			return fmt.Sprintf("%d views are counted, want %d", n, want)
		}
		return ""
	})
}

func TestCountsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir, "articles")
	edge(t, e.Conn(), "a").Send(brokertest.View("articles", "x", 1, time.Now()))
	counts(t, e, 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := URL(dir); !os.IsNotExist(err) {
		t.Errorf("the URL file is left behind: %v", err)
	}

	e = open(t, dir) // follows the rules of the last time
	counts(t, e, 1)
	edge(t, e.Conn(), "b").Send(brokertest.View("articles", "x", 2, time.Now()))
	counts(t, e, 2)
	if err := propose(t.Context(), e, "articles", "more"); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, dir)
	brokertest.Eventually(t, func() string {
		if e.Rules().List("more") == nil {
			return fmt.Sprintf("rules of the last time: %s", e.Rules().Document())
		}
		return ""
	})
}

func TestAnotherProcessCanReachTheBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := open(t, dir, "articles")
	u, err := URL(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, urlFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token has mode %v (%v)", info.Mode(), err)
	}
	nc, err := nats.Connect(u)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	edge(t, nc, "import-1").Send(brokertest.View("articles", "x", 1, time.Now()))
	counts(t, e, 1)
	if nc, err := nats.Connect(strings.Replace(u, "nats://", "nats://x", 1)); err == nil {
		nc.Close()
		t.Error("a wrong token opens the broker")
	}
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := open(t, dir, "articles")
	if _, err := Open(t.Context(), options(dir)); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second Open: %v", err)
	}
	edge(t, e.Conn(), "a").Send(brokertest.View("articles", "x", 1, time.Now()))
	counts(t, e, 1) // the first is none the worse
}

func TestWithoutRules(t *testing.T) {
	t.Parallel()
	e := open(t, t.TempDir())
	if n := views(t, e); n != -1 {
		t.Errorf("an answer without rules: %d", n)
	}
	carry(t, e, "articles")
	counts(t, e, 0)
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	cycle := func(n int) {
		e, err := Open(context.Background(), options(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := propose(t.Context(), e, "articles"); err != nil {
			t.Fatal(err)
		}
		edge(t, e.Conn(), "edge-"+strconv.Itoa(n)).Send(brokertest.View("articles", "x", uint64(n), time.Now()))
		counts(t, e, int64(n))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle(1)
	cycle(2)
	before := runtime.NumGoroutine()
	for n := range 4 {
		cycle(n + 3)
	}
	brokertest.Eventually(t, func() string {
		if n := runtime.NumGoroutine(); n > before {
			buf := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, %d before\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return ""
	})
}

// countUntilKilled publishes batches and prints the sequence of each that the
// log has accepted. It goes on after the last one that is in the counts.
func countUntilKilled(dir string, out io.Writer) error {
	ctx := context.Background()
	e, err := Open(ctx, options(dir))
	if err != nil {
		return err
	}
	if err := propose(ctx, e, "articles"); err != nil {
		return err
	}
	js, err := jetstream.New(e.Conn())
	if err != nil {
		return err
	}
	msg, err := e.Conn().Request(hit.SubjectApplied, []byte(`{"edge":"edge"}`), 10*time.Second)
	if err != nil {
		return err
	}
	var applied hit.Applied
	if err := json.Unmarshal(msg.Data, &applied); err != nil {
		return err
	}
	// Like an edge that has lost nothing, send again all batches that are not applied.
	for seq := applied.Shards[0] + 1; ; seq++ {
		data, err := hit.Encode(&hit.Batch{Edge: "edge", Seq: seq, Rules: rulesOf("articles").ID(), Hits: []hit.Hit{brokertest.View("articles", "x", seq, time.Now())}})
		if err != nil {
			return err
		}
		m := nats.NewMsg(hit.Subject(0, "edge"))
		m.Data = data
		m.Header.Set(hit.HeaderSeq, strconv.FormatUint(seq, 10))
		m.Header.Set(hit.HeaderLow, "1")
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, seq); err != nil {
			return err
		}
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Skip("the test binary does not know where it is: ", err)
	}
	dir := t.TempDir()
	var acked uint64
	for round := range 8 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, n := bufio.NewScanner(stdout), 0
		for lines.Scan() {
			seq, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acked = max(acked, seq)
			if n++; n == 20+37*round {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // it was killed
		if n == 0 {
			t.Fatalf("round %d: nothing was accepted: %s", round, stderr.String())
		}
	}
	e := open(t, dir, "articles")
	// The log may contain the last batch although its acknowledgement was lost.
	brokertest.Eventually(t, func() string {
		if n := uint64(views(t, e)); n != acked && n != acked+1 {
			return fmt.Sprintf("%d views are counted, %d were accepted", n, acked)
		}
		return ""
	})
}
