package outbox

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// A segment is a file of consecutive frames. A frame is one batch:
//
//	magic      4 bytes
//	length     4 bytes, of what follows the checksum
//	checksum   4 bytes, CRC-32C of what follows
//	time       8 bytes, when the batch was spooled, in milliseconds since the Unix epoch
//	sequence   8 bytes
//	shard      2 bytes
//	edge       1 byte with its length, and the edge's id
//	batch      the bytes that are published
//
// Numbers are big-endian. A frame identifies its batch and has its own checksum,
// so damage to a segment affects only the damaged frames, and a frame may appear
// in any segment, more than once. The magic has a byte that no list, item or
// channel can contain, so visitors cannot send data that looks like a frame.
const (
	frameMagic = "HBs\x02"
	// frameHead is the part without a checksum, frameFixed the part between it
	// and the edge.
	frameHead  = 4 + 4 + 4
	frameFixed = 8 + 8 + 2 + 1
	// maxFrame is the maximum length of a frame after its checksum.
	maxFrame = frameFixed + 255 + hit.MaxBatchBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// laneID identifies the batches of one edge id for one shard.
type laneID struct {
	edge  string
	shard int
}

type frame struct {
	laneID
	seq  uint64
	at   time.Time
	data []byte // the batch in its published form
}

// appendFrame appends f to buf and returns the result and the size of f.
func appendFrame(buf []byte, f *frame) (_ []byte, length int) {
	begin := len(buf)
	buf = append(buf, frameMagic...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(frameFixed+len(f.edge)+len(f.data)))
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.BigEndian.AppendUint64(buf, uint64(f.at.UnixMilli()))
	buf = binary.BigEndian.AppendUint64(buf, f.seq)
	buf = binary.BigEndian.AppendUint16(buf, uint16(f.shard))
	buf = append(buf, byte(len(f.edge)))
	buf = append(buf, f.edge...)
	buf = append(buf, f.data...)
	binary.BigEndian.PutUint32(buf[begin+8:], crc32.Checksum(buf[begin+frameHead:], castagnoli))
	return buf, len(buf) - begin
}

// parseFrame reads the frame at the beginning of buf and returns its size. The
// frame's data is part of buf.
func parseFrame(buf []byte) (f frame, length int, ok bool) {
	if len(buf) < frameHead+frameFixed || string(buf[:4]) != frameMagic {
		return f, 0, false
	}
	n := int(binary.BigEndian.Uint32(buf[4:]))
	if n < frameFixed || n > maxFrame || n > len(buf)-frameHead {
		return f, 0, false
	}
	body := buf[frameHead : frameHead+n]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(buf[8:]) {
		return f, 0, false
	}
	f.at = time.UnixMilli(int64(binary.BigEndian.Uint64(body)))
	f.seq = binary.BigEndian.Uint64(body[8:])
	f.shard = int(binary.BigEndian.Uint16(body[16:]))
	edge := int(body[18])
	if edge > n-frameFixed {
		return f, 0, false
	}
	f.edge = string(body[frameFixed : frameFixed+edge])
	f.data = body[frameFixed+edge:]
	return f, frameHead + n, f.seq > 0 && f.shard < hit.MaxShards && hit.ValidEdge(f.edge)
}

// parseFrames calls each for every frame in buf with its offset and size. It
// skips other data; bad is the first offset of such data, or len(buf).
func parseFrames(buf []byte, each func(f frame, offset, length int)) (bad int) {
	bad = len(buf)
	for offset := 0; offset < len(buf); {
		if f, length, ok := parseFrame(buf[offset:]); ok {
			each(f, offset, length)
			offset += length
			continue
		}
		bad = min(bad, offset)
		next := bytes.Index(buf[offset+1:], []byte(frameMagic))
		if next < 0 {
			break
		}
		offset += 1 + next
	}
	return bad
}
