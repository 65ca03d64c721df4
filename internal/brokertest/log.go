package brokertest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Logger returns a logger into the output of a test. It drops messages after the
// end of the test, from a timer for example.
func Logger(t testing.TB) *slog.Logger {
	o := &output{w: t.Output()}
	t.Cleanup(o.close)
	return slog.New(slog.NewTextHandler(o, nil))
}

type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
