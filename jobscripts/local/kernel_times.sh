#!/usr/bin/env bash
# Times every kernel of training steps of one GPT shape, and makes a table of them beside the least time that each
# operation needs (zpp-validate kernel-table). The run is made twice, without the recording library and with it, so
# that the table says what recording costs. Keeps tables and summaries in results/MACHINE/kernels/, and what was
# recorded, a file a rank, in out/kernel_times/.
#
# usage: jobscripts/local/kernel_times.sh [OPTION...] [-- FLAG...]
#   --gpus N         ranks, a GPU each [all that nvidia-smi lists]
#   --shape S        1.64b, 6.86b, 9.4b, 18.7b, tiny [1.64b]
#   --layout L       node (1 x N), emulated (2 x N/2 over sockets on loopback), emulated-4x4 [node]
#   --feature F      none, none-flat, none-2hop, qwz, hpz, qgz, qwz-qgz, all, differences [none]
#   --ranks R        rank that is recorded, or all [0]
#   --steps N        steps in the table [5]
#   --warmup N       steps before them [2]
#   --limit SECONDS  time limit of one command [300]
#   --bandwidth TB/S, --tflops TFLOP/S   of the floors [those of an H200]
#   --build DIR      of zeropp, with CUDA [build-cuda]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# Exits with 1 when a run failed or nothing was recorded.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

gpus='' shape=1.64b layout=node feature_name=none ranks=0 steps=5 warmup=2 limit=300 build=build-cuda
table_python=python3 results=results machine='' bandwidth='' tflops='' dry_run=0 extra=()
read_options 'gpus shape layout feature=feature_name ranks steps warmup limit build table-python results machine bandwidth tflops --' "$@"
floors=(${bandwidth:+--bandwidth "$bandwidth"} ${tflops:+--tflops "$tflops"})
[[ $ranks =~ ^(all|[0-9]+)$ ]] || fail "--ranks is a rank or all, not '$ranks'"
[[ $steps =~ ^[1-9][0-9]*$ ]] || fail "--steps '$steps' is no number of steps"
[[ $warmup =~ ^[0-9]+$ ]] || fail "--warmup '$warmup' is no number of steps"

# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
shape_flags "$shape"
layout_flags "$layout"
feature_flags "$feature_name"
[ "$ranks" = all ] || [ "$ranks" -lt "$gpus" ] || fail "--ranks $ranks: there are $gpus"
study=$results/$machine/kernels
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh

library=$(readlink -m "$build/lib/libkernel_times.so")
[ $dry_run -eq 1 ] || { [ -x "$build/bin/zpp_train" ] && [ -e "$library" ]; } ||
  fail "no $build/bin/zpp_train or no $library: cmake --preset cuda && cmake --build --preset cuda --target zpp_train zpp_info kernel_times"

[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python

# From one loss to the next: a step more is run than there are in the table.
scratch=out/kernel_times
recorded=$scratch/$session
train() {  # NAME PREFIX-COMMAND...
  local name=$1
  shift
  run_measured "$shape" "$layout" zeropp "$feature_name-$name" "$warmup" env "${environment[@]}" "${launch[@]}" "$@" \
    "$build/bin/zpp_train" "${model[@]}" --no-tied-head --bf16 --lr 0.0001 --train-iters $((warmup + steps + 1)) \
    --no-hash-parameters --backend cuda --transport nccl "${declared[@]}" "${feature[@]}" "${extra[@]}" \
    --output "$scratch" --json @JSON@
}
if [ $dry_run -eq 0 ]; then
  mkdir -p "$scratch"
  recorded=$(mktemp -d "$recorded.XXXXXX")  # another call may begin in the same second
fi
open_study "$call" "$build/bin/zpp_info"
train unrecorded
unrecorded=$study/runs/$last_stem.json
train recorded jobscripts/local/record_kernels.sh "$library" "$recorded/kernels" "$ranks"
table=("$table_python" validation/zpp-validate kernel-table --summary "$study/runs/$last_stem.json" --unrecorded "$unrecorded"
  --skip "$warmup" "${floors[@]}" --output "$study/$session-$shape-$layout-$feature_name.md")
if [ $dry_run -eq 1 ]; then
  printf '%q ' "${table[@]}" "$recorded/kernels.0000.PROCESS.tsv"
  echo
  exit 0
fi
failed() { echo "kernel_times: error: $1: see $study/runs/$last_stem.log" >&2; exit 1; }
[ "$last_code" -eq 0 ] || failed "the run failed"
shopt -s nullglob
files=("$recorded"/kernels.*.tsv)
[ ${#files[@]} -gt 0 ] || failed "nothing was recorded"
"${table[@]}" "${files[@]}" || exit 1
