package outbox

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// openPatience is how long Open waits for the spool.
	openPatience = 3 * time.Second
	// lookEvery is the interval at which the edge searches the directory for
	// files that the operator must inspect.
	lookEvery = 5 * time.Second
)

// open runs the opener: it opens the spool, however long that takes, and then
// watches its directory. It closes tried after the first attempt.
func (o *Outbox) open(tried chan<- struct{}) {
	if !o.openSpool(tried) {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			o.inWriter(context.Background(), func() {
				o.restore()
				o.deleteDocuments()
			})
			o.lookForFiles()
		case <-o.stop:
			return
		}
	}
}

// restore rewrites removed files of the spool. It runs in the writer.
func (o *Outbox) restore() {
	restored, err := o.spool.restore()
	if err != nil {
		o.diskFailed(err)
		signal(o.queue.urgent)
	} else if restored {
		o.log.Error("files of the spool were removed while Caddy runs; nothing is lost, and the edge rewrites them", zap.String("dir", o.spool.dir))
	}
}

// deleteDocuments deletes documents that no batch can name any more. It runs in the
// writer.
func (o *Outbox) deleteDocuments() {
	if err := o.spool.deleteDocuments(o.registered.current()); err != nil {
		o.diskFails(err)
	}
}

func (o *Outbox) openSpool(tried chan<- struct{}) bool {
	backoff := time.Duration(0)
	for {
		s, err := openSpool(o.opts.Dir, o.opts.Shards, o.opts.MaxBytes)
		if err == nil {
			if !o.inWriter(context.Background(), func() { o.adopt(s) }) {
				_ = s.close() // nothing was written to it
			}
			o.lookForFiles()
		} else {
			o.queue.refuse(fmt.Errorf("%w: %w", ErrUnavailable, err))
			o.diskFailed(err)
		}
		if backoff == 0 {
			close(tried)
		}
		if err == nil {
			return true
		}
		backoff = min(max(retryMin, 2*backoff), retryMax)
		select {
		case <-time.After(jitter(backoff)):
		case <-o.stop:
			return false
		}
	}
}

// adopt continues with an opened spool. It runs in the writer.
func (o *Outbox) adopt(s *spool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spool, o.edge = s, s.edge
	for id, c := range s.lanes {
		l := newLane(id, c.end()-1, NewSender(c.low, c.end()-1, o.timing))
		l.sender.Retire()
		o.lanes = append(o.lanes, l)
	}
	for shard := range o.current {
		o.current[shard] = newLane(laneID{s.edge, shard}, 0, NewSender(1, 0, o.timing))
	}
	o.lanes = append(o.lanes, o.current...)
	close(o.opened)
	o.diskWorks()
	o.queue.refuse(nil)
	signal(o.queue.urgent) // views may wait
	o.log.Info("opened the spool", zap.String("dir", s.dir), zap.String("edge", s.edge),
		zap.Int64("batches", s.batches.Load()), zap.Int64("bytes", s.bytes.Load()))
}
