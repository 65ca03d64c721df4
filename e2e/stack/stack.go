// Package stack runs Hotboard as an operator runs it: edges, NATS, aggregators
// and Redis, each a process of its own, with their data in directories of the
// test. The processes end with the test, and what they printed is shown when it
// fails.
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

// Options says how large a stack is.
type Options struct {
	Edges       int // default 1
	Aggregators int // default 1
	// Rules is the YAML that edges and aggregators count by. Default: DefaultRules.
	Rules string
	// Site is what the directive hotboard of the edges' sites has in its block.
	Site string

	// Broker are the URLs of servers that the test has started. Default: a
	// nats-server of the stack's own.
	Broker []string
	// Replicas is how many of these servers keep the log. Default: 1.
	Replicas int
	// Store is the URL of the Redis that the test has started. Default: a
	// redis-server of the stack's own.
	Store string
}

// Stack is a running Hotboard.
type Stack struct {
	// NATS and Redis are the stack's own servers; nil where Options name others.
	NATS        *services.NATS
	Redis       *services.Redis
	Aggregators []*Aggregator
	Edges       []*Edge

	t        testing.TB
	broker   []string
	storeURL string
	rules    string
	site     string
}

// Start runs a stack until the test ends. Every process answers when it returns.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	s := &Stack{t: t, broker: o.Broker, storeURL: o.Store, rules: WriteRules(t, o.Rules), site: o.Site}
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

// AddAggregator starts one more aggregator. What the options leave out is as for
// the others.
func (s *Stack) AddAggregator(o AggregatorOptions) *Aggregator {
	s.t.Helper()
	if len(o.NATS) == 0 {
		o.NATS = s.broker
	}
	if o.Redis == "" {
		o.Redis = s.storeURL
	}
	o.Rules = s.rules
	a := StartAggregator(s.t, o)
	s.Aggregators = append(s.Aggregators, a)
	return a
}

// AddEdge starts one more edge. What the options leave out is as for the others.
func (s *Stack) AddEdge(o EdgeOptions) *Edge {
	s.t.Helper()
	if o.Broker == "" {
		o.Broker = "nats " + strings.Join(s.broker, " ")
	}
	o.Rules, o.Site = s.rules, s.site
	e := StartEdge(s.t, o)
	s.Edges = append(s.Edges, e)
	return e
}

// WriteRules writes rules to a file of the test and returns its path. No text
// stands for [DefaultRules].
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

// Store opens the counts, to look at them without an aggregator in between.
func (s *Stack) Store() *redisstore.Store {
	s.t.Helper()
	st, err := redisstore.Open(s.t.Context(), redisstore.Options{URL: s.storeURL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = st.Close() }) // nothing was written
	return st
}

// Log connects to the broker, which may be away at the time, to look at the log
// itself.
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
