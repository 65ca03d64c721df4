package embedded

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/e2e/damage"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
)

func start(t *testing.T, dir string) *Embedded {
	t.Helper()
	e, err := Start(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	carry(t, e, "articles")
	return e
}

// ready waits until /-/ready answers 200, or 503 with a text in it.
func ready(t *testing.T, e *Embedded, fault string) {
	t.Helper()
	brokertest.Eventually(t, func() string {
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/-/ready", nil))
		if w.Code == http.StatusOK && fault == "" || w.Code == http.StatusServiceUnavailable && fault != "" && strings.Contains(w.Body.String(), fault) {
			return ""
		}
		return fmt.Sprintf("/-/ready: %d %s, want %q", w.Code, w.Body, fault)
	})
}

// sender publishes one batch after the other, each until the log has it, as an
// edge does.
type sender struct {
	t     *testing.T
	js    jetstream.JetStream
	acked uint64
}

func newSender(t *testing.T, e *Embedded) *sender {
	t.Helper()
	js, err := jetstream.New(e.Conn())
	if err != nil {
		t.Fatal(err)
	}
	return &sender{t: t, js: js}
}

// try publishes the next batch of a size, once.
func (s *sender) try(size int) error {
	seq := s.acked + 1
	h := brokertest.View("articles", "x", seq, time.Now())
	data, err := hit.Encode(&hit.Batch{Edge: "edge", Seq: seq, Rules: rulesOf("articles").ID(), Hits: []hit.Hit{h}})
	if err != nil {
		s.t.Fatal(err)
	}
	m := nats.NewMsg(hit.Subject(0, "edge"))
	m.Data = data
	m.Header.Set(hit.HeaderSeq, strconv.FormatUint(seq, 10))
	m.Header.Set(hit.HeaderLow, "1")
	if size > 0 {
		m.Header.Set("Padding", strings.Repeat("x", size))
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	_, err = s.js.PublishMsg(ctx, m)
	if err == nil {
		s.acked = seq
	}
	return err
}

// send publishes n batches.
func (s *sender) send(n int) {
	s.t.Helper()
	for want := s.acked + uint64(n); s.acked < want; {
		brokertest.Eventually(s.t, func() string {
			if err := s.try(0); err != nil {
				return fmt.Sprintf("publishing %d: %v", s.acked+1, err)
			}
			return ""
		})
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := start(t, dir)
	ready(t, e, "backend_away")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	ready(t, e, "")
	newSender(t, e).send(1)
	counts(t, e, 1)
}

func TestDirectoryIsFreeLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir, "articles")
	second := start(t, dir)
	ready(t, second, "another process")
	newSender(t, first).send(1)
	counts(t, first, 1)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	ready(t, second, "")
	counts(t, second, 1)
}

func TestEverythingIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, ".tmp-rules.json123")
	for _, path := range []string{filepath.Join(dir, countsFile), left} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := start(t, dir)
	newSender(t, e).send(1)
	counts(t, e, 1)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("leftover files of a crash still exist: %v", err)
	}
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(datadir.FileMode)
		switch {
		case path == dir:
			want = datadir.DirMode
		case d.IsDir():
			return fs.SkipDir // the server's; dir closes them
		}
		if seen++; info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || seen < 5 {
		t.Errorf("%d files were seen (%v)", seen, err)
	}
}

// restartDamaged closes a backend that has counted ten views, damages its files,
// and starts another one.
func restartDamaged(t *testing.T, damage func(dir string)) *Embedded {
	t.Helper()
	dir := t.TempDir()
	e := start(t, dir)
	newSender(t, e).send(10)
	counts(t, e, 10)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	damage(dir)
	return start(t, dir)
}

