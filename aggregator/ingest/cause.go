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

	"github.com/hotboard/hotboard/aggregator/fold"
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

// rulesCause describes missing rules and the remedy.
func rulesCause(err *fold.RulesError) string {
	var who, remedy string
	switch {
	case err.Edge != "":
		who = "under which edge " + err.Edge + " accepted hits,"
		remedy = "start the edge again, which has them on its disk, or add them"
	case err.Seq != 0:
		who = fmt.Sprintf("which message %d puts in force,", err.Seq)
		remedy = "add them"
	default:
		who, remedy = "which are in force,", "add them"
	}
	return fmt.Sprintf("the rules %s, %s cannot be read (%s); until then nothing more is counted: %s with aggregator rules add FILE",
		err.ID, who, cause("NATS", err.Err), remedy)
}

func (w *worker) anonymous(text string) string {
	return strings.ReplaceAll(text, "shard "+w.label, "a shard")
}
