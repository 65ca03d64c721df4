package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/hotboard/hotboard/hit"
)

// Layout of the spool file. The buckets are
//
//	meta                    format, shards, edge: the current edge id
//	edges / <edge> / <shard>    batch sequence → time spooled, batch
//
// A key is the sequence as 8 bytes, big-endian. A value is 8 bytes of
// milliseconds since the Unix epoch, big-endian, and then the bytes that are
// published. The sequence of a shard's bucket is the last one assigned; it
// outlives the batches, so no sequence is used twice.
const (
	spoolFile   = "outbox.db"
	spoolFormat = "1"

	timeBytes = 8
	// recordBytes is what an entry takes in a page beside its value: a header and
	// the key.
	recordBytes = 16 + 8
	// trimBatches bounds how many batches one transaction deletes.
	trimBatches = 8192

	lockTimeout = 2 * time.Second

	bucketMeta  = "meta"
	bucketEdges = "edges"
	keyFormat   = "format"
	keyShards   = "shards"
	keyEdge     = "edge"
)

// errUnsure means that a transaction failed in its very last step: what it
// wrote can be read, but a power cut may still undo it. The next transaction
// that succeeds settles it.
var errUnsure = errors.New("unknown whether it is on disk")

// errEncode means that hits could not be encoded, and never will be.
var errEncode = errors.New("the batch cannot be encoded")

// spool is the file that holds batches from their acceptance until they were
// applied for a while. Only one goroutine may write; any may read.
type spool struct {
	db     *bbolt.DB
	path   string
	shards int
	edge   string // current edge id; belongs to the writer
	max    int64

	bytes   atomic.Int64 // of the batches held, with their overhead
	batches atomic.Int64

	commit func(*bbolt.Tx) error // (*bbolt.Tx).Commit; tests make it fail
}

// extent is what the spool holds of one edge and shard: batches low to last,
// none when low is last+1.
type extent struct {
	edge      string
	shard     int
	low, last uint64
}

func size(value []byte) int64 { return int64(len(value)) + recordBytes }

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func shardKey(shard int) []byte { return fmt.Appendf(nil, "%04d", shard) }

// batch is hits of one shard on their way to the disk. write sets seq.
type batch struct {
	shard int
	hits  []hit.Hit
	seq   uint64
}

// write stores batches under the current edge id, all of them or none, and
// returns when they are on disk. ErrFull, errEncode and an error of the disk
// mean that none is stored; errUnsure that all are, but for a power cut.
func (s *spool) write(batches []*batch, now time.Time) error {
	var added int64
	var last *batch
	err := s.update(func(tx *bbolt.Tx) error {
		for _, b := range batches {
			bucket, err := shardBucket(tx, s.edge, b.shard)
			if err != nil {
				return err
			}
			n, err := put(bucket, s.edge, b, now)
			if err != nil {
				return err
			}
			added += n
			last = b
		}
		if len(batches) > 0 && s.bytes.Load()+added > s.max {
			return ErrFull
		}
		return nil
	}, func() bool { return last != nil && s.has(s.edge, last.shard, last.seq) })
	if err != nil && !errors.Is(err, errUnsure) {
		return fmt.Errorf("writing to spool %s: %w", s.path, err)
	}
	s.bytes.Add(added)
	s.batches.Add(int64(len(batches)))
	return err
}

// update runs one transaction. If committing fails although done finds its
// outcome in the file, the error is errUnsure.
func (s *spool) update(change func(*bbolt.Tx) error, done func() bool) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	if err := change(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := s.commit(tx); err != nil {
		_ = tx.Rollback() // an error says that Commit did it, which it does not always
		if done() {
			return fmt.Errorf("spool %s: %w: %w", s.path, errUnsure, err)
		}
		return err
	}
	return nil
}

