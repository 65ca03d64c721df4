package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// patience bounds every wait; nothing takes that long unless it fails.
const patience = 20 * time.Second

// startNATS starts a server and connects to it.
func startNATS(t *testing.T) (*services.NATS, *nats.Conn) {
	t.Helper()
	server := services.StartNATS(t)
	nc, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return server, nc
}

func newSecrets(t *testing.T, path string, nc *nats.Conn) *Secrets {
	t.Helper()
	found := faults.New(slog.New(slog.DiscardHandler), "hotboard_edge", faults.Edge)
	return Open(path, func() *ruleset.Rules { return nil }, func() (*nats.Conn, bool) { return nc, nc != nil }, found, zap.NewNop())
}

func TestSecretsAreShared(t *testing.T) {
	_, nc := startNATS(t)
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return day })()

	a := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	b := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	mine := bytes.Clone(a.OfDay(day))
	if len(mine) != secretBytes || bytes.Equal(mine, make([]byte, secretBytes)) {
		t.Fatalf("secret %x", mine)
	}
	if bytes.Equal(mine, b.OfDay(day)) {
		t.Fatal("two edges that never met have one secret")
	}
	a.prepare(t.Context())
	if !bytes.Equal(a.OfDay(day), mine) || !a.AllShared() {
		t.Error("the first edge's secret changed when it was shared")
	}
	b.prepare(t.Context())
	for _, when := range []time.Time{day, day.AddDate(0, 0, 1)} {
		if !bytes.Equal(a.OfDay(when), b.OfDay(when)) {
			t.Errorf("two edges have two secrets on %v", when)
		}
	}
	if bytes.Equal(a.OfDay(day), a.OfDay(day.AddDate(0, 0, 1))) {
		t.Error("two days have one secret")
	}

	day = day.AddDate(0, 0, 1)
	tomorrow := bytes.Clone(b.OfDay(day))
	b.prepare(t.Context())
	if !bytes.Equal(b.OfDay(day), tomorrow) {
		t.Error("the secret that was prepared for tomorrow is not used")
	}
	day = day.AddDate(0, 0, 3)
	b.prepare(t.Context())
	if n := len(*b.table.Load()); n != 2 {
		t.Errorf("%d secrets are kept, want those of today and tomorrow", n)
	}
}

func TestWithoutABroker(t *testing.T) {
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return day })()
	path := filepath.Join(t.TempDir(), "secrets")

	s := newSecrets(t, path, nil)
	first := bytes.Clone(s.OfDay(day))
	s.prepare(t.Context())
	if s.AllShared() {
		t.Error("a secret that nobody else has counts as shared")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the secrets can be read by others: %v", info.Mode())
	}

	restarted := newSecrets(t, path, nil)
	if !bytes.Equal(restarted.OfDay(day), first) {
		t.Error("a restart without a broker makes every visitor a new one")
	}

	_, nc := startNATS(t)
	back := newSecrets(t, path, nc)
	back.prepare(t.Context())
	if !bytes.Equal(back.OfDay(day), first) || !back.AllShared() {
		t.Error("the secret of the time without a broker is not the one proposed")
	}

	day = day.AddDate(0, 0, 30)
	back.prepare(t.Context())
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byDay := make(map[string]*secret)
	if err := json.Unmarshal(data, &byDay); err != nil || len(byDay) != 2 || byDay["2026-12-20"] == nil {
		t.Errorf("a month later %d secrets are on disk, want 2: %s", len(byDay), strings.ReplaceAll(string(data), `"key"`, ""))
	}
	if files, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(files) != 1 {
		t.Errorf("files left behind: %v", files)
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets")
	for _, data := range []string{"", "{", `{"2026-11-20":null}`, `{"2026-11-20":{"key":"c2hvcnQ="}}`, `{"someday":{"key":""}}`} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := newSecrets(t, path, nil).OfDay(time.Now()); len(got) != secretBytes {
			t.Errorf("%q: secret %x", data, got)
		}
	}
}

