package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hotboard/hotboard/internal/datadir"
)

// segmentBytes is the size at which the next segment begins.
const segmentBytes = 16 << 20

type segment struct {
	path string
	file *os.File
	info os.FileInfo // to detect removal
	size int64
	live int // frames that lanes hold
}

func segmentPath(dir string, number uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.hits", number))
}

// abandon leaves the active segment unchanged: after an error, frames behind the
// last good one are unreliable.
func (s *spool) abandon() {
	a := s.active
	s.active = nil
	if a.live == 0 {
		s.drop(s.next - 1)
		_ = os.Remove(a.path) // otherwise the next trim does it
	}
}

// begin makes a new segment the active one.
func (s *spool) begin() error {
	if err := datadir.Make(s.dir); err != nil {
		return err
	}
	path := segmentPath(s.dir, s.next)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, datadir.FileMode)
	if err != nil {
		return fmt.Errorf("beginning a segment of the spool: %w", err)
	}
	info, err := file.Stat()
	if err = errors.Join(err, datadir.Sync(s.dir)); err != nil {
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	s.mu.Lock()
	s.active = &segment{path: path, file: file, info: info}
	s.segments[s.next] = s.active
	s.mu.Unlock()
	s.next++
	return nil
}

// dead returns the segments without needed frames.
func (s *spool) dead() (numbers []uint32) {
	for n, g := range s.segments {
		if g.live == 0 && (g != s.active || g.size > 0) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func (s *spool) deleteDead() (err error) {
	for _, n := range s.dead() {
		g := s.segments[n]
		s.drop(n)
		if gone := os.Remove(g.path); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("deleting a segment of the spool: %w", gone))
		}
	}
	return err
}

// drop closes a segment without live frames.
func (s *spool) drop(number uint32) {
	s.mu.Lock()
	g := s.segments[number]
	delete(s.segments, number)
	s.mu.Unlock()
	if s.active == g {
		s.active = nil
	}
	_ = g.file.Close() // nothing was written since the last sync
}

// compact keeps the files from growing without bound while one lane stands still
// and others progress: it moves the oldest segment's live frames to the active
// one.
func (s *spool) compact() error {
	var disk int64
	oldest := uint32(0)
	for n, g := range s.segments {
		disk += g.size
		if oldest == 0 || n < oldest {
			oldest = n
		}
	}
	if disk <= 2*s.bytes.Load()+4*s.segmentBytes || s.segments[oldest] == s.active {
		return nil
	}
	if err := s.evacuate(oldest); err != nil {
		return err
	}
	return s.deleteDead()
}

// evacuate copies the live frames of a segment to the active one.
func (s *spool) evacuate(number uint32) error {
	var buf []byte
	var frames []entry
	flush := func() error {
		err := s.store(buf, frames)
		buf, frames = buf[:0], frames[:0]
		return err
	}
	for id, c := range s.lanes {
		for i, at := range c.places {
			if at.segment != number {
				continue
			}
			seq := c.low + uint64(i)
			f, err := s.read(id, seq)
			if err != nil {
				continue // the lane's sender reports it
			}
			var length int
			buf, length = appendFrame(buf, &f)
			frames = append(frames, entry{id, seq, length, at.document})
			if len(buf) >= int(s.segmentBytes/4) {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(frames) == 0 {
		return nil
	}
	return flush()
}
