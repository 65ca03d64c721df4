package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

// renew takes a new edge id, because the store has applied more batches of the
// current one than were ever sent from here: the spool was restored from an old
// copy, or a copy of it is in use elsewhere. Under the old id the aggregator
// would skip new hits as applied.
//
// Batches that were never sent move to the new id. The others keep the old one,
// because they may be in the log: sending them under another id could count them
// twice. Of those, the ones that were spooled since Open and have a sequence up
// to the applied position are ambiguous: the aggregator may have taken them for
// the other copy's. Only a copy whose first batches were sent while no
// aggregator answered has any; they are logged.
func (r *run) renew(edge string, applied map[int]uint64) {
	o := r.o
	r.o.inWriter(r.ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.edge != edge {
			return
		}
		sent := make([]uint64, len(o.current))
		var doubtful uint64
		for shard, l := range o.current {
			sent[shard] = l.sender.sent
			if n := min(sent[shard], applied[shard]); n > l.opened {
				doubtful += n - l.opened
			}
		}
		last, err := o.spool.renew(sent)
		if err != nil && !errors.Is(err, errUnsure) {
			o.diskTrouble.fail(err)
			return // the next poll tries again
		}
		o.unconfirmed = err != nil
		now := time.Now()
		for shard, old := range o.current {
			old.sender.Retire()
			old.sender.Applied(applied[shard], now)
			old.written = sent[shard]
			l := newLane(extent{edge: o.spool.edge, shard: shard, low: 1}, NewSender(1, 0, o.timing))
			l.written = last[shard]
			if err == nil {
				l.sender.Committed(l.written)
			}
			o.current[shard] = l
			o.lanes = append(o.lanes, l)
			r.start(l)
		}
		o.edge = o.spool.edge
		o.counters.renewed.Add(1)
		o.log.Error("the aggregator has counted batches under this edge's id that it never sent: the spool is an old copy, or is in use twice; a new id is taken",
			zap.String("old", edge), zap.String("new", o.edge), zap.Uint64("doubtful_batches", doubtful))
		if o.unconfirmed {
			signal(o.queue.urgent)
		}
	})
}

// drop forgets an edge id whose batches are all gone.
func (s *spool) drop(edge string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		err := tx.Bucket([]byte(bucketEdges)).DeleteBucket([]byte(edge))
		if errors.Is(err, bolterrors.ErrBucketNotFound) {
			return nil
		}
		return err
	})
}

// renew takes a new edge id and moves the batches above sent[shard] to it,
// where they are numbered from 1. It returns, for each shard, how many batches
// the new id has. An error other than errUnsure means that nothing changed.
func (s *spool) renew(sent []uint64) (last []uint64, err error) {
	old, edge := s.edge, newEdge()
	last = make([]uint64, s.shards)
	var grown int64
	err = s.update(func(tx *bbolt.Tx) error {
		for shard := range s.shards {
			from, err := shardBucket(tx, old, shard)
			if err != nil {
				return err
			}
			to, err := shardBucket(tx, edge, shard)
			if err != nil {
				return err
			}
			for seq := sent[shard] + 1; seq <= from.Sequence(); seq++ {
				n, err := move(from, to, seq, edge)
				if err != nil {
					return err
				}
				grown += n
			}
			last[shard] = to.Sequence()
			if err := from.SetSequence(sent[shard]); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyEdge), []byte(edge))
	}, func() bool { return s.storedEdge() == edge })
	if err != nil && !errors.Is(err, errUnsure) {
		return nil, fmt.Errorf("taking a new edge id in spool %s: %w", s.path, err)
	}
	s.edge = edge
	s.bytes.Add(grown)
	return last, err
}

func (s *spool) storedEdge() (edge string) {
	_ = s.db.View(func(tx *bbolt.Tx) error {
		edge = string(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyEdge)))
		return nil
	})
	return edge
}

// move gives a batch another edge id and sequence, and returns by how many
// bytes it grew.
func move(from, to *bbolt.Bucket, seq uint64, edge string) (int64, error) {
	value := from.Get(seqKey(seq))
	if len(value) < timeBytes {
		return 0, fmt.Errorf("batch %d is missing", seq)
	}
	b, err := hit.Decode(value[timeBytes:])
	if err != nil {
		return 0, fmt.Errorf("batch %d: %w", seq, err)
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
	before := size(value)
	after, err := put(to, edge, &batch{shard: b.Shard, hits: b.Hits}, at)
	if err != nil {
		return 0, err
	}
	return after - before, from.Delete(seqKey(seq))
}
