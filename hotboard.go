// Package hotboard counts what people read, at the edge, and answers "what is
// hot?".
//
// Importing it adds Hotboard to a Caddy server, which is what
//
//	xcaddy build --with github.com/hotboard/hotboard
//
// does. That Caddy sends what it counts to NATS JetStream, where aggregators
// read it. For the broker and the aggregator in the same process, add
//
//	--with github.com/hotboard/hotboard/caddymodule/allinone
//
// docs/architecture.md shows the way of a hit.
package hotboard

import _ "github.com/hotboard/hotboard/caddymodule" // the Caddy modules
