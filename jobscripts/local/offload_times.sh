#!/usr/bin/env bash
# What offload gives and costs on one GPU: the largest model that a limited device memory trains with and without it; the
# optimizer's step on the host beside a copy of the host's memory (zpp-validate raw-copy), and a step beside its floors: the bytes over the
# link, the same step without offload, and with the host's update behind it. Makes a table (zpp-validate offload-table). Keeps everything in
# results/MACHINE/offload/. A part that fails leaves the others.
#
# usage: jobscripts/local/offload_times.sh [OPTION...] [-- FLAG...]
#   --parts LIST     of largest (models), steps (and what they are measured against) [largest,steps]
#   --devices LIST   of none, cpu (the optimizer), cpu-weights (the weights too), nvme, nvme-weights
#                    [none,cpu,cpu-weights]
#   --nvme DIR       where nvme keeps its files
#   --backend B      cuda, host [cuda]
#   --memory BYTES   limit of the device memory of the largest models; K, M, G: powers of 1024 [24G]
#   --hidden N       width of the largest models, a multiple of 64 [2048]
#   --seq N          tokens of their sequences, one a step [512]
#   --shape S        of the timed steps: 1.64b, 6.86b, tiny [1.64b]
#   --accumulation LIST  micro-steps of the timed steps [1,8]
#   --steps N        that are timed [4]
#   --nvme-steps N   the same with nvme: they move 12 bytes a parameter each way through the disk [1]
#   --warmup N       steps before them [1]
#   --threads N      of the copy of the host's memory [all processors]
#   --copy BYTES     that it copies, many times the caches; K, M, G: powers of 1024 [2G]
#   --limit SECONDS  time limit of one command [240]
#   --build DIR      of zeropp [build-cuda]
#   --table-python FILE  Python for the table, and with NumPy for the copy [that of the build]
#   --results DIR    [results]
#   --machine NAME   [1 and the GPU's name]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# LIST is comma-separated, and its order is that of the runs. Exits with 1 when a run failed, or one that is too large was not refused.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

parts=largest,steps devices=none,cpu,cpu-weights nvme='' backend=cuda memory=24G hidden=2048 seq=512 shape=1.64b accumulation=1,8 steps=4 nvme_steps=1
warmup=1 threads=$(env -u OMP_NUM_THREADS nproc) copy=2G limit=240 build=build-cuda table_python='' results=results machine='' dry_run=0 extra=() gpus=1
read_options 'parts devices nvme backend memory hidden seq shape accumulation steps nvme-steps warmup threads copy limit build table-python results machine --' "$@"
for number in "$hidden" "$seq" "$steps" "$nvme_steps" "$threads"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "'$number' is no number above 0"
done
[[ $warmup =~ ^[0-9]+$ ]] || fail "--warmup '$warmup' is no number of steps"
[ $((hidden % 64)) -eq 0 ] || fail "--hidden $hidden is no multiple of 64"
copy_bytes=$(numfmt --from=iec "$copy" 2>/dev/null) || fail "--copy '$copy' is no number of bytes"
case $backend in
  cuda) place=(--bf16 --backend cuda --transport nccl) ;;
  host) place=(--backend host) ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac

# The host's kernels of a rank are shared by its workers, one a processor.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
shape_flags "$shape"
layout_flags node
study=$results/$machine/offload
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || for program in zpp_train zpp_kernels zpp_plan; do
  [ -x "$build/bin/$program" ] || fail "no $build/bin/$program: build it, or give --build"
done
table_python=${table_python:-$(python_of_build "$build")}
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python numpy

# NVMe by DeepSpeed's keys, in a file.
device_flags() {  # DEVICE
  case $1 in
    none) device=() ;;
    cpu) device=(--offload-optimizer cpu) ;;
    cpu-weights) device=(--offload-optimizer cpu --offload-param cpu) ;;
    nvme) device=(--config "$study/nvme-$session.json") ;;
    nvme-weights) device=(--config "$study/nvme-weights-$session.json") ;;
    *) fail "unknown device '$1' (try --help)" ;;
  esac
}
split "$devices"; device_list=("${list[@]}")
split "$accumulation"; accumulation_list=("${list[@]}")
split "$parts"; part_list=("${list[@]}")
for part in "${part_list[@]}"; do
  [[ $part == largest || $part == steps ]] || fail "--parts are largest, steps, not '$part'"