func TestBadSecretInTheBucket(t *testing.T) {
	_, nc := startNATS(t)
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	kv, err := openBucket(t.Context(), nc, hit.Buckets["day"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "2026-11-20", []byte("short")); err != nil {
		t.Fatal(err)
	}
	s := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	mine := bytes.Clone(s.OfDay(day))
	if err := s.share(t.Context(), day, []secretID{utcDay(day)}); err == nil || !strings.Contains(err.Error(), "delete that key") {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(s.OfDay(day), mine) {
		t.Error("a bad secret was taken over")
	}
}

func TestRun(t *testing.T) {
	_, nc := startNATS(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := openBucket(t.Context(), nc, hit.Buckets["day"])
	if err != nil {
		t.Fatal(err)
	}
	if info, err := js.Stream(t.Context(), "KV_"+hit.Buckets["day"].Name); err != nil || info.CachedInfo().Config.MaxAge != hit.Buckets["day"].TTL {
		t.Errorf("secrets are kept for ever: %v", err)
	}
	watch, err := kv.WatchAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	s := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
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

func TestNames(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		term calendar.Period
		time string
		zone *time.Location
		name string
	}{
		{calendar.Day, "1969-12-31T23:59:59Z", time.UTC, "1969-12-31"},
		{calendar.Day, "1970-01-01T00:00:00Z", time.UTC, "1970-01-01"},
		{calendar.Day, "2026-11-20T23:59:59.999Z", time.UTC, "2026-11-20"},
		{calendar.Day, "2026-11-21T00:30:00+01:00", time.UTC, "2026-11-20"},
		{calendar.Day, "2026-11-21T00:30:00+01:00", berlin, "day-20261120T230000Z"},
		{calendar.Week, "2026-11-20T12:00:00Z", time.UTC, "week-20261116T000000Z"},
		{calendar.Week, "2026-11-20T12:00:00Z", berlin, "week-20261115T230000Z"},
		{calendar.Month, "2026-11-20T12:00:00Z", berlin, "month-20261031T230000Z"},
		{calendar.All, "2026-11-20T12:00:00Z", berlin, "lasting"},
	} {
		when, err := time.Parse(time.RFC3339, tt.time)
		if err != nil {
			t.Fatal(err)
		}
		id := secretOf(tt.term, tt.term.Start(when, tt.zone))
		if id.String() != tt.name {
			t.Errorf("the secret of %s in %v is %s, want %s", tt.time, tt.zone, id, tt.name)
		}
		if back, ok := parseSecretID(tt.name); !ok || back != id {
			t.Errorf("%s was parsed as %v, %v", tt.name, back, ok)
		}
		if tt.term == calendar.Day && tt.zone == time.UTC && utcDay(when) != id {
			t.Errorf("the UTC day of %s is %s", tt.time, utcDay(when))
		}
	}
	for _, name := range []string{"", "someday", "day-", "day-20261120", "day-20261120T000000Z", "hour-20261120T130000Z", "all", "lasting-20261120T000000Z", "year-20261120T000000Z", "2026-13-01"} {
		if id, ok := parseSecretID(name); ok {
			t.Errorf("%q was parsed as %s", name, id)
		}
	}
}

// pollRules are two polls in two zones with every kind of window, and a list of
// pages whose limits need no secrets.
func pollRules(t *testing.T) *ruleset.Rules {
	t.Helper()
	r, err := ruleset.ParseYAML("", []byte(`
lists:
  - {name: articles, pages: ["/{id}"]}
  - {name: here, zone: Europe/Berlin, votes: {options: ["*"]}}
  - {name: there, votes: {options: ["*"]}}
limits:
  - {name: views, by: [ip], windows: [{max: 1, per: month}], when: {lists: [articles]}}
  - {name: rate, by: [ip], windows: [{max: 1, per: second}, {max: 9, per: minute}]}
  - {name: both, by: [user], windows: [{max: 1, per: minute, calendar: true}, {max: 9, per: day}]}
  - {name: week, by: [user], windows: [{max: 20, per: week}], when: {lists: [here]}}
  - {name: month, by: [user], windows: [{max: 20, per: month}], when: {lists: [there]}, shadow: true}
  - {name: all, by: [user], windows: [{max: 20, per: campaign}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// enforce puts rules in force for s.
func enforce(s *Secrets, r *ruleset.Rules) {
	s.rules = func() *ruleset.Rules { return r }
	s.Check()
}

func namesOf(ids []secretID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	slices.Sort(names)
	return names
}

func TestWanted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC) // a Sunday; Monday in Berlin
	s := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nil)
	check := func(wantCurrent, wantNext []string) {
		t.Helper()
		current, next := s.wanted(now)
		if diff := cmp.Diff(wantCurrent, namesOf(current)); diff != "" {
			t.Errorf("now (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(wantNext, namesOf(next)); diff != "" {
			t.Errorf("next (-want +got)\n%s", diff)
		}
	}
	day, nextDay := []string{"2026-11-29"}, []string{"2026-11-30"}
	check(day, nextDay)
	enforce(s, &ruleset.Rules{})
	check(day, nextDay)
	enforce(s, pollRules(t))
	check([]string{"2026-11-29", "day-20261129T230000Z", "lasting", "month-20261101T000000Z", "week-20261129T230000Z"},
		[]string{"2026-11-30", "day-20261130T230000Z", "month-20261201T000000Z", "week-20261206T230000Z"})
	enforce(s, nil)
	check(day, nextDay)
}

// Two edges share every secret that votes need before its period begins, so that
// the broker may be away meanwhile.
func TestQuotas(t *testing.T) {
	_, nc := startNATS(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return now })()
	path := filepath.Join(t.TempDir(), "secrets")
	a := newSecrets(t, path, nc)
	b := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	enforce(a, pollRules(t))
	enforce(b, pollRules(t))

	berlin, _ := time.LoadLocation("Europe/Berlin")
	windows := []struct {
		term calendar.Period
		zone *time.Location
	}{{calendar.Day, berlin}, {calendar.Day, time.UTC}, {calendar.Week, berlin}, {calendar.Month, time.UTC}, {calendar.All, berlin}}
	ask := func(s *Secrets, at time.Time) (keys [][]byte) {
		for _, w := range windows {
			keys = append(keys, s.Shared(w.term, w.term.Start(at, w.zone)))
		}
		return keys
	}
	for i, key := range ask(a, now) {
		if key != nil {
			t.Errorf("%v: a secret that was never shared", windows[i])
		}
	}
	if err := errors.Join(a.prepare(t.Context()), b.prepare(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !a.AllShared() || !b.AllShared() {
		t.Error("secrets that are shared do not count as shared")
	}
	first := ask(a, now)
	if diff := cmp.Diff(first, ask(b, now)); diff != "" {
		t.Errorf("two edges have other secrets:\n%s", diff)
	}
	seen := make(map[string]bool)
	for i, key := range first {
		if len(key) != secretBytes || seen[string(key)] {
			t.Errorf("%v: secret of %d bytes, seen %v", windows[i], len(key), seen[string(key)])
		}
		seen[string(key)] = true
	}

	// The broker goes, the edge restarts, and the next month begins.
	restarted := newSecrets(t, path, nil)
	enforce(restarted, pollRules(t))
	now = now.AddDate(0, 0, 1)
	restarted.prepare(t.Context())
	next := ask(restarted, now)
	if diff := cmp.Diff(ask(b, now), next); diff != "" {
		t.Errorf("the next periods' secrets are other ones:\n%s", diff)
	}
	if !restarted.AllShared() {
		t.Error("secrets that were fetched ahead do not count as shared")
	}
	for i, same := range []bool{false, false, true, false, true} {
		if (string(first[i]) == string(next[i])) != same || next[i] == nil {
			t.Errorf("%v: the same as the day before: %v, want %v", windows[i], !same, same)
		}
	}

	// Secrets of past periods are forgotten, the lasting one never.
	now = now.AddDate(0, 3, 0)
	enforce(restarted, nil)
	restarted.prepare(t.Context())
	var kept []secretID
	for id := range *restarted.table.Load() {
		kept = append(kept, id)
	}
	if diff := cmp.Diff([]string{"2027-03-01", "2027-03-02", "lasting"}, namesOf(kept)); diff != "" {
		t.Errorf("three months later (-want +got)\n%s", diff)
	}
}

// A bucket that was lost gets the secrets back from the edges; where one of them
// was faster with another one, that one holds for all.
func TestLostBucket(t *testing.T) {
	server, nc := startNATS(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return now })()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	a := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	enforce(a, pollRules(t))
	prepare := func(s *Secrets) []byte {
		t.Helper()
		now = now.Add(checkEvery)
		if err := s.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.Shared(calendar.All, time.Time{})
	}
	first := prepare(a)
	streams := filepath.Join(server.Dir, "jetstream", "$G", "streams")
	lose := func() {
		t.Helper()
		if _, err := os.Stat(filepath.Join(streams, "KV_"+hit.Buckets["all"].Name)); err != nil {
			t.Fatal("the files of the bucket are elsewhere: ", err)
		}
		if err := js.DeleteKeyValue(t.Context(), hit.Buckets["all"].Name); err != nil {
			t.Fatal(err)
		}
		// The server renames the files and removes them later. A bucket of the same name
		// that is deleted before that keeps its files, and with them its keys.
		renamed := filepath.Join(streams, ".KV_"+hit.Buckets["all"].Name)
		deadline := time.After(patience)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for _, err := os.Stat(renamed); !errors.Is(err, os.ErrNotExist); _, err = os.Stat(renamed) {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("the files of the bucket do not go")
			}
		}
	}
	lose()
	if !bytes.Equal(prepare(a), first) {
		t.Error("the edge that knew the secret has another one")
	}
	b := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	enforce(b, pollRules(t))
	if !bytes.Equal(prepare(b), first) {
		t.Error("a new edge did not get the secret back")
	}
	lose()
	c := newSecrets(t, filepath.Join(t.TempDir(), "secrets"), nc)
	enforce(c, pollRules(t))
	second := prepare(c)
	if bytes.Equal(second, first) || !bytes.Equal(prepare(a), second) || !bytes.Equal(prepare(b), second) {
		t.Error("the edges do not agree after a new one was faster")
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	_, nc := startNATS(t)
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSecrets(t, filepath.Join(dir, "secrets"), nc)
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal("the secrets are not shared: ", err)
	}
	if found := s.faults.Active(); len(found) != 1 || found[0].Kind != faults.SecretsFailing {
		t.Errorf("faults %v", found)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := s.faults.Active(); len(found) > 0 {
		t.Errorf("faults %v once there is a directory", found)
	}
}
