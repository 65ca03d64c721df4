package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

// Waits between attempts after a failure of the disk or the bus.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

var (
	errOpening = errors.New("it is being opened")
	errRemoved = errors.New("its files were removed")
)

// pace is the minimum time from the beginning of one write to the next while
// Appends wait: a transaction costs more than the hits in it, so under load it
// pays to let more hits gather.
const pace = 3 * time.Millisecond

// write runs the writer: it writes waiting hits as soon as an Append waits or
// enough views do, and otherwise when the first view has waited for the flush
// interval. While it writes, the next transaction gathers in the queue.
func (o *Outbox) write() {
	defer close(o.writerDone)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var (
		backoff time.Duration // while writing fails
		last    time.Time     // beginning of the last write
	)
	for {
		select {
		case <-o.queue.wake:
			if backoff == 0 {
				timer.Reset(o.opts.Flush)
			}
			continue
		case job := <-o.jobs:
			job()
			continue
		case <-o.stop:
			return
		case <-o.queue.urgent:
			if d := pace - time.Since(last); d > 0 && backoff == 0 {
				timer.Reset(d)
				continue
			}
		case <-timer.C:
		}
		last = time.Now()
		if err := o.flush(); err != nil {
			backoff = min(max(retryMin, 2*backoff), retryMax)
			timer.Reset(jitter(backoff))
		} else {
			backoff = 0
		}
	}
}

// flush writes waiting hits in one transaction.
func (o *Outbox) flush() error {
	w := o.queue.take()
	batches := o.pack(w.views, w.appended)
	if len(batches) == 0 && !o.unconfirmed && o.diskTrouble.err() == nil {
		o.queue.done(w, false, nil)
		return nil
	}
	err := o.store(batches)
	if err == nil {
		o.unconfirmed = false
		for _, b := range batches {
			o.current[b.shard].written = b.seq
			o.counters.hits.Add(uint64(len(b.hits)))
		}
		if len(batches) > 0 {
			o.counters.batches.Add(uint64(len(batches)))
			o.counters.writes.Add(1)
		}
		o.diskWorks()
		o.announce()
		o.queue.done(w, false, nil)
		return nil
	}
	o.diskFailed(err)
	lost := errors.Is(err, errEncode)
	if lost {
		o.counters.rejected.Add(uint64(len(w.views)))
	} else if !errors.Is(err, ErrFull) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	o.queue.done(w, !lost, err)
	return err
}

// store writes batches to the spool, if it is open. Without batches, it tests
// whether writing works if the last write failed.
func (o *Outbox) store(batches []*batch) error {
	if o.spool == nil {
		return cmp.Or(o.diskTrouble.err(), errOpening)
	}
	if o.spool.isRemoved() {
		if o.restore(); o.spool.isRemoved() {
			return cmp.Or(o.diskTrouble.err(), errRemoved)
		}
	}
	if len(batches) == 0 && o.diskTrouble.err() != nil {
		if err := o.spool.probe(); err != nil {
			return err
		}
	}
	for i, b := range batches {
		if b.rules.IsZero() || i > 0 && b.rules == batches[i-1].rules {
			continue
		}
		if err := o.spool.keepDocument(b.rules, o.registered.text(b.rules)); err != nil {
			return err
		}
	}
	return o.spool.write(batches, time.Now())
}

// pack sorts hits into batches, and begins a new one where the rules change. It
// omits invalid views: the aggregator would reject the whole batch because of one
// of them.
func (o *Outbox) pack(views, appended []hit.Hit) []*batch {
	rejected := 0
	var last hit.RulesID
	known := false
	for i := range o.byShard {
		clear(o.byShard[i])
		o.byShard[i] = o.byShard[i][:0]
	}
	for i := range views {
		if rules := views[i].Rules; i == 0 || rules != last {
			last, known = rules, o.registered.text(rules) != nil
		}
		if !known || views[i].Valid() != nil {
			rejected++
			continue
		}
		o.add(&views[i])
	}
	for i := range appended {
		o.add(&appended[i])
	}
	if rejected > 0 {
		o.counters.rejected.Add(uint64(rejected))
		o.log.Error("dropped invalid views", zap.Int("views", rejected))
	}
	var batches []*batch
	for shard, hits := range o.byShard {
		for len(hits) > 0 {
			n := 1
			for n < min(len(hits), hit.MaxHits) && hits[n].Rules == hits[0].Rules {
				n++
			}
			batches = append(batches, &batch{shard: shard, rules: hits[0].Rules, hits: hits[:n]})
			hits = hits[n:]
		}
	}
	return batches
}

func (o *Outbox) add(h *hit.Hit) {
	shard := hit.Shard(h.Kind, h.List, h.Item, o.opts.Shards)
	o.byShard[shard] = append(o.byShard[shard], *h)
}

// announce reports to the senders which batches are on disk.
func (o *Outbox) announce() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.current {
		if l.sender.last < l.written {
			l.sender.Committed(l.written)
			signal(l.wake)
		}
	}
}

// inWriter runs job in the writer's goroutine and waits for it. It returns false
// if ctx or the writer ended before.
func (o *Outbox) inWriter(ctx context.Context, job func()) bool {
	done := make(chan struct{})
	select {
	case o.jobs <- func() { defer close(done); job() }:
		<-done
		return true
	case <-ctx.Done():
	case <-o.writerDone:
	}
	return false
}

// trim deletes what the senders no longer need.
func (o *Outbox) trim(ctx context.Context) {
	o.mu.Lock()
	now := time.Now()
	lows := make(map[laneID]uint64, len(o.lanes))
	for _, l := range o.lanes {
		lows[l.laneID] = l.sender.Trim(now)
	}
	o.mu.Unlock()
	o.inWriter(ctx, func() {
		if err := o.spool.trim(lows); err != nil {
			o.diskFails(err)
			return
		}
		o.dropRetired()
		if o.queue.faulty() {
			signal(o.queue.urgent) // there may be room now
		}
	})
}

// dropRetired forgets former edge ids with nothing left to send.
func (o *Outbox) dropRetired() {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := map[string]uint64{}
	for _, l := range o.lanes {
		kept[l.edge] += o.spool.count(l.laneID)
	}
	o.lanes = slices.DeleteFunc(slices.Clone(o.lanes), func(l *lane) bool {
		if l.edge == o.edge || kept[l.edge] > 0 {
			return false
		}
		o.spool.forgetLanes(l.edge)
		return true
	})
}

// unreadable handles an unreadable batch: it replaces the batch, because
// otherwise nothing behind it could be sent.
func (o *Outbox) unreadable(ctx context.Context, id laneID, seq uint64) {
	o.inWriter(ctx, func() {
		n, err := o.spool.replace(id, seq)
		if err == nil && n > 0 {
			err = o.spool.reportUnreadable(uint64(n))
			o.lookForFiles()
		}
		if err != nil {
			o.diskFails(err)
		}
	})
}

// diskFails records an error outside of writing hits, and makes the writer test
// at once whether it can write hits.
func (o *Outbox) diskFails(err error) {
	o.diskFailed(err)
	signal(o.queue.urgent)
}
