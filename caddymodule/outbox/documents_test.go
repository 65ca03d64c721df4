package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// viewUnder is a view that was accepted under rules.
func viewUnder(rules hit.RulesID, item string) hit.Hit {
	h := view(item)
	h.Rules = rules
	return h
}

func mustAppendUnder(t *testing.T, o *Outbox, rules hit.RulesID, items ...string) {
	t.Helper()
	for _, item := range items {
		if err := o.Append(t.Context(), viewUnder(rules, item)); err != nil {
			t.Fatal(err)
		}
	}
}

// documentFiles returns the names of the files of documents.
func documentFiles(t *testing.T, dir string) (ids []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, documentDir, "*"+documentExt))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(path), documentExt))
	}
	return ids
}

// Each batch names the rules of all its hits, in the order in which they came.
func TestBatchesAreCutWhereTheRulesChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir(), Shards: 1})
		a, b := o.Document([]byte("a")), o.Document([]byte("b"))
		var hits []hit.Hit
		for _, run := range []struct {
			rules hit.RulesID
			n     int
		}{{a, 2}, {b, 1}, {a, hit.MaxHits + 1}, {b, hit.MaxHits}} {
			for range run.n {
				hits = append(hits, viewUnder(run.rules, fmt.Sprint(len(hits))))
			}
		}
		if err := o.Append(t.Context(), hits...); err != nil {
			t.Fatal(err)
		}
		bus := newFakeBus()
		stop := start(t, o, bus)
		type cut struct {
			Rules       hit.RulesID
			First, Last string
		}
		var got []cut
		for _, m := range bus.messages() {
			got = append(got, cut{m.rules, m.hits[0].Item, m.hits[len(m.hits)-1].Item})
		}
		want := []cut{{a, "0", "1"}, {b, "2", "2"}, {a, "3", "258"}, {a, "259", "259"}, {b, "260", "515"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches (-want +got)\n%s", diff)
		}
		if w := len(bus.documents); w != 2 {
			t.Errorf("the log has %d documents, want 2", w)
		}
		stop()
		closeNow(t, o)
	})
}

// A hit that names rules that nobody registered is refused: nobody could count it.
func TestUnregisteredRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		for _, rules := range []hit.RulesID{{}, hit.RulesIDOf([]byte("nobody's"))} {
			if err := o.Append(t.Context(), view("x"), viewUnder(rules, "y")); !errors.Is(err, ErrNoDocument) {
				t.Errorf("Append under %s: %v", rules, err)
			}
			o.Offer(viewUnder(rules, "z"))
			o.Offer(viewUnder(rules, "z"))
		}
		o.Offer(view("good"))
		time.Sleep(time.Second)
		bus.wantCounted(t, "good")
		if s := o.Stats(); s.RejectedHits != 4 {
			t.Errorf("%d rejected", s.RejectedHits)
		}
		stop()
		closeNow(t, o)
	})
}

// The aggregators learn which rules an edge accepts hits under: those registered
// last.
func TestEdgeReportsItsRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		mustAppend(t, o, "i")
		newest := o.Document([]byte("newest"))
		time.Sleep(5 * time.Second)
		bus.set(func() {
			if bus.waiting.Rules != newest {
				t.Errorf("reported %s, want %s", bus.waiting.Rules, newest)
			}
		})
		stop()
		closeNow(t, o)
	})
}

