// Command caddy is Caddy with Hotboard and its embedded default: the edge, the
// broker and the aggregator in one process.
//
//	go run ./caddymodule/cmd/caddy run --config caddyfile-examples/quickstart/Caddyfile
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hotboard/hotboard/caddymodule"
	_ "github.com/hotboard/hotboard/caddymodule/allinone"
)

func main() { caddycmd.Main() }
