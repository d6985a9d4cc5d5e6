#!/usr/bin/env bash
# What guides to ZeRO promise, measured on one host: the memory of stages 1, 2 and 3 against stage 0, how much slower a step
# with offload is, and what overlap_comm saves. Makes a table (zpp-validate guide-table). Keeps everything in
# results/MACHINE/guide_claims/.
#
# usage: jobscripts/local/guide_claims.sh [OPTION...] [-- FLAG...]
#   --gpus N         ranks, a GPU each [all that nvidia-smi lists]
#   --backend B      cuda, host [cuda]
#   --layers N       blocks of the GPT [4]
#   --hidden N       its width, a multiple of 64 [512]
#   --nvme DIR       where offload to NVMe keeps its files; without it is not measured
#   --steps N        that are timed [4]
#   --warmup N       steps before times are taken [1]
#   --limit SECONDS  time limit of one command [300]
#   --build DIR      of zeropp [build-cuda]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# Exits with 1 when a run failed.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

gpus='' backend=cuda layers=4 hidden=512 nvme='' steps=4 warmup=1 limit=300
build=build-cuda table_python=python3 results=results machine='' dry_run=0 extra=()
read_options 'gpus backend layers hidden nvme steps warmup limit build table-python results machine --' "$@"
# shellcheck source=jobscripts/local/blocks.sh
source jobscripts/local/blocks.sh
[ "$backend" = cuda ] || place+=(--bf16)

# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
layout_flags node
study=$results/$machine/guide_claims
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_train" ] || fail "no $build/bin/zpp_train: build it, or give --build"
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python

train() {  # NAME FLAG...
  local name=$1
  shift
  run_measured "$layers-$hidden" node zeropp "$name" "$warmup" "${launch[@]}" "$table_python" jobscripts/local/peak_memory.py \
    @JSON@.peaks "$build/bin/zpp_train" --seq-length 64 --micro-batch-size 1 --no-hash-parameters "${place[@]}" \
    --train-iters $((warmup + steps)) --reduce-bucket-size $((hidden * hidden)) "$@" "${extra[@]}" --output out/guide_claims --json @JSON@
}

open_study "$call" uptime
train nothing --num-layers 1 --hidden-size 64 --num-attention-heads 1 --zero-stage 0
for stage in 0 1 2 3; do train "stage-$stage" "${model[@]}" --zero-stage "$stage"; done
for stage in 0 1 2 3; do train "stage-$stage-alone" "${model[@]}" --zero-stage "$stage" --no-overlap-comm; done
train offload-cpu "${model[@]}" --zero-stage 3 --offload-optimizer cpu
train offload-cpu-weights "${model[@]}" --zero-stage 3 --offload-optimizer cpu --offload-param cpu
if [ -n "$nvme" ]; then
  file=$study/nvme-$session.json
  [ $dry_run -eq 1 ] || echo '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "'"$nvme"'"}}}' >"$file"
  train offload-nvme "${model[@]}" --config "$file"
fi
train stage-3-again "${model[@]}" --zero-stage 3
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate guide-table "$study" --session "$session" --output "$study/$session.md"
