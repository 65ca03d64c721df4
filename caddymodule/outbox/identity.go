package outbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/datadir"
)

// renew takes a new edge id, because the store has applied more batches of the
// current id than this edge ever sent: another process uses the same id. Each
// process takes its own id, so the other one is a copy of this process: someone
// copied the running machine or restored its snapshot. Under the old id the
// aggregator would skip new hits as applied.
//
// Batches that were never sent move to the new id. The others keep the old one,
// because they may be in the log: under another id they could count twice.
// Batches that the position covers are doubtful: the aggregator may have applied
// the other process's instead. renew writes them to a file, and the operator
// decides whether to count them.
func (r *run) renew(edge string, applied map[int]uint64) {
	o := r.o
	r.o.inWriter(r.ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.edge != edge {
			return
		}
		sent := make([]uint64, len(o.current))
		doubtful := make([]uint64, len(o.current))
		for shard, l := range o.current {
			sent[shard] = l.sender.sent
			doubtful[shard] = min(sent[shard], applied[shard])
		}
		now := time.Now()
		file, err := o.spool.writeDoubtful(doubtful, now)
		var last []uint64
		if err == nil {
			last, err = o.spool.renew(sent, now)
		}
		if err != nil && !errors.Is(err, errUnsure) {
			o.diskFails(err)
			return // the next poll tries again
		}
		o.unconfirmed = err != nil
		for shard, old := range o.current {
			old.sender.Retire()
			old.sender.Applied(applied[shard], now)
			old.written = sent[shard]
			l := newLane(laneID{o.spool.edge, shard}, 0, NewSender(1, 0, o.timing))
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
		o.log.Error("the aggregator has applied batches under this edge's id that this edge never sent: the running machine was copied or restored from a snapshot; the edge takes a new id",
			zap.String("old", edge), zap.String("new", o.edge), zap.String("doubtful", file))
		o.lookForFiles()
		if o.unconfirmed {
			signal(o.queue.urgent)
		}
	})
}

// writeDoubtful writes the batches of the current edge id up to a sequence in
// each shard to a file, as a CBOR sequence. It returns the file's name, or "" if
// there are no such batches.
func (s *spool) writeDoubtful(upTo []uint64, now time.Time) (name string, err error) {
	var ids []laneID
	for shard, last := range upTo {
		id := laneID{s.edge, shard}
		if c := s.lanes[id]; c != nil && len(c.places) > 0 && c.low <= last {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", nil
	}
	name = fmt.Sprintf("doubtful-%s-%s.hits", s.edge, now.UTC().Format("20060102T150405Z"))
	err = s.writeFile(name, func(w io.Writer) error {
		for _, id := range ids {
			for seq := s.lanes[id].low; seq <= upTo[id.shard]; seq++ {
				f, err := s.read(id, seq)
				if err != nil {
					continue // the lane's sender reports it
				}
				if _, err := w.Write(f.data); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("writing doubtful batches to a file: %w", err)
	}
	return name, nil
}

// writeFile writes a file atomically.
func (s *spool) writeFile(name string, write func(io.Writer) error) error {
	path := filepath.Join(s.dir, name)
	temp := filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, datadir.FileMode)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), s.sync(f), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return datadir.Sync(filepath.Dir(path))
}

// renew takes a new edge id and moves the batches above sent[shard] to it,
// numbered from 1. It returns the number of batches of the new id for each shard.
// After an error other than errUnsure nothing has changed.
func (s *spool) renew(sent []uint64, now time.Time) (last []uint64, err error) {
	old, edge := s.edge, newEdge()
	last = make([]uint64, s.shards)
	var lost uint64
	var moving []*batch
	flush := func() error {
		buf, frames, err := s.encode(nil, edge, moving, now)
		if err == nil && len(frames) > 0 {
			err = s.store(buf, frames)
		}
		for _, b := range moving {
			last[b.shard] = b.seq
		}
		moving = nil
		return err
	}
	for shard := range s.shards {
		c := s.lanes[laneID{old, shard}]
		for seq := sent[shard] + 1; err == nil && c != nil && seq < c.end(); seq++ {
			b, unreadable := s.batch(laneID{old, shard}, seq)
			if unreadable != nil {
				lost++
			}
			if moving = append(moving, b); len(moving) == 64 {
				err = flush()
			}
		}
	}
	if err == nil {
		err = flush()
	}
	if err != nil {
		s.forgetLanes(edge)
		return nil, fmt.Errorf("taking a new edge id: %w", err)
	}
	s.mu.Lock()
	for shard := range s.shards {
		c := s.lanes[laneID{old, shard}]
		for c != nil && len(c.places) > 0 && c.end() > sent[shard]+1 {
			s.forget(c.places[len(c.places)-1])
			c.places = c.places[:len(c.places)-1]
		}
	}
	s.mu.Unlock()
	s.edge = edge
	if lost > 0 {
		err = s.reportUnreadable(lost)
	}
	if err = errors.Join(err, s.saveState(true)); err != nil {
		s.unsynced = true
		return last, fmt.Errorf("%w: %w", errUnsure, err)
	}
	return last, nil
}

// batch returns a batch of the spool, or an error and one without hits.
func (s *spool) batch(id laneID, seq uint64) (*batch, error) {
	empty := &batch{shard: id.shard}
	f, err := s.read(id, seq)
	if err != nil {
		return empty, err
	}
	b, err := hit.Decode(f.data)
	if err != nil {
		return empty, err
	}
	return &batch{shard: id.shard, rules: b.Rules, hits: b.Hits}, nil
}
