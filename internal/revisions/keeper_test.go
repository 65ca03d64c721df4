package revisions

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// process is one process with a Keeper.
type process struct {
	*Keeper
	t      testing.TB
	faults *faults.Registry
	stop   func()

	mu   sync.Mutex
	seen []string // each current revision and its lists
}

func startProcess(t testing.TB, s *brokertest.Server, a Authority, own *ruleset.Rules) *process {
	return startKeeper(t, newBook(s), a, own)
}

func startKeeper(t testing.TB, b *Book, a Authority, own *ruleset.Rules) *process {
	p := &process{t: t, faults: faults.New(brokertest.Logger(t), "hotboard", faults.Aggregator)}
	p.Keeper = NewKeeper(KeeperOptions{
		Book: b, Authority: a, By: "a test", Faults: p.faults, Logger: brokertest.Logger(t),
		DiffersAfter: 100 * time.Millisecond,
		Changed: func(r Revision, rules *ruleset.Rules) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seen = append(p.seen, fmt.Sprintf("%d %s", r.Number, rules.Lists[0].Name))
		},
	})
	p.Carry(own, "its text")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	p.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(p.stop)
	return p
}

// has waits until the process has seen a revision as its last, such as "2 articles".
func (p *process) has(want string) {
	p.t.Helper()
	brokertest.Eventually(p.t, func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.seen) == 0 || p.seen[len(p.seen)-1] != want {
			return fmt.Sprintf("it has seen %q, without %q at the end", p.seen, want)
		}
		return ""
	})
}

