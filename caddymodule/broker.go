package caddymodule

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/internal/faults"
)

// Broker is a guest module in the namespace hotboard.broker: it connects an
// edge to the log and to the aggregators.
//
// The app controls its lifetime: it opens the broker when the configuration
// starts and closes it after its outbox. A Broker has no Cleanup of its own,
// because Caddy cleans up modules in random order.
type Broker interface {
	// ShardCount returns the number of shards of the log, without asking any
	// server. The number never changes.
	ShardCount() int
	// Open returns a connection that is or will be established: it does not wait
	// for an unreachable server. Configurations with the same server share one
	// connection.
	Open(BrokerOptions) (*nats.Conn, error)
	// Close releases what Open acquired.
	Close() error
}

// faulty is a Broker with faults of its own, in addition to the edge's.
type faulty interface {
	// Faults returns the current faults. It answers within ctx.
	Faults(ctx context.Context) []faults.Fault
}

// BrokerOptions is the app's configuration of its broker.
type BrokerOptions struct {
	// Dir is the app's data directory.
	Dir string
}

const (
	brokerNamespace = "hotboard.broker"
	embeddedBroker  = brokerNamespace + ".embedded"
)
