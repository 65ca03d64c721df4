package outbox

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// TestOneLaneStandsStill: what one shard cannot get rid of does not keep the batches of
// the others on the disk.
func TestOneLaneStandsStill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := openSpool(dir, 2, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	s.segmentBytes = 64 << 10
	disk := func() (bytes int64) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".hits") {
				bytes += info.Size()
			}
		}
		return bytes
	}
	stuck, moving := laneID{s.edge, 0}, laneID{s.edge, 1}
	for range 400 {
		small, large := &batch{shard: 0, rules: someID, hits: hitsOf(names("stuck", 1))}, &batch{shard: 1, rules: someID, hits: hitsOf(names("moves", 200))}
		if err := s.write([]*batch{small, large}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := s.trim(map[laneID]uint64{moving: s.lanes[moving].end()}); err != nil {
			t.Fatal(err)
		}
		if n, limit := disk(), 2*s.bytes.Load()+6*s.segmentBytes; n > limit {
			t.Fatalf("%d bytes on the disk for %d bytes of batches", n, s.bytes.Load())
		}
	}
	check := func(s *spool) {
		t.Helper()
		if s.damage != (damage{}) || s.count(stuck) != 400 || s.count(moving) != 0 || s.batches.Load() != 400 {
			t.Errorf("%d batches of the one, %d of the other, %d in all, damage %+v", s.count(stuck), s.count(moving), s.batches.Load(), s.damage)
		}
		if n := s.documents.all[s.number(someID)].live; n != 400 {
			t.Errorf("%d batches are known to name the document", n)
		}
		for seq := range uint64(400) {
			if _, err := s.read(stuck, seq+1); err != nil {
				t.Fatalf("batch %d: %v", seq+1, err)
			}
		}
	}
	check(s)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(dir, 2, 1<<30); err != nil {
		t.Fatal(err)
	}
	check(s)
	if err := s.trim(map[laneID]uint64{stuck: 401}); err != nil {
		t.Fatal(err)
	}
	if n := disk(); n != 0 {
		t.Errorf("%d bytes are left of an empty spool", n)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// contentsOf returns the files below a directory, by their paths in it.
func contentsOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, path := range filesOf(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = data
	}
	return files
}

// TestCrashAnywhere takes copies of the directory whenever the spool waits for the
// disk: as a process that is killed leaves it, as a power cut does, which undoes what
// was not synced, and as one that tears the file that was just being written. In every
// copy is what was acknowledged and not trimmed, once, with the documents that it
// names, and nothing seems to be damaged.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := openSpool(dir, 2, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	s.segmentBytes = 1 << 10
	type moment struct {
		dir     string
		present map[string]bool // true: acknowledged; false: may be there or not
	}
	var moments []moment
	items := map[string]bool{}
	synced := contentsOf(t, dir)
	s.sync = func(f *os.File) error {
		killed, cut, torn := copyDir(t, dir), copyDir(t, dir), copyDir(t, dir)
		for name := range contentsOf(t, dir) {
			for _, crashed := range []string{cut, torn} {
				if err := os.WriteFile(filepath.Join(crashed, name), synced[name], 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		name, err := filepath.Rel(dir, f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(torn, name), []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		temp := strings.Contains(name, ".tmp-")
		for _, crashed := range []string{killed, cut, torn} {
			if crashed == torn && !temp && !strings.HasPrefix(name, "state") {
				continue // of a segment only the end is torn: see TestTornWrite
			}
			moments = append(moments, moment{crashed, maps.Clone(items)})
		}
		defer func() {
			synced[name] = contentsOf(t, dir)[name]
			if temp { // it gets this name next
				synced[strings.Replace(name, ".tmp-", "", 1)] = synced[name]
			}
		}()
		return f.Sync()
	}
	id := func(shard int) laneID { return laneID{s.edge, shard} }
	n := 0
	write := func() {
		n++
		names := []string{fmt.Sprint("a", n), fmt.Sprint("b", n)}
		doc := []byte(pastRules(n / 7))
		if n > 65 { // several documents in one segment
			doc = []byte(pastRules(n))
		}
		rules := hit.RulesIDOf(doc)
		if err := s.keepDocument(rules, doc); err != nil {
			t.Fatal(err)
		}
		var batches []*batch
		for shard, name := range names {
			items[name] = false
			batches = append(batches, &batch{shard: shard, rules: rules, hits: hitsOf([]string{name})})
		}
		if err := s.write(batches, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			items[name] = true
		}
	}
	trim := func(shard int, low uint64) {
		for seq := s.lanes[id(shard)].low; seq < low; seq++ {
			b, err := s.batch(id(shard), seq)
			if err != nil {
				t.Fatal(err)
			}
			items[b.hits[0].Item] = false // it is there until its segment goes
		}
		if err := s.trim(map[laneID]uint64{id(shard): low}); err != nil {
			t.Fatal(err)
		}
		if err := s.deleteDocuments(hit.RulesID{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		write()
		if n == 30 {
			trim(0, 20)
			trim(1, 20)
		}
	}
	trim(0, 55)
	trim(1, 50)
	for range 5 {
		write()
	}
	if _, err := s.renew([]uint64{60, 63}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		write()
		trim(0, s.lanes[id(0)].end()-1)
		trim(1, s.lanes[id(1)].end()-1)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}

	for i, m := range moments {
		s, err := openSpool(m.dir, 2, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if s.damage != (damage{}) {
			t.Errorf("moment %d of %d (%s): %+v", i, len(moments), m.dir, s.damage)
		}
		found := map[string]int{}
		for id, c := range s.lanes {
			for seq := c.low; seq < c.end(); seq++ {
				b, err := s.batch(id, seq)
				if err != nil {
					t.Fatal(err)
				}
				found[b.hits[0].Item]++
			}
		}
		for _, d := range s.documents.all {
			if d.text == nil && d.live > 0 && !d.id.IsZero() {
				t.Errorf("moment %d of %d: %d batches name the document %s, which is missing", i, len(moments), d.live, d.id.Short())
			}
		}
		for item, acknowledged := range m.present {
			if n := found[item]; n > 1 || n == 0 && acknowledged {
				t.Errorf("moment %d of %d: %s is there %d times", i, len(moments), item, n)
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(moments) < 150 {
		t.Errorf("only %d moments", len(moments))
	}
}
