#!/usr/bin/env bash
# How fast a step with the optimizer in files moves master weights and states, beside what the disk gives and takes by itself right before
# and after (zpp-validate raw-disk); with transfers that overlap and not, and at sizes of a sub-group. Makes a table
# (zpp-validate disk-table). Keeps everything in results/MACHINE/offload_disk/.
#
# usage: jobscripts/local/offload_disk.sh [OPTION...] [-- FLAG...]
#   --folder DIR     on the disk [/local_nvme]
#   --gpus N         ranks, a GPU each [all that nvidia-smi lists]
#   --backend B      cuda, host [cuda]
#   --layers N       blocks of the GPT [8]
#   --hidden N       its width, a multiple of 64 [1024]
#   --steps N        that are timed [6]
#   --warmup N       steps before times are taken [2]
#   --limit SECONDS  time limit of one command [600]
#   --build DIR      of zeropp [build-cuda]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# Exits with 1 when a run failed, or trained other weights than it had to.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

folder=/local_nvme gpus='' backend=cuda layers=8 hidden=1024 steps=6 warmup=2 limit=600
build=build-cuda table_python=python3 results=results machine='' dry_run=0 extra=()
read_options 'folder gpus backend layers hidden steps warmup limit build table-python results machine --' "$@"
# shellcheck source=jobscripts/local/blocks.sh
source jobscripts/local/blocks.sh
[ $dry_run -eq 1 ] || [ -d "$folder" ] || fail "no folder $folder: make it, or give --folder"

# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
layout_flags node
study=$results/$machine/offload_disk
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_train" ] || fail "no $build/bin/zpp_train: build it, or give --build"
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python

train() {  # NAME FLAG...
  local name=$1
  shift
  run_measured "$layers-$hidden" node zeropp "$name" "$warmup" env "${environment[@]}" "${launch[@]}" "$build/bin/zpp_train" \
    "${model[@]}" --seq-length 64 --micro-batch-size 1 \
    --zero-stage 2 --deterministic "${place[@]}" --train-iters $((warmup + steps)) "${declared[@]}" "$@" "${extra[@]}" \
    --output out/offload_disk --json @JSON@
}

# A rank moves as much as its file has, 12 bytes a parameter.
bytes=$((12 * 12 * layers * hidden * hidden / gpus))
raw() {  # NAME
  run_measured "$layers-$hidden" node raw "$1" 0 "$table_python" validation/zpp-validate raw-disk --folder "$folder" \
    --processes "$gpus" --bytes "$bytes" --json @JSON@
}

filed=(--offload-optimizer nvme --offload-optimizer-nvme-path "$folder")
open_study "$call" df -T "$folder"
train in-memory
raw raw-before
train nvme "${filed[@]}"
train no-overlap "${filed[@]}" --no-offload-optimizer-pipeline-read --no-offload-optimizer-pipeline-write
train sub_group_size=256K "${filed[@]}" --sub-group-size 256K
train sub_group_size=1M "${filed[@]}" --sub-group-size 1M
train queue_depth=32 "${filed[@]}" --aio-queue-depth 32
raw raw-after
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate disk-table "$study" --session "$session" --output "$study/$session.md"
