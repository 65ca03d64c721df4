package simulation

import (
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
)

// logModel is the stream.
type logModel struct {
	msgs []fold.Message // ascending by Seq
	next uint64
}

func (l *logModel) append(m fold.Message, now time.Time) {
	m.Seq, m.Received = l.next, now
	m.Data = fmt.Appendf(nil, "%s %d %d", m.Edge, m.BatchSeq, m.LastSeq)
	l.next++
	l.msgs = append(l.msgs, m)
}

func (l *logModel) after(seq uint64, n int) []fold.Message {
	for i, m := range l.msgs {
		if m.Seq > seq {
			return l.msgs[i:min(i+n, len(l.msgs))]
		}
	}
	return nil
}

// has reports whether a position belongs to this log, like the verification of
// ingest.
func (l *logModel) has(p store.Position) bool {
	if p.Seq == 0 || len(l.msgs) > 0 && p.Seq < l.msgs[0].Seq {
		return true // never began, or no longer kept
	}
	for _, m := range l.msgs {
		if m.Seq == p.Seq {
			return fold.Fingerprint(m.Subject, m.Received, m.Data) == p.Fingerprint
		}
	}
	return len(l.msgs) == 0 && p.Seq < l.next // all expired
}

// reaches returns the last applied batch of an edge after reading the log from a
// position on, where applied is the last one before.
func (l *logModel) reaches(p store.Position, edge string, applied uint64) uint64 {
	if !l.has(p) {
		p.Seq = 0
	}
	for _, m := range l.after(p.Seq, len(l.msgs)) {
		if m.Edge == edge && m.BatchSeq <= applied+1 {
			applied = max(applied, m.LastSeq)
		}
	}
	return applied
}

// first returns the lowest batch of an edge from next on, like the search of
// ingest.
func (l *logModel) first(edge string, next uint64) (k fold.InLog) {
	for _, m := range l.msgs {
		if seq := max(m.BatchSeq, next); m.Edge == edge && m.LastSeq >= seq && (k.Batch == 0 || seq < k.Batch) {
			k = fold.InLog{Batch: seq, At: m.Seq, Version: fold.Newer(m.Batches[seq-m.BatchSeq])}
		}
	}
	if k.Batch == 0 { // the log was hurt since the message was read
		return fold.InLog{Batch: next}
	}
	return k
}