// overwrite replaces part of a file.
func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(with, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// execute runs SQL on the counts of a backend that is closed.
func execute(t *testing.T, dir, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, countsFile))
	if err != nil {
		t.Fatal(err)
	}
	res, err := db.Exec(text)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 && !strings.HasPrefix(text, "PRAGMA") {
		t.Fatalf("%s: %d rows, %v", text, n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedCounts(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"half of it": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, info.Size()/2); err != nil {
				t.Fatal(err)
			}
		},
		"no database": func(t *testing.T, path string) { overwrite(t, path, 0, []byte(strings.Repeat("no database ", 1000))) },
		"a page":      func(t *testing.T, path string) { overwrite(t, path, 4096, make([]byte, 4096)) },
		"a directory": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"the schema": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, int64(bytes.Index(data, []byte("CREATE TABLE memo"))+len("CREATE TABLE ")), []byte("n"))
		},
		// Only the sums reveal this damage.
		"a count": func(t *testing.T, path string) {
			execute(t, filepath.Dir(path), "UPDATE entry SET uniques = uniques + 4 WHERE board_id = (SELECT id FROM board WHERE name = 'all')")
		},
		"a total": func(t *testing.T, path string) {
			execute(t, filepath.Dir(path), "UPDATE board SET views = views | 64 WHERE name = 'all'")
		},
		"a sketch": func(t *testing.T, path string) {
			execute(t, filepath.Dir(path), "UPDATE visitors SET sketch = x'0907'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := restartDamaged(t, func(dir string) { damage(t, filepath.Join(dir, countsFile)) })
			ready(t, e, "store_damaged")
			counts(t, e, 10)
			aside, err := datadir.Aside(filepath.Join(e.dir, countsFile))
			if err != nil || len(aside) != 1 {
				t.Fatalf("moved aside: %q, %v", aside, err)
			}
			ready(t, e, "which begins at ")
			if err := os.RemoveAll(aside[0]); err != nil {
				t.Fatal(err)
			}
			brokertest.Eventually(t, func() string {
				for _, f := range e.Faults(t.Context()) {
					if f.Kind == faults.StoreDamaged {
						return f.Message
					}
				}
				return ""
			})
		})
	}
}

func TestCountsDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	e := start(t, t.TempDir())
	s := newSender(t, e)
	s.send(10)
	counts(t, e, 10)
	wal := filepath.Join(e.dir, countsFile+"-wal")
	info, err := os.Stat(wal)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, wal, 32, bytes.Repeat([]byte{0x5a}, int(info.Size())-32))
	s.send(1)
	ready(t, e, "store_damaged")
	s.send(1)
	counts(t, e, 12)
}

func TestWhatIsNoDamageStays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"PRAGMA user_version = 99":                        "schema version 99",
		"UPDATE meta SET value = 3 WHERE name = 'shards'": "the store has 3 shards",
	} {
		e := restartDamaged(t, func(dir string) { execute(t, dir, text) })
		ready(t, e, want)
		if aside, err := datadir.Aside(filepath.Join(e.dir, countsFile)); err != nil || len(aside) > 0 {
			t.Errorf("%s: moved aside: %q, %v", text, aside, err)
		}
		newSender(t, e).send(0) // the log works
	}
}

func TestDamagedAgainAndAgain(t *testing.T) {
	t.Parallel()
	e := restartDamaged(t, func(dir string) {
		path := filepath.Join(dir, countsFile)
		for i := range maxAside {
			if _, err := datadir.SetAside(time.Now().Add(-time.Duration(i)*time.Second), path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	ready(t, e, "4 damaged copies")
	aside, err := datadir.Aside(filepath.Join(e.dir, countsFile))
	if err != nil || len(aside) != maxAside {
		t.Fatalf("moved aside: %q, %v", aside, err)
	}
	if err := os.Remove(aside[0]); err != nil {
		t.Fatal(err)
	}
	counts(t, e, 10)
}

func TestDamagedLog(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, dir string){
		"a file": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"no metadata": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "jetstream", "$G", "streams", hit.Stream, "meta.inf")); err != nil {
				t.Fatal(err)
			}
		},
		"other metadata": func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(dir, "jetstream", "$G", "streams", hit.Stream, "meta.inf"), 20, []byte("flipped"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := restartDamaged(t, func(dir string) { damage(t, filepath.Join(dir, natsDir)) })
			ready(t, e, "log_damaged")
			s := newSender(t, e)
			s.acked = 10 // what was counted is not sent again
			s.send(5)
			counts(t, e, 15)
		})
	}
}

// The server may go on storing into a damaged file without ever returning what it
// stored.
func TestDamagedRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := open(t, dir, "articles")
	edge(t, e.Conn(), "a").Send(brokertest.View("articles", "x", 1, time.Now()))
	counts(t, e, 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	damage.Kinds["flip bytes"](t, filepath.Join(dir, "nats/jetstream/$G/streams/KV_HOTBOARD_RULES/msgs/1.blk"))
	e = open(t, dir, "articles")
	edge(t, e.Conn(), "b").Send(brokertest.View("articles", "x", 2, time.Now()))
	counts(t, e, 2)
	brokertest.Eventually(t, func() string {
		if r, err := e.app.Book().Current(t.Context()); err != nil || r.Rules != rulesOf("articles").ID() {
			return fmt.Sprintf("the current revision is %s, %v", r, err)
		}
		return ""
	})
}
