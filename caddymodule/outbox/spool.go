package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hotboard/hotboard/hit"
)

var (
	// errUnsure means that a change is visible in the files, but a power cut may
	// still undo it. The next successful write settles it.
	errUnsure = errors.New("unknown whether it is on disk")
	// errEncode means that hits can never be encoded.
	errEncode = errors.New("the batch cannot be encoded")
	// errMissing means that the spool does not have a batch.
	errMissing = errors.New("a batch is missing in the spool")
	// errUnreadable means that the disk returns a batch with other content than
	// was written.
	errUnreadable = errors.New("a batch of the spool cannot be read")
)

// spool is the directory that holds batches from their acceptance until some time
// after they were applied:
//
//	lock           locked by the process that has the spool
//	state.0        what the segments hold, see [state]
//	state.1        the same before or after
//	rules/         the documents of rules that batches name, as <id>.json
//	00000001.hits  a segment of frames, see [frame]
//	00000002.hits  the next, …
//
// Every process begins a new segment and takes a new edge id, and never writes
// into segments or under ids of earlier processes. So the directory can be copied
// or restored from a backup: all copies have the same batches under the same ids
// and sequences, and other batches under different ones. The spool deletes a
// segment once it needs nothing in it.
//
// The positions of batches are in memory. Only one goroutine may write; any may
// read.
type spool struct {
	dir    string
	shards int
	max    int64 // of bytes
	lock   *dirLock
	state  [2]*os.File

	// Owned by the writer.
	generation uint64   // of the state
	edge       string   // current edge id
	active     *segment // the segment being written; nil: begin a new one
	next       uint32   // number of the next segment
	unsynced   bool     // the state on disk may be older than something that relies on it
	buf        []byte   // scratch
	damage     damage   // found on opening
	unreadable uint64   // batches that became unreadable since

	mu        sync.RWMutex // guards the fields below; the writer may read without
	lanes     map[laneID]*contents
	segments  map[uint32]*segment
	documents documents

	bytes, batches atomic.Int64 // of the held batches

	// For tests.
	sync         func(*os.File) error // (*os.File).Sync
	segmentBytes int64
}

// contents describes the batches of a lane in the spool: low, low+1, ….
type contents struct {
	low    uint64
	places []place
}

// end is the sequence after the last one.
func (c *contents) end() uint64 { return c.low + uint64(len(c.places)) }

// place is the position of a frame, and the number of the document that its batch
// names.
type place struct{ segment, offset, length, document uint32 }

// batch holds hits of one shard, accepted under the same rules, on their way to
// the disk. write sets seq.
type batch struct {
	shard int
	rules hit.RulesID
	hits  []hit.Hit
	seq   uint64
}

// entry is a frame in a buffer that is about to be written.
type entry struct {
	id       laneID
	seq      uint64
	length   int
	document uint32
}

// write stores batches of the current edge id atomically, and returns when they
// are on disk. The documents that they name must be there already. After an error
// none is stored.
func (s *spool) write(batches []*batch, now time.Time) error {
	if s.unsynced {
		if err := s.saveState(true); err != nil {
			return err
		}
		s.unsynced = false
	}
	if len(batches) == 0 {
		return nil
	}
	buf, frames, err := s.encode(s.buf[:0], s.edge, batches, now)
	s.buf = buf
	if err != nil {
		return err
	}
	if s.bytes.Load()+int64(len(buf)) > s.max {
		return fmt.Errorf("%w: it has %d of %d bytes", ErrFull, s.bytes.Load(), s.max)
	}
	if err := s.store(buf, frames); err != nil {
		return err
	}
	// Only a hint for the next process; callers that need more save it again.
	_ = s.saveState(false)
	return nil
}

