package ingest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

// raw publishes a message of an edge and shard 0, with the given headers.
func (f *fixture) raw(edge string, headers map[string]string, body []byte) {
	f.t.Helper()
	msg := nats.NewMsg(hit.Subject(0, edge))
	msg.Data = body
	for k, v := range headers {
		msg.Header.Set(k, v)
	}
	if _, err := f.js.PublishMsg(f.t.Context(), msg); err != nil {
		f.t.Fatal(err)
	}
}

// An unreadable message stops nothing, however long its error is.
func TestPoisonStopsNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers map[string]string
		body    []byte
	}{
		"2,000 bad batches": {
			map[string]string{hit.HeaderSeq: "1", hit.HeaderLast: "2000", hit.HeaderLow: "1"}, make([]byte, 2000),
		},
		"2,000 bytes": {
			map[string]string{hit.HeaderSeq: "1", hit.HeaderLow: "1"}, make([]byte, 2000),
		},
		"500 KiB of zeros": {
			map[string]string{hit.HeaderSeq: "1", hit.HeaderLow: "1"}, make([]byte, 500<<10),
		},
		"a long key": {
			map[string]string{hit.HeaderSeq: "1", hit.HeaderLow: "1"},
			bytes.Join([][]byte{{0xa2}, {}, {0}, {}, {0}}, append([]byte("\x7a\x00\x01\x86\xa0"), bytes.Repeat([]byte("\n"), 100_000)...)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.ensure()
			f.raw("stranger", tc.headers, tc.body)
			fl, _ := f.start(f.store, "a")
			f.send(7) // of all shards
			f.counted()
			f.faulty(fl, faults.Poisoned)
			poison, err := f.js.Stream(t.Context(), hit.PoisonStream)
			if err != nil {
				t.Fatal(err)
			}
			msg, err := poison.GetMsg(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if text := msg.Header.Get(HeaderPoisonError); text == "" || len(text) > maxHeaderText {
				t.Errorf("the header with the error has %d bytes: %.100q", len(text), text)
			}
		})
	}
}

func TestHeaderText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                   "plain",
		"a\r\nb\x00c\u0085d\x7fe": "a  b c d e",
		strings.Repeat("x", 5000): strings.Repeat("x", maxHeaderText),
		"x" + strings.Repeat("é", maxHeaderText): "x" + strings.Repeat("é", maxHeaderText/2-1),
	} {
		if got := headerText(text); got != want {
			t.Errorf("%.20q became %.20q of %d bytes, want %.20q of %d", text, got, len(got), want, len(want))
		}
	}
	if got := headerText("\xff" + strings.Repeat("\xfe", 5000)); !utf8.ValidString(got) || len(got) > maxHeaderText {
		t.Errorf("what is not UTF-8 became %d bytes, %.20q", len(got), got)
	}
}

// The search of the log must use the same headers as the fold. Otherwise it would
// send the fold back for ever to a message without a usable batch.
func TestHeadersThatAreWrongSendNobodyBack(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]map[string]string{
		"too many batches": {hit.HeaderSeq: "1", hit.HeaderLast: "100000", hit.HeaderLow: "1"},
		"from 0 on":        {hit.HeaderSeq: "0", hit.HeaderLast: "100", hit.HeaderLow: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.ensure()
			f.raw("stranger", headers, []byte("?"))
			data, err := hit.Encode(&hit.Batch{Edge: "stranger", Seq: 50})
			if err != nil {
				t.Fatal(err)
			}
			f.raw("stranger", map[string]string{hit.HeaderSeq: "50", hit.HeaderLow: "50"}, data)
			fl, _ := f.start(f.store, "a")
			f.send(7) // of all shards
			f.counted()
			f.faulty(fl, faults.BatchesLost)
		})
	}
}

// The number of messages in a commit is bounded, also of empty ones.
func TestCollectIsBounded(t *testing.T) {
	t.Parallel()
	s := &session{msgs: make(chan fold.Message, 2*commitMessages), done: make(chan struct{})}
	for range cap(s.msgs) {
		s.msgs <- fold.Message{}
	}
	msgs, err := collect(t.Context(), s, time.Now(), nil)
	if err != nil || len(msgs) != commitMessages {
		t.Errorf("a commit has %d messages, want %d: %v", len(msgs), commitMessages, err)
	}
}

// newerBatch is a batch as a later version might write it.
func newerBatch(version byte) []byte { return []byte{0xa2, 1, version, 24, 99, 0x61, '?'} }

// Batches of a newer version are held. Their messages are not set aside, and other
// edges go on.
func TestNewerEdgeWaitsForANewerAggregator(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.start(f.store, "a")
	f.ensure()
	newer := brokertest.NewEdge(t, f.js, "newer", testShards)
	newer.Add(brokertest.View("articles", "x", 1, time.Now()))
	shard := hit.Shard(hit.View, "articles", "x", testShards)
	newer.PublishRaw(shard, 1, newerBatch(hit.Version+1))
	newer.PublishRaw(shard, 2, newerBatch(hit.Version+1))
	f.send(7) // of all shards
	f.counted()
	f.faulty(fl, faults.NewerEdge)
	for _, x := range fl.Active() {
		if want := fmt.Sprintf("edge newer writes batches of version %d", hit.Version+1); !strings.Contains(x.Message, want) {
			t.Errorf("fault %+v, want %q alone", x, want)
		}
	}
	poison, err := f.js.Stream(t.Context(), hit.PoisonStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := poison.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d messages were set aside", n)
	}

	// This build can read the next batches, as an upgraded one could.
	newer.Add(brokertest.View("articles", "x", 2, time.Now()))
	newer.Publish(shard, 1)
	newer.Publish(shard, 2)
	f.sent += 2
	f.counted()
	brokertest.Eventually(t, func() string {
		if a := fl.Active(); len(a) != 0 {
			return fmt.Sprintf("faults: %+v", a)
		}
		return ""
	})
}

// An edge has dropped a batch of a newer version, which was counted in a store that
// lost it since. That must not send the shard back to it for ever.
func TestNewerBatchThatItsEdgeHasDropped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	newer := brokertest.NewEdge(t, f.js, "newer", testShards)
	shard := hit.Shard(hit.View, "articles", "x", testShards)
	for range 3 {
		newer.Add(brokertest.View("articles", "x", 1, time.Now()))
	}
	newer.PublishRaw(shard, 1, newerBatch(hit.Version+1))
	newer.Low = 3
	newer.Publish(shard, 3)
	fl, _ := f.start(f.store, "a")
	f.send(7)
	f.counted()
	f.faulty(fl, faults.NewerEdge)
}

// A message whose subject is not UTF-8 reads the same by its number as it did when
// it came: the log is not taken for another one.
func TestSubjectThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	ack, err := f.js.Publish(f.t.Context(), hit.SubjectHits+".0.\x01\xff\xfe", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	_, stop := f.start(f.store, "a")
	brokertest.Eventually(t, func() string {
		if pos, err := f.store.Position(t.Context(), 0); err != nil || pos.Seq != ack.Sequence {
			return fmt.Sprintf("position %+v, %v", pos, err)
		}
		return ""
	})
	stop()
	fl, _ := f.start(f.store, "a")
	f.send(7) // of all shards: each has compared its position with the log by then
	f.counted()
	for _, found := range fl.Active() {
		if found.Kind == faults.LogReplaced {
			t.Error(found.Message)
		}
	}
}
