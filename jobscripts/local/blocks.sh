#!/usr/bin/env bash
# A GPT of so many blocks, for studies of none of the shapes in shapes.sh. To be sourced once the command line was read: refuses
# what is no number in `layers`, `hidden`, `steps` and `warmup`, or no `backend`, and sets
#   model  the model's flags
#   place  those of where it runs: GPUs in bf16, the host in fp32
# shellcheck disable=SC2034,SC2154  # the callers read what is set here, and set what is read

for number in "$layers" "$hidden" "$steps"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "'$number' is no number above 0"
done
[[ $warmup =~ ^[0-9]+$ ]] || fail "--warmup '$warmup' is no number of steps"
[ $((hidden % 64)) -eq 0 ] || fail "--hidden $hidden is no multiple of 64"
case $backend in
  cuda) place=(--bf16 --backend cuda --transport nccl) ;;
  host) place=(--backend host) ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac
model=(--num-layers "$layers" --hidden-size "$hidden" --num-attention-heads $((hidden / 64)))
