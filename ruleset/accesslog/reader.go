package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes is the length of the longest line that a Reader accepts.
const MaxLineBytes = 1 << 20

// ErrLineTooLong reports a line longer than MaxLineBytes.
var ErrLineTooLong = fmt.Errorf("line longer than %d bytes", MaxLineBytes)

// LineError is the error of an unreadable line. The reader can go on after it.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads the entries of a log. Lines may differ in format. A Reader
// recognises a log compressed with gzip.
type Reader struct {
	src   io.Reader
	lines *bufio.Reader // nil before the first line
	line  int
}

// NewReader returns a Reader of the log in r.
func NewReader(r io.Reader) *Reader { return &Reader{src: r} }

// Line returns the number of the line that Next read last, from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next entry and skips empty lines. Its error is [io.EOF] after
// the last one, a [*LineError] for an unreadable line, after which the caller can
// call Next again, or an error of the file, which is final.
func (r *Reader) Next() (Entry, error) {
	if r.lines == nil {
		if err := r.open(); err != nil {
			return Entry{}, err
		}
	}
	for {
		line, err := r.readLine()
		switch {
		case errors.Is(err, ErrLineTooLong):
			return Entry{}, &LineError{r.line, err}
		case err == io.EOF:
			return Entry{}, io.EOF
		case err != nil:
			return Entry{}, fmt.Errorf("reading the log after line %d: %w", r.line, err)
		}
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		e, err := Parse(string(line))
		if err != nil {
			return Entry{}, &LineError{r.line, err}
		}
		return e, nil
	}
}

func (r *Reader) open() error {
	lines := bufio.NewReaderSize(r.src, 64<<10)
	magic, err := lines.Peek(2)
	if err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("reading the log, which begins like gzip: %w", err)
		}
		lines = bufio.NewReaderSize(z, 64<<10)
	}
	r.lines = lines
	return nil
}

// readLine returns the next line, which is valid until the next call. It skips
// the rest of a line over the limit. It returns io.EOF only if there is no line.
func (r *Reader) readLine() ([]byte, error) {
	var long []byte // the part so far of a line that did not fit into the buffer
	tooLong := false
	for first := true; ; first = false {
		part, err := r.lines.ReadSlice('\n')
		if first && (len(part) > 0 || err == nil) {
			r.line++
		}
		if !tooLong && len(long)+len(part) > MaxLineBytes+1 {
			tooLong, long = true, nil
		}
		switch {
		case err == bufio.ErrBufferFull:
			if !tooLong {
				long = append(long, part...)
			}
		case err == io.EOF && first && len(part) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		case tooLong:
			return nil, ErrLineTooLong
		case long == nil:
			return part, nil
		default:
			return append(long, part...), nil
		}
	}
}
