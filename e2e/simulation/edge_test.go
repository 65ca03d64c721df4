package simulation

import (
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
)

// newerVersion is the version of an upgraded edge's batches.
const newerVersion = hit.Version + 1

// someRules names the rules under which the edges accept hits.
var someRules = hit.RulesIDOf([]byte("{}"))

// edge is one spool directory with its process.
type edge struct {
	id        string
	spool     map[uint64]*hit.Batch // the file
	low, last uint64
	onDisk    uint64 // the last batch that survives a crash
	upgraded  bool
	rules     hit.RulesID // accepts hits under these
	sender    *outbox.Sender
	accepted  []hit.Hit // acknowledged to a visitor; each is of an item of its own
	batchOf   map[string]uint64

	// gone means that the directory is lost. Its batches up to promised are counted
	// all the same.
	gone     bool
	promised uint64
}

// late is a message that the sender has given up, but that is still in the network.
type late = fold.Message

// start starts a process on the spool.
func (w *world) start(e *edge) {
	for e.last > e.onDisk {
		delete(e.spool, e.last)
		e.last--
	}
	e.low = min(e.low, e.last+1)
	e.upgraded = w.upgraded()
	t := outbox.Timing{Keep: keep}
	if w.noKeep {
		t.Keep = time.Nanosecond
	}
	if w.noResend {
		t.Resend, t.ResendMax = 1000*time.Hour, 1000*time.Hour
	}
	e.sender = outbox.NewSender(e.low, e.last, t)
}

// accept acknowledges a hit to a visitor: it is on disk.
func (w *world) accept(e *edge) {
	if e.gone {
		return
	}
	var hits []hit.Hit
	for i := range 1 + w.rng.IntN(2) {
		h := hit.Hit{Kind: hit.View, List: "a", Item: fmt.Sprintf("%s-%d-%d", e.id, len(e.accepted), i), Visitor: 1, Time: w.now.UnixMilli()}
		if w.rng.IntN(2) == 0 {
			w.makeVote(&h)
		}
		if w.changes != nil && !w.acceptUnder(e, &h) {
			continue
		}
		hits = append(hits, h)
	}
	e.accepted = append(e.accepted, hits...)
	w.spool(e, hits)
}

// spool makes hits the next batch of an edge.
func (w *world) spool(e *edge, hits []hit.Hit) {
	if w.ackBeforeDisk {
		e.onDisk = e.last
	}
	e.last++
	if !w.ackBeforeDisk {
		e.onDisk = e.last
	}
	b := &hit.Batch{Version: hit.Version, Edge: e.id, Seq: e.last, Rules: e.rules, Hits: hits}
	if e.upgraded {
		b.Version = newerVersion
	}
	for i := range hits {
		e.batchOf[hits[i].Item] = e.last
	}
	e.spool[e.last] = b
	e.sender.Committed(e.last)
}

// publish sends the sender's next message. The network may lose the message or its
// acknowledgement, or delay the message.
func (w *world) publish(e *edge, faulty bool) {
	if e.gone {
		return
	}
	s, ok := e.sender.Next()
	if !ok {
		return
	}
	// A message has as many batches as fit, a different number each time.
	s.Last = min(s.Last, s.Seq+w.rng.Uint64N(4))
	if !e.sender.Take(s.Last) {
		panic("a sender that is not retired does not send")
	}
	m := fold.Message{Subject: hit.Subject(0, e.id), Edge: e.id, BatchSeq: s.Seq, LastSeq: s.Last, Low: s.Low}
	if w.noLow {
		m.Low = 1
	}
	for seq := s.Seq; seq <= s.Last; seq++ {
		if e.spool[seq] == nil {
			panic(fmt.Sprintf("batch %d of %s is sent, but the spool begins at %d", seq, e.id, e.low))
		}
		m.Batches = append(m.Batches, e.spool[seq])
	}
	fate := 0
	if faulty {
		fate = w.rng.IntN(6)
	}
	switch fate {
	case 1: // the message is lost
		w.failed(e, s)
	case 2: // the acknowledgement is lost
		w.log.append(m, w.now)
		w.failed(e, s)
	case 3: // the message is late
		w.late = append(w.late, m)
		w.failed(e, s)
	default:
		w.log.append(m, w.now)
		e.sender.Acked(s.Seq, w.now)
	}
}

// failed is the edge's handling of a message without an acknowledgement.
func (w *world) failed(e *edge, s outbox.Send) {
	e.sender.Failed(s.Seq)
	if !w.renumber {
		return
	}
	for seq := s.Seq; seq <= s.Last; seq++ {
		if hits := e.spool[seq].Hits; len(hits) > 0 {
			e.spool[seq] = &hit.Batch{Version: hit.Version, Edge: e.id, Seq: seq, Rules: e.rules}
			w.spool(e, hits)
		}
	}
}

// poll asks for the applied batches, and trims the spool.
func (w *world) poll(e *edge) {
	if e.gone {
		return
	}
	if !w.noNumbers {
		e.sender.Applied(w.applied(e), w.now)
	}
	for low := e.sender.Trim(w.now); e.low < low; e.low++ {
		delete(e.spool, e.low)
	}
}

// lose removes an edge's directory for good. Its batches in the log are counted all
// the same, up to the first gap.
func (w *world) lose(e *edge) {
	e.gone = true
	e.promised = w.log.reaches(w.position(), e.id, w.applied(e))
	w.faults["edge lost for good"]++
}