done
for name in "${device_list[@]}"; do
  device_flags "$name"
  [[ $name != nvme* ]] || [ -n "$nvme" ] || fail "say with --nvme where device $name keeps its files"
done

open_study "$call" free -b
if [ $dry_run -eq 0 ]; then
  section='{"device": "nvme", "nvme_path": "'$nvme'"}'
  echo '{"zero_optimization": {"stage": 3, "offload_optimizer": '"$section"'}}' >"$study/nvme-$session.json"
  echo '{"zero_optimization": {"stage": 3, "offload_optimizer": '"$section"', "offload_param": '"$section"'}}' \
    >"$study/nvme-weights-$session.json"
fi

train() {  # NAME WARMUP FLAG...
  local name=$1 warmup=$2
  shift 2
  run_measured "$shape" node zeropp "$name" "$warmup" "${launch[@]}" "$build/bin/zpp_train" "${place[@]}" --zero-stage 3 --no-hash-parameters "$@" \
    "${extra[@]}" --output out/offload_times --json @JSON@
}

# What a shape with little beside its parameters takes.
growing=(--hidden-size "$hidden" --num-attention-heads $((hidden / 64)) --seq-length "$seq" --micro-batch-size 1 --recompute-activations
  --reduce-bucket-size $((hidden * hidden)) --prefetch-bucket-size $((hidden * hidden)))

# A model that fits trains two steps; one more layer is refused before it begins, with exit code 3. Where not even one fits,
# the run of one says what is too large.
largest() {  # DEVICE
  local layers=1
  device_flags "$1"
  run_measured "$shape" node layers "layers-$1" 0 "$table_python" jobscripts/local/largest_model.py --plan "$build/bin/zpp_plan" --limit "$memory" -- \
    "${growing[@]}" "${place[@]}" --zero-stage 3 "${device[@]}" "${extra[@]}"
  [ "$last_code" -eq 0 ] || return 0
  if [ $dry_run -eq 0 ]; then layers=$(<"$study/runs/$last_stem.log"); fi
  if [ "$layers" -eq 0 ]; then layers=1; fi
  train "largest-$1" 0 --num-layers "$layers" "${growing[@]}" --device-memory-limit "$memory" --train-iters 2 "${device[@]}"
  run_measured "$shape" node refused "beyond-$1" 0 jobscripts/local/exits_with.sh 3 "${launch[@]}" "$build/bin/zpp_train" "${place[@]}" \
    --zero-stage 3 --no-hash-parameters --num-layers $((layers + 1)) "${growing[@]}" --device-memory-limit "$memory" --train-iters 2 \
    "${device[@]}" "${extra[@]}" --output out/offload_times
}

raw_copy() {  # NAME THREADS
  run_measured "$shape" node raw "$1" 0 "$table_python" validation/zpp-validate raw-copy --bytes "$copy_bytes" --threads "$2" --json @JSON@
}

step() {  # DEVICE MICRO_STEPS
  local timed=$steps
  local -a pinned=()
  device_flags "$1"
  case $1 in
    cpu) pinned=(--offload-optimizer-pin-memory) ;;
    cpu-weights) pinned=(--offload-optimizer-pin-memory --offload-param-pin-memory) ;;
    nvme*) timed=$nvme_steps ;;
  esac
  train "step-$1-$2" "$warmup" "${model[@]}" --gradient-accumulation-steps "$2" --train-iters $((warmup + timed)) "${device[@]}" "${pinned[@]}"
}

for part in "${part_list[@]}"; do
  if [ "$part" = largest ]; then
    for name in "${device_list[@]}"; do largest "$name"; done
    continue
  fi
  raw_copy copy "$threads"
  case $backend in
    host) raw_copy link 1 ;;
    cuda) run_measured "$shape" node kernels link 0 "$build/bin/zpp_kernels" --backend cuda --filter '^clear/' --output out/offload_times --json @JSON@ ;;
  esac
  for micro_steps in "${accumulation_list[@]}"; do
    for name in "${device_list[@]}"; do step "$name" "$micro_steps"; done
  done
done
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate offload-table "$study" --session "$session" --output "$study/$session.md"
