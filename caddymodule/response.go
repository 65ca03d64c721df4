package caddymodule

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// These methods make a view a response writer that notes the status and, with
// debug_header, writes the verdict just before the header.

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

// ReadFrom implements [io.ReaderFrom], which sends files without a copy.
func (v *view) ReadFrom(r io.Reader) (int64, error) {
	v.answers(http.StatusOK)
	return v.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError lets [http.ResponseController] flush.
func (v *view) FlushError() error {
	v.answers(http.StatusOK)
	return http.NewResponseController(v.ResponseWriter).Flush()
}

// Hijack lets [http.ResponseController] take over the connection. The response is
// then no page.
func (v *view) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(v.ResponseWriter).Hijack()
	if err == nil && v.status == 0 {
		v.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// answers records the status of the response, unless it is only informational.
func (v *view) answers(status int) {
	if v.status != 0 || status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	v.status = status
	if v.handler.DebugHeader {
		v.judge()
	}
}
