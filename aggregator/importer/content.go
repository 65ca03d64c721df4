package importer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
)

// fingerprint returns the hash of a log's content and its number of lines.
// Compressing a log does not change its fingerprint.
func fingerprint(log io.ReadSeeker) (sum [sha256.Size]byte, lines int, err error) {
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return sum, 0, fmt.Errorf("reading the log: %w", err)
	}
	plain := bufio.NewReaderSize(log, 64<<10)
	var src io.Reader = plain
	if magic, err := plain.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if src, err = gzip.NewReader(plain); err != nil {
			return sum, 0, fmt.Errorf("reading the log, which begins like gzip: %w", err)
		}
	}
	h := sha256.New()
	last, buf := byte('\n'), make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			h.Write(buf[:n])
			lines += bytes.Count(buf[:n], []byte{'\n'})
			last = buf[n-1]
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return sum, 0, fmt.Errorf("reading the log: %w", err)
		}
	}
	if last != '\n' {
		lines++
	}
	return [sha256.Size]byte(h.Sum(nil)), lines, nil
}
