package accesslog_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hotboard/hotboard/ruleset/accesslog"
)

// Parse recognises the format of a line by itself.
func ExampleParse() {
	e, err := accesslog.Parse(`203.0.113.9 - - [20/Nov/2026:12:00:00 +0100] "GET /articles/tail-latency?from=home HTTP/1.1" 200 5120 "-" "Mozilla/5.0"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Time, e.IP, e.Method, e.Path, e.Status, e.UserAgent)
	// Output: 2026-11-20 11:00:00 +0000 UTC 203.0.113.9 GET /articles/tail-latency 200 Mozilla/5.0
}

// A log can mix formats. Next goes on after a line that it cannot read.
func ExampleReader_Next() {
	r := accesslog.NewReader(strings.NewReader(`203.0.113.9 - - [20/Nov/2026:12:00:00 +0100] "GET /articles/tail-latency HTTP/1.1" 200 5120
not a request
{"ts":1795172400,"request":{"remote_ip":"2001:db8::7","method":"GET","uri":"/articles/etags"},"status":304}
`))
	for {
		e, err := r.Next()
		var bad *accesslog.LineError
		switch {
		case err == io.EOF:
			return
		case errors.As(err, &bad):
			fmt.Printf("line %d: unreadable\n", bad.Line)
		case err != nil:
			fmt.Println(err)
			return
		default:
			fmt.Printf("line %d: %s from %s, %d\n", r.Line(), e.Path, e.IP, e.Status)
		}
	}
	// Output:
	// line 1: /articles/tail-latency from 203.0.113.9, 200
	// line 2: unreadable
	// line 3: /articles/etags from 2001:db8::7, 304
}
