#!/usr/bin/env bash
# Fuzzes every parser, or those that are named, and prints how many inputs each was given. A crash leaves its input in DIR and ends
# with 1; inputs that reach new code stay in DIR/corpus.
#
# usage: tests/fuzz/campaign.sh [--runs N] [--jobs N] [--seconds N] [--length N] [--seed N]
#        [--output DIR] [TARGET...]
#   --runs N      inputs a target [1000000]
#   --seconds N   a target, which then ends before N inputs [no limit]
#   --jobs N      targets side by side [2]
#   --length N    bytes of an input at most [2048]
#   --seed N      of what is random [1]
#   --output DIR  [out/fuzz]
# First: cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' tests/fuzz/campaign.sh | sed '$d'; }
fail() { echo "campaign: error: $*" >&2; exit 2; }

runs=1000000 seconds=0 jobs=2 length=2048 seed=1 output=out/fuzz targets=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --runs | --seconds | --jobs | --length | --seed | --output) [ $# -ge 2 ] || fail "$1 needs a value"; declare "${1#--}=$2"; shift ;;
    -*) fail "unknown argument '$1' (try --help)" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
known=()
for file in tests/fuzz/*.cpp; do known+=("$(basename "$file" .cpp)"); done
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [ -x "build-fuzz/tests/bin/fuzz_$target" ] ||
    fail "no build-fuzz/tests/bin/fuzz_$target (there are: ${known[*]}): cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers"
done

# shellcheck disable=SC2317  # xargs calls it
fuzz_one() {  # TARGET
  mkdir -p "$output/corpus/$1"
  "build-fuzz/tests/bin/fuzz_$1" -runs="$runs" -max_total_time="$seconds" -max_len="$length" -seed="$seed" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$output/$1-" "$output/corpus/$1" "tests/fuzz/corpus/$1" >"$output/$1.log" 2>&1
}
export -f fuzz_one
export runs seconds length seed output
mkdir -p "$output"
code=0
printf '%s\0' "${targets[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'fuzz_one {}' || code=1
total=0
printf '%-20s %12s %10s  %s\n' target inputs coverage end
for target in "${targets[@]}"; do
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$output/$target.log")
  coverage=$(grep -o 'cov: [0-9]*' "$output/$target.log" | tail -1 | cut -d' ' -f2)
  end=$(grep -m1 -o 'ERROR: .*\|fuzz: .*' "$output/$target.log" || echo "no crash")
  printf '%-20s %12s %10s  %s\n' "$target" "${inputs:-0}" "${coverage:-0}" "$end"
  total=$((total + ${inputs:-0}))
done
printf '%-20s %12s\n' total $total
exit $code