// encode numbers batches of an edge and appends their frames to buf.
func (s *spool) encode(buf []byte, edge string, batches []*batch, now time.Time) ([]byte, []entry, error) {
	frames := make([]entry, 0, len(batches))
	ends := map[int]uint64{}
	for _, b := range batches {
		id := laneID{edge, b.shard}
		if ends[b.shard] == 0 {
			ends[b.shard] = 1
			if c := s.lanes[id]; c != nil {
				ends[b.shard] = c.end()
			}
		}
		b.seq = ends[b.shard]
		ends[b.shard]++
		data, err := hit.Encode(&hit.Batch{Edge: edge, Shard: b.shard, Seq: b.seq, Rules: b.rules, Hits: b.hits})
		if err != nil {
			return buf, nil, errors.Join(errEncode, err)
		}
		var length int
		buf, length = appendFrame(buf, &frame{laneID: id, seq: b.seq, at: now, data: data})
		frames = append(frames, entry{id, b.seq, length, s.number(b.rules)})
	}
	return buf, frames, nil
}

// store writes frames and records their positions: each frame is the next of its
// lane, or replaces an earlier one. After an error none is stored.
func (s *spool) store(buf []byte, frames []entry) error {
	if s.active == nil || s.active.size >= s.segmentBytes {
		if err := s.begin(); err != nil {
			return err
		}
	}
	a := s.active
	_, err := a.file.WriteAt(buf, a.size)
	if err == nil {
		err = s.sync(a.file)
	}
	if err != nil {
		if cut := a.file.Truncate(a.size); cut != nil || !errors.Is(err, syscall.ENOSPC) {
			s.abandon()
		}
		return fmt.Errorf("writing to the spool: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.next - 1
	offset := a.size
	for _, f := range frames {
		s.put(f.id, f.seq, place{number, uint32(offset), uint32(f.length), f.document})
		offset += int64(f.length)
	}
	a.size = offset
	return nil
}

// put records the position of a batch. The caller holds mu.
func (s *spool) put(id laneID, seq uint64, at place) {
	c := s.lanes[id]
	if c == nil {
		c = &contents{low: seq}
		s.lanes[id] = c
	}
	s.segments[at.segment].live++
	s.documents.all[at.document].live++
	s.bytes.Add(int64(at.length))
	if seq == c.end() {
		c.places = append(c.places, at)
		s.batches.Add(1)
		return
	}
	s.forget(c.places[seq-c.low])
	c.places[seq-c.low] = at
	s.batches.Add(1)
}

// forget marks a frame as no longer needed. The caller holds mu.
func (s *spool) forget(at place) {
	if at.segment == 0 {
		return // a missing batch
	}
	s.batches.Add(-1)
	s.bytes.Add(-int64(at.length))
	s.segments[at.segment].live--
	s.documents.all[at.document].live--
}

// forgetLanes marks all frames of an edge id as no longer needed.
func (s *spool) forgetLanes(edge string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.lanes {
		if id.edge == edge {
			for _, at := range c.places {
				s.forget(at)
			}
			delete(s.lanes, id)
		}
	}
}

// read returns a frame of the spool, or errMissing or errUnreadable. The caller
// holds mu.
func (s *spool) read(id laneID, seq uint64) (frame, error) {
	c := s.lanes[id]
	if c == nil || seq < c.low || seq >= c.end() {
		return frame{}, errMissing
	}
	at := c.places[seq-c.low]
	buf := make([]byte, at.length)
	if _, err := s.segments[at.segment].file.ReadAt(buf, int64(at.offset)); err != nil {
		return frame{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	f, _, ok := parseFrame(buf)
	if !ok || f.laneID != id || f.seq != seq {
		return frame{}, errUnreadable
	}
	return f, nil
}

// message returns the body of a message with batch from and as many of the
// following ones, up to batch to, as fit into it, and the last of them.
func (s *spool) message(id laneID, from, to uint64) (data []byte, last uint64, err error) {
	to = min(to, from+hit.MaxBatches-1)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for seq := from; seq <= to; seq++ {
		f, err := s.read(id, seq)
		switch {
		case err != nil && seq == from:
			return nil, 0, err
		case err != nil || seq > from && len(data)+len(f.data) > hit.MaxBatchBytes:
			return data, last, nil
		case seq == from:
			data = f.data
		default:
			data = append(data, f.data...)
		}
		last = seq
	}
	return data, last, nil
}

// spooled returns the time when a batch was written, or false.
func (s *spool) spooled(id laneID, seq uint64) (at time.Time, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.lanes[id]
	if c == nil || seq < c.low || seq >= c.end() {
		return at, false
	}
	p := c.places[seq-c.low]
	var ms [8]byte
	if _, err := s.segments[p.segment].file.ReadAt(ms[:], int64(p.offset)+frameHead); err != nil {
		return at, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))), true
}

// trim forgets the batches below the lows, and deletes segments without needed
// frames.
func (s *spool) trim(lows map[laneID]uint64) error {
	trimmed := false
	s.mu.Lock()
	for id, low := range lows {
		c := s.lanes[id]
		if c == nil || low <= c.low {
			continue
		}
		n := min(low, c.end()) - c.low
		for _, at := range c.places[:n] {
			s.forget(at)
		}
		c.low += n
		if c.places = c.places[n:]; cap(c.places) > 4*len(c.places) {
			c.places = slices.Clone(c.places)
		}
		trimmed = trimmed || n > 0
	}
	s.mu.Unlock()
	if !trimmed {
		return nil
	}
	if len(s.dead()) == 0 {
		return errors.Join(s.saveState(false), s.compact())
	}
	// The state must be on disk first: otherwise a power cut would make the rest
	// look lost. On a full disk, the space matters more.
	err := s.saveState(true)
	err = errors.Join(err, s.deleteDead())
	if err != nil {
		err = s.saveState(true)
	}
	return errors.Join(err, s.compact())
}

// count returns the number of batches of a lane.
func (s *spool) count(id laneID) uint64 {
	if c := s.lanes[id]; c != nil {
		return uint64(len(c.places))
	}
	return 0
}

// probe returns nil, or the reason why hits cannot be written. It tests the disk.
func (s *spool) probe() error {
	if s.bytes.Load() >= s.max {
		return fmt.Errorf("%w: it has %d of %d bytes", ErrFull, s.bytes.Load(), s.max)
	}
	const block = 64 << 10
	err := s.writeFile("probe", func(w io.Writer) error {
		_, err := w.Write(make([]byte, block))
		return err
	})
	if err == nil {
		err = os.Remove(filepath.Join(s.dir, "probe"))
	}
	return err
}

// replace replaces unreadable batches from seq on by batches without hits, so
// that the ones behind them can be sent. It checks only a few, and returns the
// number of replaced batches.
func (s *spool) replace(id laneID, seq uint64) (replaced int, err error) {
	var buf []byte
	var frames []entry
	for end := seq + 1024; seq < end; seq++ {
		_, err := s.read(id, seq)
		if errors.Is(err, errMissing) {
			break
		}
		if err == nil {
			continue
		}
		if buf, frames, err = appendEmpty(buf, frames, id, seq); err != nil {
			return 0, err
		}
	}
	if len(frames) == 0 {
		return 0, nil
	}
	return len(frames), s.store(buf, frames)
}

func appendEmpty(buf []byte, frames []entry, id laneID, seq uint64) ([]byte, []entry, error) {
	data, err := hit.Encode(&hit.Batch{Edge: id.edge, Shard: id.shard, Seq: seq})
	if err != nil {
		return buf, frames, err
	}
	buf, length := appendFrame(buf, &frame{laneID: id, seq: seq, at: time.Now(), data: data})
	return buf, append(frames, entry{id: id, seq: seq, length: length}), nil
}

// close saves the state and releases the directory.
func (s *spool) close() error {
	errs := []error{s.saveState(true), s.state[0].Close(), s.state[1].Close()}
	for _, g := range s.segments {
		errs = append(errs, g.file.Close())
	}
	errs = append(errs, s.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the spool %s: %w", s.dir, err)
	}
	return nil
}
