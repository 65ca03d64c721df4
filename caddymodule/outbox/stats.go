package outbox

import "time"

// Stats is the state of an outbox and what it has done since Open.
type Stats struct {
	// QueuedViews and QueuedHits wait in memory for the disk: offered views, and
	// hits whose Append waits.
	QueuedViews, QueuedHits int
	// Batches and Bytes are in the spool.
	Batches, Bytes int64
	// Unsent batches were not acknowledged by the log since Open; Unapplied ones
	// are not known to be in the counts.
	Unsent, Unapplied uint64
	// OldestUnapplied is how long ago the oldest of them was spooled.
	OldestUnapplied time.Duration

	// DroppedViews were refused by Offer; RejectedHits were not valid.
	DroppedViews, RejectedHits uint64
	// SpooledHits and SpooledBatches were written to disk, in Writes transactions.
	SpooledHits, SpooledBatches, Writes uint64
	// Published batches were acknowledged, Resent of them after an earlier
	// acknowledgement. PublishErrors are attempts with unknown outcome.
	Published, Resent, PublishErrors uint64
	// WentBack counts the times an applied position went back.
	WentBack uint64
	// Renewed counts the times a new edge id was taken.
	Renewed uint64

	// SpoolError, PublishError and AppliedError say what fails now; nil: nothing.
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
