package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/hit"
)

func newSalts(t testing.TB, path string, nc *nats.Conn) *salts {
	t.Helper()
	s, err := openSalts(path, func() (*nats.Conn, bool) { return nc, nc != nil }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSaltsAreShared(t *testing.T) {
	log := startLog(t, 1)
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return day })()

	a := newSalts(t, filepath.Join(t.TempDir(), "salts"), log.conn)
	b := newSalts(t, filepath.Join(t.TempDir(), "salts"), log.conn)
	mine := bytes.Clone(a.at(day))
	if len(mine) != saltBytes || bytes.Equal(mine, make([]byte, saltBytes)) {
		t.Fatalf("salt %x", mine)
	}
	if bytes.Equal(mine, b.at(day)) {
		t.Fatal("two edges that never met have one salt")
	}
	a.prepare(t.Context())
	if !bytes.Equal(a.at(day), mine) || a.local.Load() {
		t.Error("the first edge's salt changed when it was shared")
	}
	b.prepare(t.Context())
	for _, when := range []time.Time{day, day.AddDate(0, 0, 1)} {
		if !bytes.Equal(a.at(when), b.at(when)) {
			t.Errorf("two edges have two salts on %v", when)
		}
	}
	if bytes.Equal(a.at(day), a.at(day.AddDate(0, 0, 1))) {
		t.Error("two days have one salt")
	}

	day = day.AddDate(0, 0, 1)
	tomorrow := bytes.Clone(b.at(day))
	b.prepare(t.Context())
	if !bytes.Equal(b.at(day), tomorrow) {
		t.Error("the salt that was prepared for tomorrow is not used")
	}
	day = day.AddDate(0, 0, 3)
	b.prepare(t.Context())
	if n := len(*b.table.Load()); n != 2 {
		t.Errorf("%d salts are kept, want those of today and tomorrow", n)
	}
}

func TestSaltsWithoutABroker(t *testing.T) {
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return day })()
	path := filepath.Join(t.TempDir(), "salts")

	s := newSalts(t, path, nil)
	first := bytes.Clone(s.at(day))
	s.prepare(t.Context())
	if !s.local.Load() {
		t.Error("a salt that nobody else has counts as shared")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the salts can be read by others: %v", info.Mode())
	}

	restarted := newSalts(t, path, nil)
	if !bytes.Equal(restarted.at(day), first) {
		t.Error("a restart without a broker makes every visitor a new one")
	}

	log := startLog(t, 1)
	back := newSalts(t, path, log.conn)
	back.prepare(t.Context())
	if !bytes.Equal(back.at(day), first) || back.local.Load() {
		t.Error("the salt of the time without a broker is not the one proposed")
	}

	day = day.AddDate(0, 0, 30)
	back.prepare(t.Context())
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byDay := make(map[string]*salt)
	if err := json.Unmarshal(data, &byDay); err != nil || len(byDay) != 2 || byDay["2026-12-20"] == nil {
		t.Errorf("a month later %d salts are on disk, want 2: %s", len(byDay), strings.ReplaceAll(string(data), `"key"`, ""))
	}
	if files, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(files) != 1 {
		t.Errorf("files left behind: %v", files)
	}
}

func TestSaltsThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salts")
	for _, data := range []string{"", "{", `{"2026-11-20":null}`, `{"2026-11-20":{"key":"c2hvcnQ="}}`, `{"someday":{"key":""}}`} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := newSalts(t, path, nil).at(time.Now()); len(got) != saltBytes {
			t.Errorf("%q: salt %x", data, got)
		}
	}
}

func TestSaltsThatAnotherMadeBadly(t *testing.T) {
	log := startLog(t, 1)
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	kv, err := saltBucket(t.Context(), log.conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "2026-11-20", []byte("short")); err != nil {
		t.Fatal(err)
	}
	s := newSalts(t, filepath.Join(t.TempDir(), "salts"), log.conn)
	mine := bytes.Clone(s.at(day))
	if err := s.share(t.Context(), dayOf(day)); err == nil || !strings.Contains(err.Error(), "delete that key") {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(s.at(day), mine) {
		t.Error("a bad salt was taken over")
	}
}

func TestSaltsRun(t *testing.T) {
	log := startLog(t, 1)
	js, err := jetstream.New(log.conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := saltBucket(t.Context(), log.conn)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := js.Stream(t.Context(), "KV_"+hit.SaltBucket); err != nil || info.CachedInfo().Config.MaxAge != saltLife {
		t.Errorf("salts are kept for ever: %v", err)
	}
	watch, err := kv.WatchAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	s := newSalts(t, filepath.Join(t.TempDir(), "salts"), log.conn)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	seen := make(map[string]bool)
	for len(seen) < 2 {
		select {
		case entry := <-watch.Updates():
			if entry != nil {
				seen[entry.Key()] = true
			}
		case <-time.After(patience):
			t.Fatalf("only %v are shared", seen)
		}
	}
	stop()
	<-done
}

func TestDayOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		time string
		name string
	}{
		{"1969-12-31T23:59:59Z", "1969-12-31"},
		{"1970-01-01T00:00:00Z", "1970-01-01"},
		{"2026-11-20T23:59:59.999Z", "2026-11-20"},
		{"2026-11-21T00:30:00+01:00", "2026-11-20"},
	} {
		when, err := time.Parse(time.RFC3339, tt.time)
		if err != nil {
			t.Fatal(err)
		}
		if got := dayName(dayOf(when)); got != tt.name {
			t.Errorf("the day of %s is %s, want %s", tt.time, got, tt.name)
		}
	}
}
