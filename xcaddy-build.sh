#!/usr/bin/env bash
# Builds bin/caddy (Caddy with the module hotboard and the embedded default) and
# bin/aggregator (the daemon) from this tree, and checks that they run.
#
# Caddy is built by xcaddy when it is in PATH, and by go build when not. Both
# take Caddy's version from go.mod and make a static binary.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

module=github.com/hotboard/hotboard
# As xcaddy does it: no symbols, no machine's paths, and without the databases
# of a certificate authority that Hotboard has no use for.
flags=(-trimpath -ldflags '-s -w' -tags 'nobadger,nomysql,nopgx')
export CGO_ENABLED=0

die() {
	printf 'xcaddy-build.sh: %s\n' "$*" >&2
	exit 1
}

command -v go >/dev/null || die "there is no go command in PATH; see https://go.dev/doc/install"

mkdir -p bin
if command -v xcaddy >/dev/null; then
	caddy_version=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
	echo "Building bin/caddy with xcaddy and Caddy $caddy_version"
	# The version pins what no registry has to be asked for. xcaddy would ask for
	# the package below it all the same, were its module not replaced whole.
	xcaddy build "$caddy_version" --output bin/caddy \
		--with "$module@v0.0.0=$PWD" \
		--replace "$module=$PWD" \
		--with "$module/caddymodule/allinone" ||
		die "xcaddy failed; without xcaddy in PATH, go build is used"
else
	echo "Building bin/caddy with go build (there is no xcaddy in PATH)"
	go build "${flags[@]}" -o bin/caddy ./caddymodule/cmd/caddy
fi
echo "Building bin/aggregator"
go build "${flags[@]}" -o bin/aggregator ./aggregator

# Self-check: what was built starts, and has the modules that were asked for.
caddy=$(bin/caddy version) || die "bin/caddy does not start"
modules=$(bin/caddy list-modules) || die "bin/caddy does not list its modules"
aggregator=$(bin/aggregator version) || die "bin/aggregator does not start"
for name in hotboard http.handlers.hotboard hotboard.broker.nats hotboard.broker.embedded; do
	grep -qx -- "$name" <<<"$modules" || die "bin/caddy was built without the module $name"
done
echo "bin/caddy       $caddy"
grep hotboard <<<"$modules" | sed 's/^/                /'
echo "bin/aggregator  $aggregator"
