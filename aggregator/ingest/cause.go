package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// errNotConnected replaces every failure while there is no connection to NATS.
var errNotConnected = errors.New("not connected to NATS")

// cause turns an error into the message of a fault. Shards meet the same trouble at
// different steps; it is one fault only if all report it in the same words.
func cause(what string, err error) string {
	var network *net.OpError
	var number syscall.Errno
	switch {
	case errors.Is(err, errNotConnected):
		return errNotConnected.Error()
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err), errors.As(err, &network) && network.Timeout():
		return what + " does not answer in time"
	case errors.As(err, &network) && errors.As(network, &number):
		return fmt.Sprintf("%s cannot be reached: %v", what, number)
	case errors.Is(err, io.EOF):
		return what + " has closed the connection"
	}
	return err.Error()
}

// storeCause and logCause return the cause without naming the shard.
func (w *worker) storeCause(err error) string { return w.anonymous(cause("the store", err)) }
func (w *worker) logCause(err error) string   { return w.anonymous(cause("NATS", err)) }

func (w *worker) anonymous(text string) string {
	return strings.ReplaceAll(text, "shard "+w.label, "a shard")
}
