package outbox

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
)

// past is a spool of three processes, and what became of its batches: of the first
// process some were trimmed and some are applied, the others are not even published.
// Each batch has one item.
type past struct {
	dir       string
	items     []string // of all processes
	batches   int64    // in the spool
	log       []message
	documents map[hit.RulesID]string // in the log
	applied   map[string]map[int]uint64
	counted   map[string]int
}

// newPast makes a spool; the last process is killed, unless it ends well.
func newPast(t *testing.T, endsWell bool) (p *past) {
	t.Helper()
	dir, copied := t.TempDir(), t
	synctest.Test(t, func(t *testing.T) {
		p = &past{}
		bus := newFakeBus()
		for process := range 3 {
			o := open(t, Options{Dir: dir, Shards: 3, Logger: zap.NewNop()})
			stop := start(t, o, bus)
			rules := o.Document([]byte(pastRules(process)))
			add := func(what string, n int) {
				for i := range n {
					h := view(fmt.Sprintf("%d-%s-%d-%s", process, what, i, strings.Repeat("x", i%3*100)))
					if h.Rules = rules; i%5 == 0 { // of a configuration that is being replaced
						h.Rules = someID
					}
					if err := o.Append(t.Context(), h); err != nil {
						t.Fatal(err)
					}
					p.items = append(p.items, h.Item)
				}
			}
			if process == 0 {
				add("trimmed", 20)
				time.Sleep(2 * time.Minute)
				add("applied", 20)
				time.Sleep(10 * time.Second)
				bus.set(func() { bus.publish = func(int) (bool, error) { return false, errBus } })
			}
			add("unpublished", 50)
			time.Sleep(2 * time.Second)
			stop()
			if process == 2 && !endsWell {
				p.dir = copyDir(copied, dir)
				p.batches = o.Stats().Batches
			}
			closeNow(t, o)
			if process == 2 && endsWell {
				p.dir = dir
				p.batches = o.Stats().Batches
			}
		}
		p.log, p.documents, p.applied, p.counted = bus.log, bus.documents, bus.applied, bus.counted
	})
	return p
}

// pastRules returns the document of the rules of a process.
func pastRules(process int) string { return fmt.Sprintf(`{"lists":[{"name":"articles-%d"}]}`, process) }

// bus returns the log and the aggregator as the last process left them.
func (p *past) bus() *fakeBus {
	b := newFakeBus()
	b.log = append(b.log, p.log...)
	maps.Copy(b.counted, p.counted)
	maps.Copy(b.documents, p.documents)
	for edge, shards := range p.applied {
		b.applied[edge] = maps.Clone(shards)
	}
	return b
}

// ways to damage a file at an offset.
var ways = map[string]func(data []byte, offset int) []byte{
	"zero": func(data []byte, offset int) []byte {
		clear(data[offset:min(offset+4096, len(data))])
		return data
	},
	"flip": func(data []byte, offset int) []byte {
		for i := offset + 100; i < min(offset+164, len(data)); i++ {
			data[i] ^= 0xff
		}
		return data
	},
	"truncate": func(data []byte, offset int) []byte { return data[:offset] },
	"delete":   func(data []byte, offset int) []byte { return nil },
}

// TestDamage damages each page of each file in turn. Every time the outbox opens and
// takes hits, and each batch is sent, or counted in the report.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, endsWell := range []bool{true, false} {
		p := newPast(t, endsWell)
		files := filesOf(t, p.dir)
		trials, losses := 0, 0
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(p.dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for offset := 0; offset == 0 || offset < len(data); offset += 4096 {
				for way, damage := range ways {
					if way == "delete" && offset > 0 {
						continue
					}
					trials++
					name := fmt.Sprintf("%s %s at %d, ended well: %t", way, file, offset, endsWell)
					dir := copyDir(t, p.dir)
					path := filepath.Join(dir, file)
					spoiled := damage(append([]byte(nil), data...), offset)
					if err := os.WriteFile(path, spoiled, 0o600); err != nil {
						t.Fatal(err)
					}
					if spoiled == nil {
						if err := os.Remove(path); err != nil {
							t.Fatal(err)
						}
					}
					if p.goesOn(t, name, dir) > 0 {
						losses++
					}
				}
			}
		}
		t.Logf("%d trials, %d with losses, %d batches in %d files", trials, losses, p.batches, len(files))
		if losses == 0 || losses == trials {
			t.Error("the trials do not try both")
		}
	}
}