// fault waits until a fault has all of texts, or is gone without any.
func (p *process) fault(kind faults.Kind, texts ...string) {
	p.t.Helper()
	brokertest.Eventually(p.t, func() string {
		message := ""
		for _, f := range p.faults.Active() {
			if f.Kind == kind {
				message = f.Message
			}
		}
		if (message == "") != (len(texts) == 0) {
			return fmt.Sprintf("the fault is %q", message)
		}
		for _, text := range texts {
			if !strings.Contains(message, text) {
				return fmt.Sprintf("the fault is %q, without %q", message, text)
			}
		}
		return ""
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	follower := startProcess(t, s, Aggregator, nil)
	follower.fault(faults.RulesUnknown, "has no rules", "aggregator rules add FILE")
	edge := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	for _, p := range []*process{follower, edge} {
		p.has("1 one")
		p.fault(faults.RulesUnknown)
	}
	edge.Carry(rulesOf(t, "two"), "its text")
	follower.has("2 two")
	s.Stop()
	edge.Carry(rulesOf(t, "one"), "its text") // while the broker is away
	edge.Carry(rulesOf(t, "three"), "its text")
	edge.Carry(rulesOf(t, "one"), "its text")
	s.Start()
	for _, p := range []*process{follower, edge} {
		p.has("3 one")
	}
	if now, r := follower.Current(); now.Number != 3 || r.Lists[0].Name != "one" || now.From != "its text" {
		t.Errorf("%s, %v", now, r)
	}
}

func TestStaleProcess(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	edge := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	edge.has("1 one")
	edge.Carry(rulesOf(t, "two"), "its text")
	edge.has("2 two")

	stale := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	stale.has("2 two")
	stale.fault(faults.RulesDiffer, "its text", "revision 2 (", "caddyfile, by a test", "aggregator rules use")
	other := startProcess(t, s, Aggregator, rulesOf(t, "three"))
	other.fault(faults.RulesDiffer, "aggregator rules authority aggregator")

	stale.Carry(rulesOf(t, "zero"), "its text") // rules that nobody had
	edge.has("3 zero")
	stale.fault(faults.RulesDiffer)
	edge.fault(faults.RulesDiffer, "revision 3 (")
	edge.Carry(rulesOf(t, "one"), "its text") // it did not agree with revision 3
	edge.fault(faults.RulesDiffer, rulesOf(t, "one").ID().Short())
	edge.Carry(nil, "") // follows
	edge.fault(faults.RulesDiffer)
	stale.Carry(rulesOf(t, "one"), "its text") // it did
	for _, p := range []*process{edge, stale} {
		p.has("4 one")
	}
	if all, err := newBook(s).Revisions(t.Context()); err != nil || len(all) != 4 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestLostBucket(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	book := newBook(s)
	edge := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	follower := startKeeper(t, book, Aggregator, nil)
	edge.has("1 one")
	edge.Carry(rulesOf(t, "two"), "its text")
	follower.has("2 two")

	kv := bucketOf(t, s)
	if err := kv.Delete(t.Context(), revisionKey(2)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{edge, follower} {
		p.has("3 two")
	}
	purge(t, s)
	for _, p := range []*process{edge, follower} {
		p.has("4 two")
	}
	edge.stop() // the rest works without anyone whose configuration has the rules
	if err := s.JetStream().DeleteStream(t.Context(), streamName); err != nil {
		t.Fatal(err)
	}
	follower.has("5 two")
	if r, err := newBook(s).Rules(t.Context(), rulesOf(t, "two").ID()); err != nil || r.Lists[0].Name != "two" {
		t.Errorf("%v, %v", r, err)
	}

	// Everything is gone, and the only process that comes knows from its store that
	// the shards have revision 5 in force.
	follower.stop()
	if err := s.JetStream().DeleteStream(t.Context(), streamName); err != nil {
		t.Fatal(err)
	}
	book = newBook(s)
	book.AtLeast(5)
	startKeeper(t, book, Aggregator, rulesOf(t, "three")).has("6 three")
}

func TestRestartOfTheBroker(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	edge := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	follower := startProcess(t, s, Aggregator, nil)
	follower.has("1 one")
	for i := range 3 {
		s.Stop()
		s.Start()
		edge.Carry(rulesOf(t, fmt.Sprint("list-", i)), "its text")
		follower.has(fmt.Sprint(i+2, " list-", i))
	}
	for _, p := range []*process{edge, follower} {
		p.fault(faults.RulesUnknown)
		p.fault(faults.RulesDiffer)
	}
}

func TestUnreadableRules(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	edge := startProcess(t, s, Caddyfile, rulesOf(t, "one"))
	edge.has("1 one")
	edge.stop()
	kv := bucketOf(t, s)
	if _, err := kv.PutString(t.Context(), documentKey(rulesOf(t, "one").ID()), "damaged"); err != nil {
		t.Fatal(err)
	}
	follower := startProcess(t, s, Aggregator, nil)
	follower.fault(faults.RulesUnknown, "has no rules", "its copy is damaged")
	startProcess(t, s, Caddyfile, rulesOf(t, "one")) // has the document
	follower.has("1 one")
	follower.fault(faults.RulesUnknown)
	if _, err := kv.PutString(t.Context(), revisionKey(2), "?"); err != nil {
		t.Fatal(err)
	}
	follower.fault(faults.RulesUnknown, "stay in force", "nats kv del HOTBOARD_RULES revision.00000002")
	if err := kv.Delete(t.Context(), revisionKey(2)); err != nil {
		t.Fatal(err)
	}
	follower.fault(faults.RulesUnknown)
}

// Not parallel: it counts goroutines.
func TestNoGoroutineStays(t *testing.T) {
	s := brokertest.NewServer(t)
	nc := s.Connect()
	book := New(func() *nats.Conn { return nc }, 0)
	book.poll = 10 * time.Millisecond
	before := 0
	for i := range 20 {
		p := startKeeper(t, book, Caddyfile, rulesOf(t, fmt.Sprint("list-", i)))
		p.has(fmt.Sprint(i+1, " list-", i))
		p.stop()
		if i == 4 { // the connection has its own by now
			before = runtime.NumGoroutine()
		}
	}
	brokertest.Eventually(t, func() string {
		if now := runtime.NumGoroutine(); now > before+2 {
			return fmt.Sprintf("%d goroutines, %d before", now, before)
		}
		return ""
	})
	if sub := nc.NumSubscriptions(); sub > 1 { // the inbox of requests
		t.Errorf("%d subscriptions stay", sub)
	}
}

// A reload back to the old rules, while the new ones are being proposed, is a wish
// for the old ones like any other.
func TestReloadDuringAProposal(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	nc := s.Connect()
	one, two := rulesOf(t, "one"), rulesOf(t, "two")
	var k *Keeper
	reload := false
	b := New(func() *nats.Conn {
		if reload {
			reload = false
			k.Carry(one, "its text")
		}
		return nc
	}, 0)
	k = NewKeeper(KeeperOptions{
		Book: b, Authority: Caddyfile, Faults: faults.New(brokertest.Logger(t), "hotboard", faults.Edge), Logger: brokertest.Logger(t),
	})
	look := func(number uint64) {
		t.Helper()
		k.Look(t.Context())
		if now, err := b.Current(t.Context()); err != nil || now.Number != number {
			t.Errorf("%s, %v; want number %d", now, err, number)
		}
	}
	k.Carry(one, "its text")
	look(1)
	k.Carry(two, "its text")
	reload = true
	look(2)
	look(3)
	if now, _ := k.Current(); now.Rules != one.ID() {
		t.Errorf("%s is in force", now)
	}
}
