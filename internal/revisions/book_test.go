package revisions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/ruleset"
)

// rulesOf returns rules with a list of each name.
func rulesOf(t testing.TB, lists ...string) *ruleset.Rules {
	t.Helper()
	var b strings.Builder
	b.WriteString("lists:\n")
	for _, l := range lists {
		fmt.Fprintf(&b, "  - name: %s\n", l)
	}
	r, err := ruleset.ParseYAML("rules.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newBook(s *brokertest.Server) *Book {
	nc := s.Connect()
	b := New(func() *nats.Conn { return nc }, 0)
	b.poll = 10 * time.Millisecond
	return b
}

// bucketOf returns the bucket as an operator's tools see it.
func bucketOf(t testing.TB, s *brokertest.Server) jetstream.KeyValue {
	t.Helper()
	kv, err := s.JetStream().KeyValue(t.Context(), hit.RulesBucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// purge empties the bucket, if there is one.
func purge(t testing.TB, s *brokertest.Server) {
	t.Helper()
	if stream, err := s.JetStream().Stream(t.Context(), streamName); err == nil {
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func propose(t testing.TB, b *Book, r *ruleset.Rules, a Authority, agreed uint64) (Revision, bool) {
	t.Helper()
	now, ok, err := b.Propose(t.Context(), r, Source{a, "a test", "its text"}, agreed)
	if err != nil {
		t.Fatal(err)
	}
	return now, ok
}

func TestPropose(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	one, two, three := rulesOf(t, "one"), rulesOf(t, "two"), rulesOf(t, "three")
	type step struct {
		rules     *ruleset.Rules
		authority Authority
		agreed    uint64
		number    uint64 // wanted
		ok        bool
	}
	for name, steps := range map[string][]step{
		"no revision yet":           {{one, Caddyfile, 0, 1, true}},
		"the current rules":         {{one, Caddyfile, 0, 1, true}, {one, Caddyfile, 0, 1, true}},
		"those of another":          {{one, Caddyfile, 0, 1, true}, {one, Aggregator, 0, 1, true}},
		"new rules":                 {{one, Caddyfile, 0, 1, true}, {two, Caddyfile, 0, 2, true}},
		"new, another authority":    {{one, Caddyfile, 0, 1, true}, {two, Aggregator, 0, 1, false}, {two, Aggregator, 1, 1, false}},
		"old rules":                 {{one, Caddyfile, 0, 1, true}, {two, Caddyfile, 0, 2, true}, {one, Caddyfile, 0, 2, false}},
		"old, reloaded":             {{one, Caddyfile, 0, 1, true}, {two, Caddyfile, 0, 2, true}, {one, Caddyfile, 2, 3, true}},
		"old, reloaded long ago":    {{one, Caddyfile, 0, 1, true}, {two, Caddyfile, 0, 2, true}, {three, Caddyfile, 0, 3, true}, {one, Caddyfile, 2, 3, false}},
		"old, reloaded, not theirs": {{one, Caddyfile, 0, 1, true}, {two, Caddyfile, 0, 2, true}, {one, Aggregator, 2, 2, false}},
	} {
		purge(t, s)
		b := newBook(s)
		for i, st := range steps {
			now, ok := propose(t, b, st.rules, st.authority, st.agreed)
			if now.Number != st.number || ok != st.ok {
				t.Errorf("%s: step %d: %s, %t; want number %d, %t", name, i, now, ok, st.number, st.ok)
			}
			current, err := newBook(s).Current(t.Context())
			if err != nil || !current.same(now) {
				t.Errorf("%s: step %d: the current revision is %s, %v; want %s", name, i, current, err, now)
			}
			if r, err := newBook(s).Rules(t.Context(), now.Rules); err != nil || r.ID() != now.Rules {
				t.Errorf("%s: step %d: %v, %v", name, i, r, err)
			}
		}
	}
}

func TestProposersAtOnce(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	const proposers = 8
	for _, tc := range []struct {
		name      string
		authority func(i int) Authority
		want      int // revisions
	}{
		{"of one authority", func(int) Authority { return Caddyfile }, proposers},
		{"of two", func(i int) Authority { return []Authority{Caddyfile, Aggregator}[i%2] }, proposers / 2},
	} {
		var wg sync.WaitGroup
		agreed := make([]bool, proposers)
		var all [proposers]*ruleset.Rules
		for i := range proposers {
			all[i] = rulesOf(t, fmt.Sprint("list-", i))
		}
		for i := range proposers {
			b := newBook(s)
			wg.Go(func() {
				_, ok, err := b.Propose(t.Context(), all[i], Source{Authority: tc.authority(i)}, 0)
				if err != nil {
					t.Error(err)
				}
				agreed[i] = ok
			})
		}
		wg.Wait()
		b := newBook(s)
		got, err := b.Revisions(t.Context())
		if err != nil || len(got) != tc.want {
			t.Fatalf("%s: %v, %v; want %d revisions", tc.name, got, err, tc.want)
		}
		for i, r := range got {
			if r.Number != uint64(i+1) || r.Authority != got[0].Authority {
				t.Errorf("%s: %s is at %d", tc.name, r, i)
			}
		}
		for i, ok := range agreed {
			if ok != slices.ContainsFunc(got, func(r Revision) bool { return r.Rules == all[i].ID() }) {
				t.Errorf("%s: proposer %d agreed: %t", tc.name, i, ok)
			}
		}
		purge(t, s)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	b := newBook(s)
	one := rulesOf(t, "one")
	r := Revision{Rules: one.ID(), Authority: Aggregator}
	if _, err := b.Add(t.Context(), r, 0); !errors.Is(err, ErrNoDocument) {
		t.Errorf("without a document: %v", err)
	}
	for range 2 { // putting it twice changes nothing
		if err := b.PutDocument(t.Context(), one.Document()); err != nil {
			t.Fatal(err)
		}
	}
	first, err := b.Add(t.Context(), r, 0)
	if err != nil || first.Number != 1 || time.Since(first.At) > time.Minute {
		t.Fatalf("%s, %v", first, err)
	}
	for _, after := range []uint64{0, 2} {
		if got, err := b.Add(t.Context(), r, after); !errors.Is(err, ErrConflict) {
			t.Errorf("after %d: %s, %v", after, got, err)
		}
	}
	b.AtLeast(7)
	if got, err := b.Add(t.Context(), r, 1); err != nil || got.Number != 8 {
		t.Errorf("after 7 were known: %s, %v", got, err)
	}
	if status, err := bucketOf(t, s).Status(t.Context()); err != nil || status.TTL() != 0 || status.Config().MaxBytes != MaxBytes {
		t.Errorf("the bucket: %+v, %v", status, err)
	}
	info, err := s.JetStream().Stream(t.Context(), streamName)
	if err != nil || info.CachedInfo().Config.AllowDirect {
		t.Errorf("any replica may answer: %v", err)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	b := newBook(s)
	one, two := rulesOf(t, "one"), rulesOf(t, "two")
	if _, err := b.Rules(t.Context(), one.ID()); !errors.Is(err, ErrNoDocument) {
		t.Errorf("missing: %v", err)
	}
	if _, err := b.Rules(t.Context(), hit.RulesID{}); !errors.Is(err, ErrNoRevision) {
		t.Errorf("no revision: %v", err)
	}
	propose(t, b, one, Caddyfile, 0)
	propose(t, b, two, Caddyfile, 0)
	if r, err := newBook(s).Rules(t.Context(), hit.RulesID{}); err != nil || r.ID() != one.ID() {
		t.Errorf("of the oldest revision: %v, %v", r, err)
	}

	kv := bucketOf(t, s)
	if _, err := kv.PutString(t.Context(), documentKey(one.ID()), "damaged"); err != nil {
		t.Fatal(err)
	}
	if _, err := newBook(s).Rules(t.Context(), one.ID()); !errors.Is(err, ErrNoDocument) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
	if r, err := b.Rules(t.Context(), one.ID()); err != nil || r != one {
		t.Errorf("in memory: %v, %v", r, err)
	}
	if err := kv.Delete(t.Context(), documentKey(two.ID())); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*ruleset.Rules{one, two} {
		if got, err := newBook(s).Document(t.Context(), r.ID()); err != nil || string(got) != string(r.Document()) {
			t.Errorf("restored: %s, %v", got, err)
		}
	}
	newer := []byte(`{"lists":[{"name":"one","colour":"red"}]}`)
	if err := b.PutDocument(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Rules(t.Context(), hit.RulesIDOf(newer)); err == nil || errors.Is(err, ErrNoDocument) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("of a newer build: %v", err)
	}
}

func TestManyRevisions(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	b := newBook(s)
	const n = 200
	for i := range n {
		if now, ok := propose(t, b, rulesOf(t, fmt.Sprint("list-", i)), Caddyfile, 0); !ok || now.Number != uint64(i+1) {
			t.Fatalf("%d: %s", i, now)
		}
	}
	b = newBook(s)
	all, err := b.Revisions(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("%d revisions, %v", len(all), err)
	}
	for i, r := range all {
		if got, err := b.Rules(t.Context(), r.Rules); err != nil || got.Lists[0].Name != fmt.Sprint("list-", i) || r.Number != uint64(i+1) {
			t.Fatalf("%s: %v, %v", r, got, err)
		}
	}
	if now := b.compiled.EstimatedSize(); now > 2*maxCompiled { // it evicts a little later
		t.Errorf("%d compiled rules in memory", now)
	}
	if current, err := b.Current(t.Context()); err != nil || current.Number != n {
		t.Errorf("%s, %v", current, err)
	}
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	b := newBook(s)
	current := func(want uint64) {
		t.Helper()
		for _, b := range []*Book{b, newBook(s)} {
			got, err := b.Current(t.Context())
			if want == 0 && !errors.Is(err, ErrNoRevision) || want > 0 && err != nil || got.Number != want {
				t.Errorf("%s, %v; want number %d", got, err, want)
			}
		}
	}
	current(0)
	for i := range 3 {
		propose(t, b, rulesOf(t, fmt.Sprint("list-", i)), Caddyfile, 0)
		current(uint64(i + 1))
	}
	kv := bucketOf(t, s)
	old, err := kv.Get(t.Context(), revisionKey(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), revisionKey(2), old.Value()); err != nil { // now the last message
		t.Fatal(err)
	}
	current(3)
	if err := kv.Delete(t.Context(), revisionKey(3)); err != nil {
		t.Fatal(err)
	}
	current(2)
	if _, err := kv.PutString(t.Context(), revisionKey(4), "?"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "nats kv del HOTBOARD_RULES revision.00000004") {
		t.Errorf("unreadable: %v", err)
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	b := newBook(s)
	propose(t, b, rulesOf(t, "one"), Caddyfile, 0)
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := b.Current(ctx); err == nil {
		t.Error("a broker that is away answered")
	}
	if _, err := New(func() *nats.Conn { return nil }, 0).Current(ctx); !errors.Is(err, ErrNoConnection) {
		t.Errorf("without a connection: %v", err)
	}
	s.Start()
	brokertest.Eventually(t, func() string {
		if now, err := b.Current(t.Context()); err != nil || now.Number != 1 {
			return fmt.Sprint(now, err)
		}
		return ""
	})
}

func TestParseAuthority(t *testing.T) {
	t.Parallel()
	for _, a := range []Authority{Caddyfile, Aggregator} {
		if got, err := ParseAuthority(string(a)); err != nil || got != a {
			t.Errorf("%s: %s, %v", a, got, err)
		}
	}
	if _, err := ParseAuthority("nobody"); err == nil || !strings.Contains(err.Error(), "caddyfile or aggregator") {
		t.Errorf("nobody: %v", err)
	}
}
