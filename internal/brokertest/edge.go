package brokertest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
)

// Eventually waits until check returns "". After [Patience] it fails the test with
// check's last result.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline, tick := time.NewTimer(Patience), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		failed := check()
		if failed == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("after %s: %s", Patience, failed)
		}
	}
}

// Rules names the rules of batches in tests that need no document of them.
var Rules = hit.RulesIDOf([]byte("{}"))

// Edge publishes batches like an edge, and keeps them all.
type Edge struct {
	t      testing.TB
	js     jetstream.JetStream
	ID     string
	shards int
	// Rules names the rules of its batches: Rules of this package, unless a test sets
	// another name.
	Rules hit.RulesID
	// Low is the lowest sequence that the edge claims it can still send.
	Low     uint64
	batches map[int][][]byte // by shard; the first is sequence 1
}

// NewEdge returns an edge without batches.
func NewEdge(t testing.TB, js jetstream.JetStream, id string, shards int) *Edge {
	return &Edge{t: t, js: js, ID: id, Rules: Rules, shards: shards, Low: 1, batches: map[int][][]byte{}}
}

// Send makes one batch of the hits for each of their shards, and publishes it.
func (e *Edge) Send(hits ...hit.Hit) {
	e.t.Helper()
	for shard, seq := range e.Add(hits...) {
		e.Publish(shard, seq)
	}
}

// Add makes batches without publishing them, and returns their sequences.
func (e *Edge) Add(hits ...hit.Hit) map[int]uint64 {
	e.t.Helper()
	byShard := map[int][]hit.Hit{}
	for _, h := range hits {
		s := hit.Shard(h.Kind, h.List, h.Item, e.shards)
		byShard[s] = append(byShard[s], h)
	}
	seqs := map[int]uint64{}
	for s, hits := range byShard {
		seqs[s] = uint64(len(e.batches[s]) + 1)
		data, err := hit.Encode(&hit.Batch{Edge: e.ID, Shard: s, Seq: seqs[s], Rules: e.Rules, Hits: hits})
		if err != nil {
			e.t.Fatal(err)
		}
		e.batches[s] = append(e.batches[s], data)
	}
	return seqs
}

// Publish publishes a batch, whether or not it was published before.
func (e *Edge) Publish(shard int, seq uint64) {
	e.t.Helper()
	e.PublishRaw(shard, seq, e.batches[shard][seq-1])
}

// PublishRaw publishes data in place of a batch.
func (e *Edge) PublishRaw(shard int, seq uint64, data []byte) {
	e.t.Helper()
	msg := nats.NewMsg(hit.Subject(shard, e.ID))
	msg.Data = data
	msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(seq, 10))
	msg.Header.Set(hit.HeaderLow, strconv.FormatUint(min(e.Low, seq), 10))
	var last error
	Eventually(e.t, func() string {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, last = e.js.PublishMsg(ctx, msg); last != nil {
			return fmt.Sprintf("publishing batch %d: %v", seq, last)
		}
		return ""
	})
}

// PublishAll publishes every batch again, in order.
func (e *Edge) PublishAll() {
	e.t.Helper()
	for shard, batches := range e.batches {
		for i := range batches {
			e.Publish(shard, uint64(i+1))
		}
	}
}

// View is a hit by a visitor at a time.
func View(list, item string, visitor uint64, at time.Time) hit.Hit {
	return hit.Hit{Kind: hit.View, List: list, Item: item, Visitor: visitor, Time: at.UnixMilli()}
}
