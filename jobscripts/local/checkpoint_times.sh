#!/usr/bin/env bash
# What checkpoints cost on one host: how fast they are written beside the disk's own rate in the same session, how long
# training waits for them, and whether a run that was ended and gone on has the bits of one that never stopped.
# Makes a table (zpp-validate checkpoint-table). Keeps everything in results/MACHINE/checkpoints/.
#
# usage: jobscripts/local/checkpoint_times.sh --folder DIR [OPTION...] [-- FLAG...]
#   --folder DIR     where checkpoints go: what is measured is its disk; emptied of what this call made
#   --gpus N         ranks, a GPU each [all that nvidia-smi lists]
#   --backend B      cuda, host [cuda]
#   --shape S        1.64b, 6.86b, 9.4b, 18.7b, tiny [1.64b]
#   --layout L       node, emulated (two nodes over sockets on loopback) [node]
#   --feature F      as of train_shapes.sh [none]
#   --interval I     steps between checkpoints [20]
#   --saves N        checkpoints that are timed [3]
#   --warmup N       steps before times are taken [3]
#   --limit SECONDS  time limit of one command [300]
#   --build DIR      of zeropp [build-cuda]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# Exits with 1 when a run failed, or the weights differ.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

folder='' gpus='' backend=cuda shape=1.64b layout=node feature_name=none interval=20 saves=3 warmup=3 limit=300
build=build-cuda table_python=python3 results=results machine='' dry_run=0 extra=()
read_options 'folder gpus backend shape layout feature=feature_name interval saves warmup limit build table-python results machine --' "$@"
[ -n "$folder" ] || fail "say with --folder where checkpoints are to go"
for number in "$interval" "$saves"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "'$number' is no number above 0"
done
[[ $warmup =~ ^[0-9]+$ ]] || fail "--warmup '$warmup' is no number of steps"
case $backend in
  cuda) place=(--bf16 --backend cuda --transport nccl) ;;
  host) place=(--backend host) ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac

# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
shape_flags "$shape"
layout_flags "$layout"
feature_flags "$feature_name"
study=$results/$machine/checkpoints
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_train" ] || fail "no $build/bin/zpp_train: build it, or give --build"
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python

stopped() { echo "checkpoint_times: error: $1 failed: see $study/runs/$last_stem.log" >&2; exit 1; }

train() {  # NAME STEPS FLAG...
  local name=$1 steps=$2
  shift 2
  run_measured "$shape" "$layout" zeropp "$name" "$warmup" env "${environment[@]}" "${launch[@]}" "$build/bin/zpp_train" \
    "${model[@]}" --no-tied-head "${place[@]}" --lr 0.0001 --train-iters "$steps" "${declared[@]}" "${feature[@]}" "$@" \
    "${extra[@]}" --output out/checkpoint_times --json @JSON@
  [ $dry_run -eq 1 ] || [ "$last_code" -eq 0 ] || stopped "$name"
}

bytes=0  # of a rank's part of a checkpoint
raw() {  # NAME
  run_measured "$shape" "$layout" raw "$1" 0 "$table_python" validation/zpp-validate raw-write --folder "$scratch/raw" \
    --processes "$gpus" --bytes "$bytes" --json @JSON@
  [ $dry_run -eq 1 ] || [ "$last_code" -eq 0 ] || stopped "$1"
}

scratch=$folder/checkpoint_times-$session
if [ $dry_run -eq 0 ]; then
  mkdir -p "$folder"
  scratch=$(mktemp -d "$scratch.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
fi
open_study "$call" df -T "$folder"
halves=4
train unsaved $((warmup + interval)) --no-hash-parameters
train first-half "$halves" --deterministic --save "$scratch/halves"
if [ $dry_run -eq 0 ]; then
  bytes=$("$table_python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
print(run["checkpoints"]["bytes"][-1] // run["world_size"])' "$study/runs/$last_stem.json")
fi
train second-half $((2 * halves)) --deterministic --load "$scratch/halves"
train whole $((2 * halves)) --deterministic
rm -rf "$scratch/halves"
raw raw-before
train saved $((interval * (saves + 1))) --no-hash-parameters --save "$scratch/saved" --save-interval "$interval" --save-keep 1
rm -rf "$scratch/saved"
raw raw-after
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate checkpoint-table "$study" --session "$session" --output "$study/$session.md"