func shardBucket(tx *bbolt.Tx, edge string, shard int) (*bbolt.Bucket, error) {
	b, err := tx.Bucket([]byte(bucketEdges)).CreateBucketIfNotExists([]byte(edge))
	if err != nil {
		return nil, err
	}
	b, err = b.CreateBucketIfNotExists(shardKey(shard))
	if err == nil {
		b.FillPercent = 1 // keys only ever grow
	}
	return b, err
}

// put encodes b under the bucket's next sequence and returns the bytes it takes.
func put(bucket *bbolt.Bucket, edge string, b *batch, now time.Time) (int64, error) {
	seq, err := bucket.NextSequence()
	if err != nil {
		return 0, err
	}
	data, err := hit.Encode(&hit.Batch{Edge: edge, Shard: b.shard, Seq: seq, Hits: b.hits})
	if err != nil {
		return 0, errors.Join(errEncode, err)
	}
	value := make([]byte, timeBytes, timeBytes+len(data))
	binary.BigEndian.PutUint64(value, uint64(now.UnixMilli()))
	value = append(value, data...)
	b.seq = seq
	return size(value), bucket.Put(seqKey(seq), value)
}

// message returns the body of a message with batch from and as many of the
// following ones, up to batch to, as fit into it, and the last of them. It is
// false when batch from is not there.
func (s *spool) message(edge string, shard int, from, to uint64) (data []byte, last uint64, ok bool) {
	to = min(to, from+hit.MaxBatches-1)
	s.view(edge, shard, func(b *bbolt.Bucket) {
		c := b.Cursor()
		seq := from
		for k, v := c.Seek(seqKey(from)); bytes.Equal(k, seqKey(seq)) && len(v) >= timeBytes && seq <= to; k, v = c.Next() {
			v = v[timeBytes:]
			if ok && len(data)+len(v) > hit.MaxBatchBytes {
				break
			}
			data, last, ok = append(data, v...), seq, true // v dies with the transaction
			seq++
		}
	})
	return data, last, ok
}

// spooled returns when a batch was written, or false.
func (s *spool) spooled(edge string, shard int, seq uint64) (at time.Time, ok bool) {
	s.view(edge, shard, func(b *bbolt.Bucket) {
		if v := b.Get(seqKey(seq)); len(v) >= timeBytes {
			at, ok = time.UnixMilli(int64(binary.BigEndian.Uint64(v))), true
		}
	})
	return at, ok
}

func (s *spool) has(edge string, shard int, seq uint64) bool {
	found := false
	s.view(edge, shard, func(b *bbolt.Bucket) { found = b.Get(seqKey(seq)) != nil })
	return found
}

func (s *spool) view(edge string, shard int, read func(*bbolt.Bucket)) {
	// An error can only say that the file is closed: nothing is found then.
	_ = s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(bucketEdges)).Bucket([]byte(edge)); b != nil {
			if b = b.Bucket(shardKey(shard)); b != nil {
				read(b)
			}
		}
		return nil
	})
}

// trim deletes batches first to low-1 of an edge and shard, at most trimBatches
// of them, and returns the lowest that is left.
func (s *spool) trim(edge string, shard int, first, low uint64) (uint64, error) {
	low = min(low, first+trimBatches)
	if first >= low {
		return first, nil
	}
	var freed, count int64
	err := s.update(func(tx *bbolt.Tx) error {
		b, err := shardBucket(tx, edge, shard)
		if err != nil {
			return err
		}
		for seq := first; seq < low; seq++ {
			key := seqKey(seq)
			if v := b.Get(key); v != nil {
				freed += size(v)
				count++
				if err := b.Delete(key); err != nil {
					return err
				}
			}
		}
		return nil
	}, func() bool { return !s.has(edge, shard, first) })
	if err != nil && !errors.Is(err, errUnsure) {
		return first, fmt.Errorf("trimming spool %s: %w", s.path, err)
	}
	s.bytes.Add(-freed)
	s.batches.Add(-count)
	return low, err
}

func (s *spool) close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing spool %s: %w", s.path, err)
	}
	return nil
}
