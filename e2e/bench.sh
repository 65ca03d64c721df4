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
{
  go test -run xxx -bench 'Serve|Added' -benchmem ./caddymodule
  go test -run xxx -bench MillionKeys -benchtime 1x ./caddymodule/limit
} | grep '^Benchmark' | tee -a "$out" >&2
echo
{
  printf 'what\tmeasured\tagainst, in the same run\tratio\tgoal\n'
  sed -n 's/^BENCH\t//p' "$out"
  # What the module adds to a request in Caddy's handler chain, and what the counts
  # of limits take: NAME ITERATIONS VALUE UNIT VALUE UNIT …
  awk -v OFS='\t' '
    function value(unit,  i) { for (i = 4; i <= NF; i += 2) if ($i == unit) return $(i - 1) }
    /^BenchmarkServe\/stock/ { stock = value("allocs/op") }
    /^BenchmarkServe\/hotboard/ { allocs = value("allocs/op") }
    /^BenchmarkAdded\/hotboard/ { print "a counted view with four limits adds", value("added-ns") " ns, " allocs - stock " allocations", "stock Caddy, " stock " allocations", "-", "<= 2500 ns, <= 8" }
    /^BenchmarkAdded\/uncounted/ { print "an uncounted request adds", value("added-ns") " ns", "stock Caddy", "-", "<= 300 ns" }
    /^BenchmarkMillionKeys/ { split($1, name, "[/-]"); print "a million counts of limits: " name[2], value("MB") " MB", "-", "-", "<= 150 MB" }
  ' "$out"
} | column -t -s "$(printf '\t')"
