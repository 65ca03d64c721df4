#!/usr/bin/env bash
# Measures the speeds and sizes that docs/performance.md states, and prints them
# as a table of ratios, all from one run. Needs redis-server and wrk.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in go redis-server wrk column; do
  command -v "$tool" >/dev/null || {
    echo "bench.sh: $tool is missing; on Debian or Ubuntu: apt-get install redis-server wrk bsdextrautils" >&2
    exit 1
  }
done

out=$(mktemp)
trap 'rm -f "$out"' EXIT
HOTBOARD_REQUIRE_SERVICES=1 go test -count=1 -timeout 20m -v ./e2e/bench -measure | tee "$out" >&2
echo
{
  printf 'what\tmeasured\tagainst, in the same run\tratio\tgoal\n'
  sed -n 's/^BENCH\t//p' "$out"
} | column -t -s "$(printf '\t')"
