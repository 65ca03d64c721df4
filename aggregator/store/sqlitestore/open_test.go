package sqlitestore_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inUse := filepath.Join(dir, "in-use.db")
	open(t, inUse, 1)
	two := filepath.Join(dir, "two.db")
	if err := open(t, two, 2).Close(); err != nil {
		t.Fatal(err)
	}
	newer, older := filepath.Join(dir, "newer.db"), filepath.Join(dir, "older.db")
	for path, version := range map[string]int{newer: 99, older: 1} {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(fmt.Sprint("PRAGMA user_version = ", version)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	noDatabase := filepath.Join(dir, "text.db")
	if err := os.WriteFile(noDatabase, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o    sqlitestore.Options
		want string
	}{
		"a file in use":                 {sqlitestore.Options{Path: inUse}, "another process has it open"},
		"another number of shards":      {sqlitestore.Options{Path: two, Shards: 3}, "has 2 shards, but the configuration has 3"},
		"a newer schema":                {sqlitestore.Options{Path: newer}, "schema version 99"},
		"an older schema":               {sqlitestore.Options{Path: older}, "let the aggregator count the log again"},
		"a file that is something else": {sqlitestore.Options{Path: noDatabase}, "not a database"},
		"no directory":                  {sqlitestore.Options{Path: filepath.Join(dir, "missing", "x.db")}, "missing"},
		"too many shards":               {sqlitestore.Options{Path: filepath.Join(dir, "x.db"), Shards: 1 << 20}, "shards"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sqlitestore.Open(t.Context(), tt.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("the store was opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestPathWithOddCharacters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b%3F?c#d.db")
	if err := open(t, path, 1).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is not where it should be: %v", err)
	}
}

// writerEnv makes the test binary a process that commits until it is killed.
const writerEnv = "HOTBOARD_TEST_SQLITE_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		fmt.Println("failed:", commitForever(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var all, seeded = store.Set{List: "articles", Name: "all"}, store.Set{List: "articles", Name: "halflife:24h"}

// commitForever commits sequence after sequence and prints each when it is on disk.
// Every value equals its sequence.
func commitForever(path string) error {
	ctx := context.Background()
	s, err := sqlitestore.Open(ctx, sqlitestore.Options{Path: path})
	if err != nil {
		return err
	}
	for {
		from, err := s.Position(ctx, 0)
		if err != nil {
			return err
		}
		n := from.Seq + 1
		c := &store.Commit{From: from, To: store.Position{Seq: n}, Edges: map[string]uint64{"edge": n}, Rules: &store.InForce{Revision: n}}
		c.Drop = []store.Set{seeded} // written anew each time
		c.Scores = map[store.Set]map[string]store.Tally{all: {}, seeded: {fmt.Sprint("item", n): {Score: float64(n)}}}
		c.Totals = map[store.Set]store.Totals{all: {Views: int64(n)}}
		for i := range 50 {
			c.Scores[all][fmt.Sprint("item", i)] = store.Tally{Views: int64(n)}
			c.Memos = append(c.Memos, store.MemoValue{Memo: store.Memo{List: "articles", Term: calendar.Day, Key: uint64(i)}, Value: uint32(n)})
		}
		if err := s.Commit(ctx, 0, c); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestKill kills a process in the middle of its commits, and expects every commit
// to be there as a whole or not at all.
func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts.db")
	last := 0
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			got, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Errorf("the writer says: %s", lines.Text())
				break
			}
			last = got
			if n == 5+round*3 {
				_ = cmd.Process.Kill() // output from before its death is still read
			}
		}
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			return
		}

		s := open(t, path, 1)
		state, err := s.Load(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		n := state.Position.Seq
		if n < uint64(last) {
			t.Fatalf("round %d: commit %d was acknowledged, the store is at %d", round, last, n)
		}
		if state.Edges["edge"] != n {
			t.Errorf("round %d: at %d the edge is at %d", round, n, state.Edges["edge"])
		}
		have, err := s.Read(t.Context(), 0, &store.Want{
			Memos:  []store.Memo{{List: "articles", Term: calendar.Day, Key: 0}, {List: "articles", Term: calendar.Day, Key: 49}},
			Scores: map[store.Set][]string{all: {"item0", "item49"}},
			Totals: []store.Set{all},
			Whole:  []store.Set{seeded},
		})
		if err != nil {
			t.Fatal(err)
		}
		if state.Rules.Revision != n || len(have.Whole[seeded]) != 1 {
			t.Errorf("round %d: at %d revision %d is in force, and a set that each commit begins anew has %d items", round, n, state.Rules.Revision, len(have.Whole[seeded]))
		}
		for _, got := range []int64{have.Memos[0], have.Memos[1], have.Scores[all][0].Views, have.Scores[all][1].Views, have.Totals[0].Views} {
			if got != int64(n) {
				t.Errorf("round %d: at %d there is %+v", round, n, have)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
