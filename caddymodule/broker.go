package caddymodule

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// Broker is a guest module in the namespace hotboard.broker: it connects an
// edge to the log and to the aggregators.
//
// Its life is the app's: the app opens it when the configuration starts and
// closes it after its outbox. A Broker has no Cleanup of its own, because Caddy
// cleans modules up in random order.
type Broker interface {
	// ShardCount returns how many shards the log has. It is chosen once for a
	// log, and known without asking anyone.
	ShardCount() int
	// Open returns a connection that is up or will be: it does not wait for a
	// server that cannot be reached. Configurations that mean the same server
	// share one connection.
	Open(BrokerOptions) (*nats.Conn, error)
	// Close gives back what Open acquired.
	Close() error
}

// faulty is a Broker that has faults of its own, beside those of the edge.
type faulty interface {
	// Faults returns what is wrong now. It answers within ctx.
	Faults(ctx context.Context) []faults.Fault
}

// BrokerOptions is what an app tells its broker.
type BrokerOptions struct {
	// Dir is the app's data directory.
	Dir string
	// Rules are what an aggregator inside this process counts by.
	Rules *ruleset.Ruleset
}

const (
	brokerNamespace = "hotboard.broker"
	embeddedBroker  = brokerNamespace + ".embedded"
)
