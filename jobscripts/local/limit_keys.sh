#!/usr/bin/env bash
# What each key that limits ZeRO costs and saves on one host: memory, bytes and time of a step at values of the key,
# everything else as it is. Makes a table (zpp-validate limit-table). Keeps everything in results/MACHINE/limits/.
#
# usage: jobscripts/local/limit_keys.sh [OPTION...] [-- FLAG...]
#   --gpus N         ranks, a GPU each; an even number [all that nvidia-smi lists]
#   --backend B      cuda, host [cuda]
#   --layers N       blocks of the GPT [8]
#   --hidden N       its width, a multiple of 64 [256]
#   --steps N        that are timed [8]
#   --warmup N       steps before times are taken [2]
#   --limit SECONDS  time limit of one command [300]
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

gpus='' backend=cuda layers=8 hidden=256 steps=8 warmup=2 limit=300
build=build-cuda table_python=python3 results=results machine='' dry_run=0 extra=()
read_options 'gpus backend layers hidden steps warmup limit build table-python results machine --' "$@"
# shellcheck source=jobscripts/local/blocks.sh
source jobscripts/local/blocks.sh

# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
layout_flags emulated
study=$results/$machine/limits
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_train" ] || fail "no $build/bin/zpp_train: build it, or give --build"
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python

train() {  # KEY=VALUE, or `stock`; FLAG...
  local name=$1
  shift
  run_measured "$layers-$hidden" emulated zeropp "$name" "$warmup" env "${environment[@]}" "${launch[@]}" "$build/bin/zpp_train" \
    "${model[@]}" --seq-length 64 --micro-batch-size 1 \
    --gradient-accumulation-steps 2 --deterministic "${place[@]}" --train-iters $((warmup + steps)) "${declared[@]}" "$@" "${extra[@]}" \
    --output out/limit_keys --json @JSON@
}

block=$((12 * hidden * hidden + 13 * hidden))  # parameters of a block
open_study "$call" uptime
train stock
train reduce_bucket_size=block --reduce-bucket-size "$block"
train reduce_bucket_size=eighth_of_block --reduce-bucket-size $((block / 8))
train stage3_prefetch_bucket_size=0 --prefetch-bucket-size 0
train stage3_max_live_parameters=0 --max-live-parameters 0
train stage3_max_reuse_distance=1 --max-reuse-distance 1
train stage3_max_reuse_distance=4_blocks --max-reuse-distance $((4 * block))
train stage3_max_reuse_distance=1e9 --max-reuse-distance 1000000000
train stage3_max_reuse_distance=1e9,max_live=4_blocks --max-reuse-distance 1000000000 --max-live-parameters $((4 * block))
train stage3_param_persistence_threshold=1e5 --param-persistence-threshold 100000
train stage3_param_persistence_threshold=block --param-persistence-threshold "$block"
train stage3_param_persistence_threshold=block,model=4_blocks --param-persistence-threshold "$block" --model-persistence-threshold $((4 * block))
train shard_group_size=node --shard-group-size "$node_size"
train overlap_comm=false --no-overlap-comm
train stock-again
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate limit-table "$study" --session "$session" --output "$study/$session.md"
