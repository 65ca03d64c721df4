package caddymodule

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// What follows makes a view the response writer that notes the status, and with
// debug_header writes the verdict when the header is about to be written.

// WriteHeader implements [http.ResponseWriter].
func (v *view) WriteHeader(status int) {
	v.answers(status)
	v.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (v *view) Write(p []byte) (int, error) {
	v.answers(http.StatusOK)
	return v.ResponseWriter.Write(p)
}

// ReadFrom implements [io.ReaderFrom], by which files are sent without a copy.
func (v *view) ReadFrom(r io.Reader) (int64, error) {
	v.answers(http.StatusOK)
	return v.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError is what [http.ResponseController] flushes by.
func (v *view) FlushError() error {
	v.answers(http.StatusOK)
	return http.NewResponseController(v.ResponseWriter).Flush()
}

// Hijack is what [http.ResponseController] hijacks by. What follows is no page.
func (v *view) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(v.ResponseWriter).Hijack()
	if err == nil && v.status == 0 {
		v.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// answers notes the status of the response, unless it is only informational.
func (v *view) answers(status int) {
	if v.status != 0 || status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	v.status = status
	if v.handler.DebugHeader {
		v.judge()
	}
}
