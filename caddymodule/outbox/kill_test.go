package outbox

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/hotboard/hotboard/hit"
)

// childEnv makes the test binary append to the spool that it names, for ever.
const childEnv = "HOTBOARD_TEST_APPEND_TO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := appendForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

const killShards = 3

// appendForEver appends hits from several goroutines and prints the items of
// each acknowledged append on a line. It offers views as well, unprinted.
func appendForEver(dir string) error {
	o, err := Open(Options{Dir: dir, Shards: killShards})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				rules := o.Document([]byte(pastRules(rand.IntN(50))))
				var hits []hit.Hit
				var line strings.Builder
				for range 1 + rand.IntN(5) {
					item := fmt.Sprintf("a%016x", rand.Uint64())
					hits = append(hits, viewUnder(rules, item))
					line.WriteString(item + " ")
				}
				if rand.IntN(100) == 0 { // enough for several batches
					for range 3 * hit.MaxHits {
						o.Offer(viewUnder(rules, fmt.Sprintf("v%016x", rand.Uint64())))
					}
				}
				if err = o.Append(context.Background(), hits...); err != nil {
					return
				}
				// One write: a line is there as a whole or not at all.
				if _, err = os.Stdout.WriteString(line.String() + "\n"); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return err
}

// TestKilled kills a process that appends, again and again, with the same
// spool: every hit that was acknowledged is in it exactly once.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rounds := 25
	if testing.Short() {
		rounds = 3
	}
	acknowledged := map[string]bool{}
	for range rounds {
		appendAndKill(t, dir, 1+rand.IntN(150), acknowledged)
		found := spooled(t, dir)
		for item := range acknowledged {
			if found[item] != 1 {
				t.Fatalf("%s was acknowledged and is in the spool %d times", item, found[item])
			}
		}
		for item, n := range found {
			if n != 1 {
				t.Fatalf("%s is in the spool %d times", item, n)
			}
		}
	}
	t.Logf("%d kills, %d acknowledged hits", rounds, len(acknowledged))
}

// appendAndKill runs a process until it has printed so many lines, and adds what
// they say to acknowledged, with all that it printed until it was dead.
func appendAndKill(t *testing.T, dir string, lines int, acknowledged map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for scan := bufio.NewScanner(out); scan.Scan(); {
		for item := range strings.FieldsSeq(scan.Text()) {
			acknowledged[item] = true
		}
		if n++; n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if n < lines {
		t.Fatalf("the process ended by itself after %d lines: %s", n, stderr.String())
	}
}

// spooled opens the spool, in which nothing may be missing, and counts the items in
// it.
func spooled(t *testing.T, dir string) map[string]int {
	t.Helper()
	o := open(t, Options{Dir: dir, Shards: killShards})
	defer closeNow(t, o)
	if f := o.opts.Faults.Active(); len(f) > 0 {
		t.Fatalf("faults after a kill: %+v", f)
	}
	if missing := o.spool.missingDocuments(); len(missing) > 0 {
		t.Fatalf("documents are missing after a kill: %+v", missing)
	}
	found := map[string]int{}
	for id, c := range o.spool.lanes {
		if c.low != 1 {
			t.Fatalf("the first batch of shard %d is %d", id.shard, c.low)
		}
		for seq := c.low; seq < c.end(); seq++ {
			data, _, err := o.spool.message(id, seq, seq)
			if err != nil {
				t.Fatal(err)
			}
			b, err := hit.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if b.Seq != seq || b.Shard != id.shard || b.Edge != id.edge {
				t.Fatalf("batch %d of %+v holds batch %d of shard %d of %s", seq, id, b.Seq, b.Shard, b.Edge)
			}
			for _, h := range b.Hits {
				found[h.Item]++
			}
		}
	}
	return found
}
