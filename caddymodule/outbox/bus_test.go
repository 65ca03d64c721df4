package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hotboard/hotboard/hit"
)

var errBus = errors.New("the bus fails, says the test")

// fakeBus is a log and an aggregator that folds it at once, with faults.
type fakeBus struct {
	mu sync.Mutex
	// publish decides what becomes of the n-th message, counted from 1: whether
	// the log keeps it and what the publisher hears. Nil: all is well.
	publish     func(n int) (kept bool, err error)
	away        bool // the aggregator does not answer
	n           int
	log         []message
	applied     map[string]map[int]uint64
	counted     map[string]int // by item
	lost        uint64
	waiting     hit.Waiting            // reported last
	down        error                  // no connection
	documents   map[hit.RulesID]string // that the log has
	noDocuments error                  // of every call of Document
}

// message is one batch of a message of the log: which batches share one does not
// matter here.
type message struct {
	edge  string
	shard int
	seq   uint64
	low   uint64
	data  string
	rules hit.RulesID
	hits  []hit.Hit
}

func newFakeBus() *fakeBus {
	return &fakeBus{applied: map[string]map[int]uint64{}, counted: map[string]int{}, documents: map[hit.RulesID]string{}}
}

func (b *fakeBus) Publish(ctx context.Context, shard int, edge string, send Send, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	kept, err := true, error(nil)
	if b.publish != nil {
		kept, err = b.publish(b.n)
	}
	if kept {
		for _, m := range split(edge, shard, send.Seq, send.Last, send.Low, data) {
			if m.seq < send.Seq || m.seq > send.Last {
				panic(fmt.Sprintf("message %+v of shard %d of %s carries batch %d", send, shard, edge, m.seq))
			}
			if b.documents[m.rules] == "" && len(m.hits) > 0 {
				panic(fmt.Sprintf("batch %d of %s came before its document", m.seq, edge))
			}
			b.log = append(b.log, m)
			b.fold(m)
		}
	}
	return err
}

// split returns the batches of a message.
func split(edge string, shard int, first, last, low uint64, data []byte) []message {
	batches, err := hit.DecodeMessage(data, edge, shard, first, last-first+1)
	if err != nil {
		panic(err)
	}
	messages := make([]message, len(batches))
	for i, batch := range batches {
		if batch.Edge != edge || batch.Shard != shard {
			panic(fmt.Sprintf("a message of shard %d of %s carries a batch of shard %d of %s", shard, edge, batch.Shard, batch.Edge))
		}
		encoded, err := hit.Encode(batch)
		if err != nil {
			panic(err)
		}
		messages[i] = message{edge, shard, batch.Seq, low, string(encoded), batch.Rules, batch.Hits}
	}
	return messages
}

func (b *fakeBus) fold(m message) {
	shards := b.applied[m.edge]
	if shards == nil {
		shards = map[int]uint64{}
		b.applied[m.edge] = shards
	}
	if m.low > shards[m.shard]+1 {
		b.lost += m.low - 1 - shards[m.shard]
		shards[m.shard] = m.low - 1
	}
	if m.seq != shards[m.shard]+1 {
		return
	}
	shards[m.shard] = m.seq
	for _, h := range m.hits {
		b.counted[h.Item]++
	}
}

func (b *fakeBus) Applied(ctx context.Context, waiting hit.Waiting) (map[int]uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = waiting
	if b.away {
		return nil, errBus
	}
	return maps.Clone(b.applied[waiting.Edge]), nil
}

func (b *fakeBus) Document(ctx context.Context, id hit.RulesID, text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noDocuments != nil {
		return b.noDocuments
	}
	if b.documents[id] == "" && text == nil {
		return ErrNoDocument
	}
	if b.documents[id] == "" {
		b.documents[id] = string(text)
	}
	if hit.RulesIDOf([]byte(b.documents[id])) != id {
		panic(fmt.Sprintf("%q is not the document %s", b.documents[id], id))
	}
	return nil
}

func (b *fakeBus) Connected() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

func (b *fakeBus) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// messages returns the log.
func (b *fakeBus) messages() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]message(nil), b.log...)
}

// size returns how many items were counted.
func (b *fakeBus) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.counted)
}

// wantCounted checks that each of the items was counted once, and nothing else.
func (b *fakeBus) wantCounted(t *testing.T, items ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, item := range items {
		if n := b.counted[item]; n != 1 {
			t.Errorf("%s was counted %d times", item, n)
		}
	}
	if len(b.counted) != len(items) {
		t.Errorf("%d items were counted, want %d", len(b.counted), len(items))
	}
	if b.lost > 0 {
		t.Errorf("%d batches were declared lost", b.lost)
	}
}

// wantOrder checks that the log has, of each edge and shard, the sequences from
// 1 without a gap, each with the same bytes however often it is there.
func wantOrder(t *testing.T, log []message) {
	t.Helper()
	type lane struct {
		edge  string
		shard int
	}
	seen := map[lane]map[uint64]string{}
	for _, m := range log {
		l := lane{m.edge, m.shard}
		if seen[l] == nil {
			seen[l] = map[uint64]string{}
		}
		before, again := seen[l][m.seq]
		switch {
		case again && before != m.data:
			t.Errorf("batch %d of %+v was sent with other bytes", m.seq, l)
		case !again && m.seq != uint64(len(seen[l]))+1:
			t.Errorf("batch %d of %+v came after %d others", m.seq, l, len(seen[l]))
		}
		if m.low > m.seq || m.low == 0 {
			t.Errorf("batch %d of %+v says that %d is the lowest", m.seq, l, m.low)
		}
		seen[l][m.seq] = m.data
	}
}

// someRules is a document that every outbox of a test has registered.
const someRules = `{"lists":[{"name":"articles"}]}`

var someID = hit.RulesIDOf([]byte(someRules))

func view(item string) hit.Hit {
	return hit.Hit{Kind: hit.View, List: "articles", Item: item, Visitor: 7, Time: time.Now().UnixMilli(), Rules: someID}
}

func hitsOf(items []string) []hit.Hit {
	hits := make([]hit.Hit, len(items))
	for i, item := range items {
		hits[i] = view(item)
	}
	return hits
}

func open(t *testing.T, opts Options) *Outbox {
	t.Helper()
	if opts.Shards == 0 {
		opts.Shards = 4
	}
	if opts.Logger == nil {
		opts.Logger = zaptest.NewLogger(t)
	}
	o, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	o.Document([]byte(someRules))
	return o
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustAppend(t *testing.T, o *Outbox, items ...string) {
	t.Helper()
	if err := o.Append(t.Context(), hitsOf(items)...); err != nil {
		t.Fatal(err)
	}
}

// closeNow closes without waiting for anything to be published.
func closeNow(t *testing.T, o *Outbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := o.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func names(prefix string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return items
}
