package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	goodLine  = `83.149.9.216 - - [17/May/2015:12:00:00 +0000] "GET /blog/a HTTP/1.1" 200 1 "-" "x"`
	caddyGood = `{"ts":1431864000,"request":{"remote_ip":"::1","method":"GET","uri":"/c"},"status":200}`
)

// readAll returns the path of every entry and the text of every error, in order.
func readAll(t *testing.T, r *Reader) (got []string, end error) {
	t.Helper()
	for {
		e, err := r.Next()
		var line *LineError
		switch {
		case err == nil:
			got = append(got, fmt.Sprintf("%d %s", r.Line(), e.Path))
		case errors.As(err, &line):
			got = append(got, fmt.Sprintf("%d error", line.Line))
		default:
			return got, err
		}
	}
}

func zip(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxLineBytes+1)
	longGood := goodLine[:len(goodLine)-1] + strings.Repeat("y", 200_000) + `"`
	tests := []struct {
		name, log string
		want      []string
	}{
		{"empty", "", nil},
		{"mixed formats", goodLine + "\n" + caddyGood + "\r\n", []string{"1 /blog/a", "2 /c"}},
		{"no line end at the end", goodLine + "\n" + goodLine, []string{"1 /blog/a", "2 /blog/a"}},
		{"byte order mark and empty lines", "\xef\xbb\xbf" + goodLine + "\n\n  \n" + goodLine + "\n\n", []string{"1 /blog/a", "4 /blog/a"}},
		{"bad line in the middle", goodLine + "\nwhat?\n" + goodLine, []string{"1 /blog/a", "2 error", "3 /blog/a"}},
		{"line that is too long", goodLine + "\n" + long + "\n" + goodLine, []string{"1 /blog/a", "2 error", "3 /blog/a"}},
		{"last line that is too long", goodLine + "\n" + long, []string{"1 /blog/a", "2 error"}},
		{"long line", longGood + "\n" + goodLine, []string{"1 /blog/a", "2 /blog/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, compressed := range []bool{false, true} {
				log := tt.log
				if compressed {
					// Concatenated rotated logs are several gzip streams.
					log = zip(t, log[:len(log)/2]) + zip(t, log[len(log)/2:])
				}
				got, end := readAll(t, NewReader(strings.NewReader(log)))
				if end != io.EOF || fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("compressed %v: %v, %v; want %v", compressed, got, end, tt.want)
				}
			}
			got, end := readAll(t, NewReader(iotest.OneByteReader(strings.NewReader(tt.log))))
			if end != io.EOF || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("byte by byte: %v, %v; want %v", got, end, tt.want)
			}
		})
	}
}

func TestReaderFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	_, end := readAll(t, NewReader(io.MultiReader(strings.NewReader(goodLine+"\n"), iotest.ErrReader(broken))))
	if !errors.Is(end, broken) || !strings.Contains(end.Error(), "after line 1") {
		t.Errorf("failing file: %v", end)
	}
	cut := zip(t, strings.Repeat(goodLine+"\n", 100))
	_, end = readAll(t, NewReader(strings.NewReader(cut[:len(cut)-9])))
	if !errors.Is(end, io.ErrUnexpectedEOF) {
		t.Errorf("gzip that was cut off: %v", end)
	}
	_, end = readAll(t, NewReader(strings.NewReader("\x1f\x8bnot gzip after all")))
	if !errors.Is(end, gzip.ErrHeader) {
		t.Errorf("not gzip: %v", end)
	}
}

// The reader reads all 10,000 lines of the real log of a blog, including the
// truncated one.
func TestRealLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "shared", "data", "semicomplete-access.log")
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the real access log is not in ../shared/data")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	r := NewReader(file)
	clients := make(map[string]bool)
	days := make(map[string]int)
	entries := 0
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries++
		clients[e.IP.String()] = true
		days[e.Time.Format("2006-01-02")]++
		if !strings.HasPrefix(e.Path, "/") || !e.KnowsUserAgent {
			t.Errorf("line %d: %+v", r.Line(), e)
		}
	}
	if entries != 10_000 || len(clients) != 1_753 || len(days) != 4 {
		t.Errorf("%d entries of %d clients on %d days; want 10000 of 1753 on 4", entries, len(clients), len(days))
	}
}

func BenchmarkParse(b *testing.B) {
	line := `83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /blog/geekery/a.html HTTP/1.1" 200 203023 "http://semicomplete.com/" "` + browser + `"`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
