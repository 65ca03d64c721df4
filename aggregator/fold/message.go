// Package fold computes the counts from the messages of the log. It is the one
// place that counts hits, whatever store keeps the counts.
//
// Apart from the random version of its commit, a fold is a function of the rules,
// the store's values and the messages. It reads no clock, so reading the same log
// again gives the same counts, however the messages are grouped.
package fold

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Message is one message of the log.
type Message struct {
	Seq      uint64 // stream sequence
	Received time.Time
	Subject  string
	Data     []byte

	Edge     string
	BatchSeq uint64 // of the first batch
	LastSeq  uint64 // of the last batch
	Low      uint64 // lowest sequence that the edge could still send
	// Revision is the number of the revision of the rules that the message puts in
	// force, and Rules its document. Such a message has neither edge nor batches. 0 in
	// any other message.
	Revision uint64
	Rules    hit.RulesID
	// Batches has a nil for each unreadable batch, and a batch without hits for each
	// of a newer version; see [hit.DecodeMessage].
	Batches []*hit.Batch
	// Err is why the message, or a part of it, is unreadable; an unreadable message
	// has no batches. Edge, BatchSeq and LastSeq are set if the subject and headers
	// can be read.
	Err error
}

// Read parses a message that the log delivered for a shard. header returns a
// header's first value, or "". Read returns an unreadable message with Err set: the
// caller must set it aside, not wait for it.
func Read(shard int, seq uint64, received time.Time, subject string, header func(string) string, data []byte) Message {
	m := Message{Seq: seq, Received: received, Subject: subject, Data: data}
	m.Err = m.read(shard, header)
	return m
}

func (m *Message) read(shard int, header func(string) string) error {
	inShard, edge, err := hit.ParseSubject(m.Subject)
	if err != nil {
		return err
	}
	if edge == hit.RulesSender {
		return m.readRevision(shard, inShard, header)
	}
	m.Edge = edge
	if m.BatchSeq, m.LastSeq, err = Sequences(header); err != nil {
		return err
	}
	m.Low, err = strconv.ParseUint(header(hit.HeaderLow), 10, 64)
	if err != nil || m.Low == 0 || m.Low > m.BatchSeq {
		return fmt.Errorf("header %s is not a sequence up to %d: %.40q", hit.HeaderLow, m.BatchSeq, header(hit.HeaderLow))
	}
	if err := inPlace(shard, inShard); err != nil {
		return err
	}
	m.Batches, err = hit.DecodeMessage(m.Data, edge, shard, m.BatchSeq, m.LastSeq-m.BatchSeq+1)
	return err
}

func inPlace(shard, inShard int) error {
	if inShard != shard {
		return fmt.Errorf("the message is of shard %d", inShard)
	}
	return nil
}

// readRevision parses a message that puts a revision of the rules in force.
func (m *Message) readRevision(shard, inShard int, header func(string) string) error {
	if err := inPlace(shard, inShard); err != nil {
		return err
	}
	if len(m.Data) > 0 {
		return fmt.Errorf("a message that puts rules in force has a body of %d bytes", len(m.Data))
	}
	n, err := strconv.ParseUint(header(hit.HeaderRevision), 10, 64)
	if err != nil || n == 0 || n > hit.MaxRevision {
		return fmt.Errorf("header %s is not a number from 1 to %d: %.40q", hit.HeaderRevision, hit.MaxRevision, header(hit.HeaderRevision))
	}
	id, err := hit.ParseRulesID(header(hit.HeaderRules))
	if err != nil || id.IsZero() {
		return fmt.Errorf("header %s does not name a document of rules: %.40q", hit.HeaderRules, header(hit.HeaderRules))
	}
	m.Revision, m.Rules = n, id
	return nil
}

// Sequences returns the sequences of the first and last batch from the headers of a
// message; header is as in [Read].
func Sequences(header func(string) string) (first, last uint64, err error) {
	// 63 bits, so that there always is a next one.
	first, err = strconv.ParseUint(header(hit.HeaderSeq), 10, 63)
	if err != nil || first == 0 {
		return 0, 0, fmt.Errorf("header %s is not a sequence: %.40q", hit.HeaderSeq, header(hit.HeaderSeq))
	}
	text := header(hit.HeaderLast)
	if text == "" {
		return first, first, nil
	}
	if last, err = strconv.ParseUint(text, 10, 63); err != nil || last < first || last-first >= hit.MaxBatches {
		return 0, 0, fmt.Errorf("header %s is not a sequence from %d on, with at most %d batches: %.40q", hit.HeaderLast, first, hit.MaxBatches, text)
	}
	return first, last, nil
}

// Fingerprint identifies a message of the log. A stream that was recreated or cut
// short has a message with another fingerprint at the same sequence.
func Fingerprint(subject string, received time.Time, data []byte) uint64 {
	h := fnv.New64a()
	// A message that is read by its number comes as JSON, which replaces bytes that
	// are not UTF-8, as runes do.
	fmt.Fprintf(h, "%s\x00%d\x00", string([]rune(subject)), received.UnixNano())
	h.Write(data)
	return max(1, h.Sum64()) // 0 is the fingerprint of "nothing applied"
}
