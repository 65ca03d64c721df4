#!/usr/bin/env bash
# Runs every check and test of Hotboard, with nothing left out: formatting,
# vet, static analysis, the build, and all tests with the race detector, against
# a real redis-server, nats-server and Chromium, and on public lists of bots and
# browsers.
#
# What the tests need beside Go is installed when this runs as root on Debian or
# Ubuntu, and named otherwise. The servers are started by the tests themselves,
# on free ports and in directories of their own.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

die() {
	printf 'e2e/test.sh: %s\n' "$*" >&2
	exit 1
}

# need COMMAND PACKAGE notes a package that is missing.
packages=()
need() {
	command -v "$1" >/dev/null || packages+=("$2")
}

install_packages() {
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		die "missing: ${packages[*]} (names of Debian packages). Install them, for example: sudo apt-get install ${packages[*]}"
	fi
	echo "Installing ${packages[*]}"
	# The package starts and enables a Redis that nobody asked for.
	local policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq || die "apt-get update failed; is there a network?"
	if [[ " ${packages[*]} " == *" chromium "* ]] && ! apt-cache show chromium >/dev/null 2>&1; then
		die "this release has Chromium only as a snap: install Google Chrome or Chromium yourself, and run this again"
	fi
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
		die "apt-get could not install ${packages[*]}"
	if [[ " ${packages[*]} " == *" redis-server "* ]] && [[ -d /run/systemd/system ]]; then
		systemctl disable --quiet redis-server
	fi
}

command -v go >/dev/null || die "there is no go command in PATH; see https://go.dev/doc/install"
need redis-server redis-server
# Any of the names that the tests look for.
command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || need chromium chromium
# The lists of User-Agents that the rules for bots are held to come from npm.
need npm npm
# The race detector is linked with cgo.
need gcc gcc
if command -v apt-get >/dev/null && [[ ! -e /usr/include/stdlib.h ]]; then
	packages+=(libc6-dev)
fi
if ((${#packages[@]} > 0)); then
	install_packages
fi

# A server that is missing is an error, and not a skipped test.
export HOTBOARD_REQUIRE_SERVICES=1

summary=()
failed=0

# step NAME COMMAND… runs one step; all of them run, whatever fails.
step() {
	local name=$1 begin=$SECONDS result=ok
	shift
	printf '\n== %s\n' "$name"
	if ! "$@"; then
		result=FAILED
		failed=1
	fi
	summary+=("$(printf '%-6s %5d s  %s' "$result" $((SECONDS - begin)) "$name")")
}

formatted() {
	local files
	files=$(gofmt -l .) || return 1
	[[ -z $files ]] && return
	printf 'not formatted: %s\n' "$files"
	return 1
}

step "gofmt" formatted
step "go vet" go vet ./...
step "staticcheck" go tool staticcheck ./...
step "build" ./xcaddy-build.sh
# The race detector would make the many histories ten times slower; a few of
# them run with it below.
step "simulation of 100,000 histories" go test -count=1 -v ./e2e/simulation -run 'ExactlyOnce|Silently' -seeds 100000
step "go test -race" env CGO_ENABLED=1 go test -race -timeout 18m -skip '^TestKills$' ./...
# By itself, because what it prints is a result.
step "kill -9 of real processes" env CGO_ENABLED=1 go test -race -count=1 -v ./e2e -run '^TestKills$'

printf '\n== Summary\n'
printf '%s\n' "${summary[@]}"
if ((failed)); then
	echo "Some steps failed; what they printed is above."
	exit 1
fi
echo "All passed in $SECONDS s."