// filesOf returns the paths of all files below a directory.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// goesOn lets a process go on with a damaged spool, and another after it. It returns
// how many batches were reported as lost.
func (p *past) goesOn(t *testing.T, name, dir string) (lost int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bus := p.bus()
		items := append([]string(nil), p.items...)
		for process := range 2 {
			o := open(t, Options{Dir: dir, Shards: 3, Logger: zap.NewNop()})
			found := o.spool.damage
			if process == 0 {
				lost = int(found.Lost)
				if lost > 0 && int64(found.Lost+found.Saved) != p.batches {
					t.Errorf("%s: the report has %+v of %d batches", name, found, p.batches)
				}
			} else if found.Lost > 0 {
				t.Errorf("%s: reported again: %+v", name, found)
			}
			stop := start(t, o, bus)
			item := fmt.Sprint("new-", process)
			mustAppend(t, o, item)
			items = append(items, item)
			time.Sleep(10 * time.Second)
			f := o.fault(faults.SpoolDamaged)
			if strings.Contains(f, "The document") && strings.Contains(name, documentDir+"/") && lost == 0 {
				f = "" // TestDamagedDocument is about these
			}
			if (f != "") != (lost > 0) || lost > 0 && !strings.Contains(f, fmt.Sprint(lost)) {
				t.Errorf("%s: %d batches are lost, the fault: %q", name, lost, f)
			}
			stop()
			closeNow(t, o)
		}
		uncounted := 0
		for _, item := range items {
			if n := bus.counted[item]; n > 1 {
				t.Errorf("%s: %s was counted %d times", name, item, n)
			} else if n == 0 {
				uncounted++
			}
		}
		if uncounted > lost || bus.lost > uint64(lost) {
			t.Errorf("%s: %d batches are not counted and %d were declared lost, but %d are reported", name, uncounted, bus.lost, lost)
		}
		damaged, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*"))
		if len(damaged) > 0 && lost == 0 {
			t.Errorf("%s: %v were set aside, though nothing is lost", name, damaged)
		}
		if len(damaged) == 0 && lost > 0 && (strings.HasPrefix(name, "zero") || strings.HasPrefix(name, "flip")) {
			t.Errorf("%s: nothing was set aside", name)
		}
	})
	return lost
}

// TestTornWrite: what a power cut leaves of a write that was not acknowledged is no
// damage.
func TestTornWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, Options{Dir: dir})
	mustAppend(t, o, "i")
	torn, _ := appendFrame(nil, &frame{laneID: laneID{o.Edge(), 0}, seq: 9, data: make([]byte, 100)})
	if _, err := o.spool.active.file.WriteAt(torn[:50], o.spool.active.size); err != nil {
		t.Fatal(err)
	}
	closeNow(t, o)
	o = open(t, Options{Dir: dir})
	if s := o.Stats(); s.Batches != 1 || len(o.opts.Faults.Active()) > 0 {
		t.Errorf("%d batches, faults %+v", s.Batches, o.opts.Faults.Active())
	}
	closeNow(t, o)
}

// TestDamageWhileRunning: a batch that the disk does not return any more stops only
// itself.
func TestDamageWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, Options{Dir: dir, Shards: 1})
		items := names("i", 100)
		for _, item := range items {
			mustAppend(t, o, item)
		}
		from, to := o.spool.lanes[laneID{o.Edge(), 0}].places[40], o.spool.lanes[laneID{o.Edge(), 0}].places[60]
		if _, err := o.spool.active.file.WriteAt(make([]byte, to.offset-from.offset), int64(from.offset)); err != nil {
			t.Fatal(err)
		}
		bus := newFakeBus()
		stop := start(t, o, bus)
		mustAppend(t, o, "after")
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, append(append(items[:40:40], items[60:]...), "after")...)
		wantOrder(t, bus.messages())
		if f := o.fault(faults.SpoolDamaged); !strings.Contains(f, "from the spool: 20. ") {
			t.Errorf("fault %q", f)
		}
		// To delete the report acknowledges it.
		reports, err := filepath.Glob(filepath.Join(dir, damageFiles))
		if err != nil || len(reports) != 1 {
			t.Fatalf("reports %v, %v", reports, err)
		}
		if err := os.Remove(reports[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		if f := o.opts.Faults.Active(); len(f) > 0 {
			t.Errorf("faults %+v", f)
		}
		stop()
		closeNow(t, o)
	})
}

// TestCutOffWithoutState: when no state can be read either, nobody knows how
// much is lost. The report mentions the loss all the same.
func TestCutOffWithoutState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, Options{Dir: dir})
	mustAppend(t, o, names("i", 1000)...)
	closeNow(t, o)
	if err := os.Truncate(segmentPath(dir, 1), 1000); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := os.Remove(stateFile(dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	o = open(t, Options{Dir: dir})
	if f := o.fault(faults.SpoolDamaged); !strings.Contains(f, "from the spool: at least ") {
		t.Errorf("fault %q", f)
	}
	if aside, err := datadir.Aside(segmentPath(dir, 1)); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
	closeNow(t, o)
}

// TestForeignFile: a file that is no segment is bounded in what it costs.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"zeros": make([]byte, 16<<20),
		"magic": []byte(strings.Repeat(frameMagic, 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := open(t, Options{Dir: dir})
			mustAppend(t, o, "i")
			closeNow(t, o)
			if err := os.WriteFile(segmentPath(dir, 7), data, 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			o = open(t, Options{Dir: dir})
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("opening took %s", took)
			}
			mustAppend(t, o, "j")
			if s := o.Stats(); s.Batches != 2 {
				t.Errorf("%d batches", s.Batches)
			}
			closeNow(t, o)
		})
	}
}