// TestDamagedDocument: whatever happens to the file of a document, its batches are
// counted as soon as somebody has the document. Until then they wait, and a fault
// names it; other batches do not wait.
func TestDamagedDocument(t *testing.T) {
	t.Parallel()
	const lost = `{"lists":[{"name":"articles","dedup":"1h"}]}`
	id := hit.RulesIDOf([]byte(lost))
	for how, damage := range map[string]func(dir, path string) error{
		"deleted":             func(_, path string) error { return os.Remove(path) },
		"emptied":             func(_, path string) error { return os.Truncate(path, 0) },
		"truncated":           func(_, path string) error { return os.Truncate(path, int64(len(lost)-1)) },
		"flipped":             func(_, path string) error { return os.WriteFile(path, []byte(lost[:20]+"X"+lost[21:]), 0o600) },
		"grown":               func(_, path string) error { return os.Truncate(path, 1<<30) },
		"a directory":         func(_, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"all of them deleted": func(dir, _ string) error { return os.RemoveAll(dir) },
		"a file for all":      func(dir, _ string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		for who, has := range map[string]struct {
			log, process bool
		}{
			"the log has it":       {log: true},
			"the process loads it": {process: true},
			"nobody has it":        {},
		} {
			t.Run(how+", "+who, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					o := open(t, Options{Dir: dir, Logger: zap.NewNop()})
					items := names("before", 20)
					mustAppendUnder(t, o, o.Document([]byte(lost)), items...)
					closeNow(t, o)
					if err := damage(filepath.Join(dir, documentDir), filepath.Join(dir, documentName(id))); err != nil {
						t.Fatal(err)
					}

					bus := newFakeBus()
					if has.log {
						bus.documents[id] = lost
					}
					o = open(t, Options{Dir: dir, Logger: zap.NewNop()})
					if f := o.fault(faults.SpoolDamaged); !strings.Contains(f, id.String()) || !strings.Contains(f, "20 batches") {
						t.Errorf("fault %q, want one that names %s", f, id)
					}
					stop := start(t, o, bus)
					mustAppend(t, o, "other")
					if has.process {
						mustAppendUnder(t, o, o.Document([]byte(lost)), "again")
						items = append(items, "again")
					}
					time.Sleep(time.Minute / 2)
					if !has.log && !has.process {
						bus.wantCounted(t, "other")
						if f := o.fault(faults.SpoolDamaged); !strings.Contains(f, id.String()) {
							t.Errorf("fault %q, want one that names %s", f, id)
						}
						if f := o.fault(faults.LogRefuses); f != "" {
							t.Errorf("fault %q, though the log refuses nothing", f)
						}
						time.Sleep(time.Hour)
						bus.set(func() { bus.documents[id] = lost }) // with aggregator rules add
						time.Sleep(time.Minute / 2)
					}
					bus.wantCounted(t, append(items, "other")...)
					time.Sleep(2 * time.Minute) // the batches are trimmed
					if f := o.opts.Faults.Active(); len(f) > 0 {
						t.Errorf("faults %+v", f)
					}
					stop()
					closeNow(t, o)
				})
			})
		}
	}
}

// Nothing is published before the log has the document that it names.
func TestLogWithoutDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		bus.noDocuments = errBus
		stop := start(t, o, bus)
		items := names("i", 50)
		mustAppend(t, o, items...)
		time.Sleep(time.Minute)
		if log := bus.messages(); len(log) > 0 {
			t.Errorf("%d batches are in a log without their document", len(log))
		}
		if f := o.fault(faults.LogRefuses); !strings.Contains(f, errBus.Error()) {
			t.Errorf("fault %q", f)
		}
		bus.set(func() { bus.noDocuments = nil })
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, items...)
		stop()
		closeNow(t, o)
	})
}

// Documents that the log has lost are back within a minute, though nothing new is
// published: batches in the log name them.
func TestDocumentsArePutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, Options{Dir: dir})
		older := o.Document([]byte("older"))
		mustAppendUnder(t, o, older, "i")
		closeNow(t, o)
		o = open(t, Options{Dir: dir})
		bus := newFakeBus()
		bus.away = true // so that the batches stay
		stop := start(t, o, bus)
		mustAppend(t, o, "j")
		time.Sleep(time.Minute)
		bus.set(func() { clear(bus.documents) })
		time.Sleep(time.Minute - documentEvery)
		bus.set(func() {
			if bus.documents[older] != "older" || bus.documents[someID] != someRules {
				t.Errorf("the log has the documents %q", bus.documents)
			}
		})
		stop()
		closeNow(t, o)
	})
}

