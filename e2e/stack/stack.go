// Package stack runs Hotboard like an operator: edges, NATS, aggregators and Redis,
// each a process of its own, with their data in directories of the test. The
// processes end with the test, and a failed test shows their output.
package stack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
)

// List is the name of the list in [DefaultRules].
const List = "articles"

// DefaultRules is one list, whose items are the pages below /articles.
const DefaultRules = `lists:
  - name: articles
    pages: ["/articles/{id}"]
`

// Options sets the size and the parts of a stack.
type Options struct {
	Edges       int // default 1
	Aggregators int // default 1
	// Rules is the YAML of the rules for edges and aggregators. Default: DefaultRules.
	Rules string
	// EdgesFollow and AggregatorsFollow leave the rules out of their configuration.
	EdgesFollow, AggregatorsFollow bool
	// Site is the content of the directive hotboard's block in the edges' sites.
	Site string

	// Broker lists the URLs of servers of the test. Default: a nats-server of the
	// stack.
	Broker []string
	// Replicas is the number of these servers that keep the log. Default: 1.
	Replicas int
	// Store is the URL of a Redis of the test. Default: a redis-server of the stack.
	Store string
}

// Stack is a running Hotboard.
type Stack struct {
	// NATS and Redis are the stack's own servers; nil if Options name others.
	NATS        *services.NATS
	Redis       *services.Redis
	Aggregators []*Aggregator
	Edges       []*Edge

	t        testing.TB
	broker   []string
	storeURL string
	rules    rules
	site     string
}

// rules are the paths of the rules of each side; empty if it follows.
type rules struct{ edges, aggregators string }

// Start runs a stack until the test ends. On return every process answers.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	s := &Stack{t: t, broker: o.Broker, storeURL: o.Store, site: o.Site}
	file := WriteRules(t, o.Rules)
	if !o.EdgesFollow {
		s.rules.edges = file
	}
	if !o.AggregatorsFollow {
		s.rules.aggregators = file
	}
	if len(s.broker) == 0 {
		s.NATS = services.StartNATS(t)
		s.broker = []string{s.NATS.URL}
	}
	if s.storeURL == "" {
		s.Redis = services.StartRedis(t, "--appendonly", "yes", "--appendfsync", "everysec")
		s.storeURL = s.Redis.URL()
	}
	for range max(1, o.Aggregators) {
		s.AddAggregator(AggregatorOptions{Replicas: o.Replicas})
	}
	for range max(1, o.Edges) {
		s.AddEdge(EdgeOptions{})
	}
	return s
}

// Rules returns the path of the aggregators' rules.
func (s *Stack) Rules() string { return s.rules.aggregators }

// AddAggregator starts one more aggregator. Missing options default to those of the
// others.
func (s *Stack) AddAggregator(o AggregatorOptions) *Aggregator {
	s.t.Helper()
	if len(o.NATS) == 0 {
		o.NATS = s.broker
	}
	if o.Redis == "" {
		o.Redis = s.storeURL
	}
	o.Rules = s.rules.aggregators
	a := StartAggregator(s.t, o)
	s.Aggregators = append(s.Aggregators, a)
	return a
}

// AddEdge starts one more edge. Missing options default to those of the others.
func (s *Stack) AddEdge(o EdgeOptions) *Edge {
	s.t.Helper()
	if o.Broker == "" {
		o.Broker = "nats " + strings.Join(s.broker, " ")
	}
	o.Rules, o.Site = s.rules.edges, s.site
	e := StartEdge(s.t, o)
	s.Edges = append(s.Edges, e)
	return e
}

// WriteRules writes rules to a file of the test and returns its path. The empty
// text means [DefaultRules].
func WriteRules(t testing.TB, text string) string {
	t.Helper()
	if text == "" {
		text = DefaultRules
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Store opens the counts, to read them without an aggregator.
func (s *Stack) Store() *redisstore.Store {
	s.t.Helper()
	st, err := redisstore.Open(s.t.Context(), redisstore.Options{URL: s.storeURL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = st.Close() }) // nothing was written
	return st
}

// Log connects to the broker, even while it is away, to read the log.
func (s *Stack) Log() jetstream.JetStream {
	s.t.Helper()
	nc, err := nats.Connect(strings.Join(s.broker, ","), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}
