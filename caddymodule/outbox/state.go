package outbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/hotboard/hotboard/internal/datadir"
)

// spoolFormat is the version of the files of a spool.
const spoolFormat = 2

// state describes the content of the segments. The spool writes it in place after
// each change of them, and the next process compares the segments with it to
// detect missing batches. It is never ahead of the segments. It may be behind: so
// frames of the current edge id count even if the state lacks them; frames of
// former ids do not.
type state struct {
	// Generation counts the writes of the state. They alternate between two
	// files, so that an interrupted write leaves the previous state.
	Generation uint64 `json:"generation"`

	Format int    `json:"format"`
	Shards int    `json:"shards"`
	Edge   string `json:"edge"` // current edge id
	// Lanes has the shard, the lowest and the highest batch of each lane, by edge
	// id. An empty lane has a highest batch below its lowest.
	Lanes map[string][][3]uint64 `json:"lanes"`
}

// lanes returns the lowest and highest batch of each lane.
func (st *state) lanes() map[laneID][2]uint64 {
	lanes := map[laneID][2]uint64{}
	for edge, shards := range st.Lanes {
		for _, l := range shards {
			lanes[laneID{edge, int(l[0])}] = [2]uint64{l[1], l[2]}
		}
	}
	return lanes
}

// The state files are frames around JSON: magic, length and checksum. Any bytes
// after the frame are left from a longer state or reserved.
const (
	stateMagic = "HBst"
	// stateRoom is allocated at the beginning, so that a full disk has room for
	// it.
	stateRoom = 32 << 10
)

func stateFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("state.%d", n)) }

// openState opens or creates the state files and returns the state; nil if they
// are new or unreadable.
func (s *spool) openState() (newest *state, err error) {
	for i := range s.state {
		f, err := os.OpenFile(stateFile(s.dir, i), os.O_RDWR|os.O_CREATE, datadir.FileMode)
		if err != nil {
			return nil, fmt.Errorf("opening the state of the spool: %w", err)
		}
		s.state[i] = f
		data, err := io.ReadAll(io.LimitReader(f, 256<<20))
		if err == nil && len(data) < stateRoom {
			_, _ = f.WriteAt(make([]byte, stateRoom-len(data)), int64(len(data))) // otherwise it grows on demand
		}
		if st := parseState(data); st != nil && (newest == nil || st.Generation > newest.Generation) {
			newest = st
		}
	}
	switch {
	case newest == nil:
		return nil, nil
	case newest.Format != spoolFormat:
		return nil, fmt.Errorf("the spool %s has format %d, and this build reads %d: let the build that wrote it send everything, then delete the directory", s.dir, newest.Format, spoolFormat)
	case newest.Shards != s.shards:
		return nil, fmt.Errorf("the spool %s was made for %d shards, not %d: %s", s.dir, newest.Shards, s.shards, otherShards)
	}
	s.generation = newest.Generation
	return newest, nil
}

func parseState(data []byte) *state {
	if len(data) < frameHead || string(data[:4]) != stateMagic {
		return nil
	}
	n := int64(binary.BigEndian.Uint32(data[4:]))
	if n > int64(len(data)-frameHead) {
		return nil
	}
	body := data[frameHead : frameHead+n]
	st := &state{}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[8:]) || json.Unmarshal(body, st) != nil {
		return nil
	}
	return st
}

const otherShards = "the number is chosen once for a log. To join another log, let this spool send everything, then delete the directory"

// saveState writes the state: into the older of the files, or durably, into both
// and to the disk.
func (s *spool) saveState(durably bool) error {
	st := state{Format: spoolFormat, Shards: s.shards, Edge: s.edge, Lanes: map[string][][3]uint64{}}
	for id, c := range s.lanes {
		st.Lanes[id.edge] = append(st.Lanes[id.edge], [3]uint64{uint64(id.shard), c.low, c.end() - 1})
	}
	files := 1
	if durably {
		files = len(s.state)
	}
	for range files {
		s.generation++
		st.Generation = s.generation
		body, err := json.Marshal(st)
		if err != nil {
			return err
		}
		buf := append(make([]byte, 0, frameHead+len(body)), stateMagic...)
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
		buf = binary.BigEndian.AppendUint32(buf, crc32.Checksum(body, castagnoli))
		buf = append(buf, body...)
		f := s.state[s.generation%uint64(len(s.state))]
		_, err = f.WriteAt(buf, 0)
		if err == nil && durably {
			err = s.sync(f)
		}
		if err != nil {
			return fmt.Errorf("writing the state of the spool: %w", err)
		}
	}
	return nil
}
