// Package stack runs Hotboard as an operator runs it: edges, NATS, aggregators
// and Redis, each a process of its own, with their data in directories of the
// test. The processes end with the test, and what they printed is shown when it
// fails.
package stack

import (
	"os"
	"path/filepath"
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
}

// Stack is a running Hotboard.
type Stack struct {
	NATS        *services.NATS
	Redis       *services.Redis
	Aggregators []*Aggregator
	Edges       []*Edge

	t testing.TB
}

// Start runs a stack until the test ends. Every process answers when it returns.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	rules := WriteRules(t, o.Rules)
	s := &Stack{
		t:     t,
		NATS:  services.StartNATS(t),
		Redis: services.StartRedis(t, "--appendonly", "yes", "--appendfsync", "everysec"),
	}
	for range max(1, o.Aggregators) {
		s.Aggregators = append(s.Aggregators, StartAggregator(t, s.NATS.URL, s.Redis.URL(), rules))
	}
	for range max(1, o.Edges) {
		s.Edges = append(s.Edges, StartEdge(t, EdgeOptions{Broker: "nats " + s.NATS.URL, Rules: rules, Site: o.Site}))
	}
	return s
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
	st, err := redisstore.Open(s.t.Context(), redisstore.Options{URL: s.Redis.URL()})
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
	nc, err := nats.Connect(s.NATS.URL, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
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
