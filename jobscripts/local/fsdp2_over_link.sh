#!/usr/bin/env bash
# Times training steps of a small GPT with PyTorch FSDP2 on two emulated hosts of two ranks each, which a slow link
# joins: plain, with the weights of backward gathered inside the host (hpZ, FSDP2's own option), and both with
# zeropp.torch.compress(). Runs alternate. Prints a table and keeps everything in results/MACHINE/STUDY/. Needs no GPU.
#
# usage: jobscripts/local/fsdp2_over_link.sh [OPTION...]
#   --rate RATE      of each host's link, in each direction [1gbit]
#   --rounds N       how often each of the four runs [3]
#   --steps N        timed steps [10]
#   --warmup N       steps before them [3]
#   --limit SECONDS  time limit of one command [300]
#   --build DIR      of zeropp, for its Python package [build]
#   --python FILE    Python with PyTorch [python3]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [host]
#   --study NAME     [fsdp2-over-link]
#   --dry-run        print the commands and do nothing
# Needs what jobscripts/local/netns.py needs. Exits with the code of the table: 1 when a run failed.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

rate=1gbit rounds=3 steps=10 warmup=3 limit=300 build=build python=python3 table_python=python3
results=results machine=host study_name=fsdp2-over-link dry_run=0
read_options 'rate rounds steps warmup limit build python table-python results machine study=study_name' "$@"
study=$results/$machine/$study_name
session=$rate
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh

# Runs take minutes, and each needs these.
if [ "$dry_run" -eq 0 ]; then
  need_modules "$table_python" --table-python
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} need_modules "$python" "--python, and zeropp's build with --build" torch zeropp.torch
  said=$("$table_python" jobscripts/local/netns.py --rate "$rate" -- true 2>&1) || fail "${said##*$'\n'}"
fi

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
model=(--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 8 --micro-batch-size 1 --vocab-size 512)
# The first host's address, and the interface, as netns_hosts.py makes them.
environment=(MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=eth0 PYTHONPATH="$build/python")
arguments='{"node_size": 2, "min_bytes": 65536}'

time_run() {  # KIND NAME FLAG...
  local kind=$1 name=$2
  shift 2
  run_measured 12.6m link "$kind" "$name" "$warmup" "$table_python" jobscripts/local/netns.py --rate "$rate" -- \
    env "${environment[@]}" "$python" validation/zpp-validate peer-fsdp2 "${model[@]}" --device cpu --node-size 2 \
    --warmup "$warmup" --steps "$steps" "$@" --json @JSON@
}

open_study "$call" "$python" -c 'import torch; print("torch", torch.__version__)'
for ((round = 0; round < rounds; ++round)); do
  time_run peer fsdp2
  time_run plugin plugin-both --prepare "zeropp.torch:compress $arguments"
  time_run peer fsdp2-hpz --reshard 2
  time_run plugin plugin-both-hpz --reshard 2 --prepare "zeropp.torch:compress $arguments"
done
[ "$dry_run" -eq 1 ] || "$table_python" validation/zpp-validate train-table "$study" --output "$study/table.md"
