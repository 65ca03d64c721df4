package outbox

import "time"

// Stats is the state of an outbox and its counters since Open.
type Stats struct {
	// QueuedViews and QueuedHits wait in memory for the disk: offered views, and
	// hits in unfinished Appends.
	QueuedViews, QueuedHits int
	// Batches and Bytes are the content of the spool.
	Batches, Bytes int64
	// Unsent batches were not acknowledged by the log since Open; Unapplied ones
	// are not known to be applied.
	Unsent, Unapplied uint64
	// OldestUnapplied is the age in the spool of the oldest unapplied batch.
	OldestUnapplied time.Duration

	// DroppedViews counts views refused by Offer; RejectedHits counts invalid
	// hits.
	DroppedViews, RejectedHits uint64
	// SpooledHits and SpooledBatches were written to disk, in Writes
	// transactions.
	SpooledHits, SpooledBatches, Writes uint64
	// Published counts acknowledged batches, Resent those of them with an earlier
	// acknowledgement, PublishErrors the attempts with unknown outcome.
	Published, Resent, PublishErrors uint64
	// WentBack counts how often an applied position went back.
	WentBack uint64
	// Renewed counts how often the edge took a new id.
	Renewed uint64

	// SpoolError, PublishError and AppliedError are the current errors; nil:
	// none.
	SpoolError, PublishError, AppliedError error
}

// Stats returns the current state. It reads a little from the disk.
func (o *Outbox) Stats() Stats {
	c := &o.counters
	s := Stats{
		RejectedHits:   c.rejected.Load(),
		SpooledHits:    c.hits.Load(),
		SpooledBatches: c.batches.Load(),
		Writes:         c.writes.Load(),
		Published:      c.published.Load(),
		Resent:         c.resent.Load(),
		PublishErrors:  c.failed.Load(),
		WentBack:       c.wentBack.Load(),
		Renewed:        c.renewed.Load(),
		SpoolError:     o.diskTrouble.err(),
	}
	s.QueuedViews, s.QueuedHits, s.DroppedViews = o.queue.depth()

	for _, b := range o.backlogs() {
		s.Unsent += b.unsent
		s.Unapplied += b.batches
		s.OldestUnapplied = max(s.OldestUnapplied, b.oldest)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.run; r != nil {
		s.PublishError, s.AppliedError = r.publishTrouble.err(), r.appliedTrouble.err()
	}
	if o.spool != nil {
		s.Batches, s.Bytes = o.spool.batches.Load(), o.spool.bytes.Load()
	}
	return s
}
