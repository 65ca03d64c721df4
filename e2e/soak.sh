#!/usr/bin/env bash
# Runs Hotboard under load with reloads and kills for some minutes, 10 by default,
# and prints whether every hit was counted once and what the processes took.
#
#   ./e2e/soak.sh [minutes]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

minutes=${1:-10}
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || {
	echo "e2e/soak.sh: \"$minutes\" is not a number of minutes from 1 to 9999" >&2
	exit 1
}
command -v redis-server >/dev/null || {
	echo "e2e/soak.sh: redis-server is missing; on Debian or Ubuntu: apt-get install redis-server" >&2
	exit 1
}
HOTBOARD_REQUIRE_SERVICES=1 exec go test -count=1 -timeout $((minutes + 10))m -v ./e2e -run '^TestSoak$' -soak "${minutes}m"