// TestManyDocuments: the spool keeps the documents that its batches name, and the
// one in force, and deletes the others.
func TestManyDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		dir := t.TempDir()
		o := open(t, Options{Dir: dir})
		items := names("i", n)
		var ids []hit.RulesID
		for i, item := range items {
			ids = append(ids, o.Document([]byte(pastRules(i))))
			mustAppendUnder(t, o, ids[i], item)
		}
		time.Sleep(time.Minute)
		if files := documentFiles(t, dir); len(files) != n {
			t.Errorf("%d documents for %d batches", len(files), n)
		}
		bus := newFakeBus()
		stop := start(t, o, bus)
		time.Sleep(10 * time.Second)
		if len(bus.documents) != n {
			t.Errorf("the log has %d documents, want %d", len(bus.documents), n)
		}
		time.Sleep(2 * time.Minute)
		if files := documentFiles(t, dir); len(files) != 1 || files[0] != ids[n-1].String() {
			t.Errorf("documents %v, want %s alone", files, ids[n-1])
		}
		// A request may have begun under older rules.
		mustAppendUnder(t, o, ids[0], "late")
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, append(items, "late")...)
		stop()
		closeNow(t, o)

		o = open(t, Options{Dir: dir})
		stop = start(t, o, bus)
		time.Sleep(10 * time.Second)
		if files := documentFiles(t, dir); len(files) != 1 || files[0] != ids[0].String() {
			t.Errorf("documents %v, want %s, which a batch names", files, ids[0])
		}
		time.Sleep(2 * time.Minute)
		if files := documentFiles(t, dir); len(files) != 0 {
			t.Errorf("documents %v, and nothing names them", files)
		}
		stop()
		closeNow(t, o)
	})
}

// An edge of an earlier build left batches without rules behind.
func TestBatchesOfVersion1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := openSpool(dir, 1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		id := laneID{s.edge, 0}
		hits := hitsOf(names("i", 10))
		data, err := cbor.Marshal(&hit.Batch{Version: 1, Edge: id.edge, Seq: 1, Hits: hits})
		if err != nil {
			t.Fatal(err)
		}
		buf, length := appendFrame(nil, &frame{laneID: id, seq: 1, at: time.Now(), data: data})
		if err := errors.Join(s.store(buf, []entry{{id: id, seq: 1, length: length}}), s.close()); err != nil {
			t.Fatal(err)
		}
		o := open(t, Options{Dir: dir, Shards: 1})
		published := make(chan string, 1)
		stop := start(t, o, rawBus{newFakeBus(), published})
		if got := <-published; got != string(data) {
			t.Errorf("published %x, want %x", got, data)
		}
		if f := o.opts.Faults.Active(); len(f) > 0 {
			t.Errorf("faults %+v", f)
		}
		stop()
		closeNow(t, o)
	})
}

// rawBus records the first message instead of reading it.
type rawBus struct {
	*fakeBus
	published chan string
}

func (b rawBus) Publish(_ context.Context, _ int, _ string, _ Send, data []byte) error {
	select {
	case b.published <- string(data):
	default:
	}
	return nil
}

// A process that dies at any moment leaves no batch whose document is not on disk.
func TestDocumentIsOnDiskBeforeItsBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		var copies []string
		o.spool.sync = func(f *os.File) error {
			copies = append(copies, copyDir(t, o.spool.dir))
			return f.Sync()
		}
		for i := range 5 {
			mustAppendUnder(t, o, o.Document([]byte(pastRules(i))), "i", "j")
		}
		closeNow(t, o)
		for i, dir := range copies {
			s, err := openSpool(dir, 4, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if missing := s.missingDocuments(); len(missing) > 0 || s.damage != (damage{}) {
				t.Errorf("copy %d of %d: missing %v, damage %+v", i+1, len(copies), missing, s.damage)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(copies) < 15 {
			t.Errorf("only %d copies", len(copies))
		}
	})
}
