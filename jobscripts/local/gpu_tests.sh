#!/usr/bin/env bash
# Runs the tests that need GPUs and keeps the outcome in results/MACHINE/tests/: the tests labelled gpu (ctest.txt), and
# small ones under each tool of compute-sanitizer (sanitizer.txt, a line per tool and program; the outputs beside it).
#
# usage: jobscripts/local/gpu_tests.sh [OPTION...]
#   --build DIR      of zeropp, with CUDA and tests [build-cuda]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --tests REGEX    only the entries of CTest whose names match, such as mpi_zero.cuda-nccl [all]
#   --parallel N     tests at once [4]
#   --limit SECONDS  time limit of one sanitized program [300]
#   --tools LIST     of compute-sanitizer: of memcheck,racecheck,initcheck,synccheck, or '' for none [all]
#   --no-tests       only the tools
#   --dry-run        print the commands and do nothing
# LIST is comma-separated. Exits with 1 when a test failed or a tool found something. racecheck reports false hazards in
# cuBLASLt's kernels (nvjet_*), so it does not run programs that call them.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

build=build-cuda results=results machine='' tests=. parallel=4 limit=300 tools=memcheck,racecheck,initcheck,synccheck no_tests='' dry_run=0
read_options 'build results machine tests parallel limit tools no-tests!' "$@"

IFS=, read -ra tool_list <<<"$tools"
for tool in "${tool_list[@]}"; do
  case $tool in
    memcheck | racecheck | initcheck | synccheck) ;;
    *) fail "unknown tool '$tool' (try --help)" ;;
  esac
done
[ $dry_run -eq 1 ] || [ -z "$tools" ] || command -v compute-sanitizer >/dev/null ||
  fail "no compute-sanitizer: add the folder bin of the CUDA toolkit to PATH, or give --tools ''"
if [ -z "$machine" ] && [ $dry_run -eq 0 ]; then
  names=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null) || fail "nvidia-smi lists no GPU: give --machine NAME"
  machine=$(wc -l <<<"$names")x-$(head -1 <<<"$names" | tr ' ' -)
fi
out=$results/${machine:-MACHINE}/tests
failed=0
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ZEROPP_TEST_DEVICE=cuda-mpi

# Prints the command and, unless only that was asked for, runs it with its output in FILE.
run_into() {  # FILE COMMAND...
  local file=$1
  shift
  printf '%q ' "$@"
  printf '\n'
  [ $dry_run -eq 0 ] || return 0
  "$@" >"$out/$file" 2>&1
}

# A line for sanitizer.txt; the tool's own exit code tells what it found.
sanitize() {  # TOOL PROGRAM [FILTER]
  local tool=$1 program=$2 filter=${3:-*} status=0
  local file=$tool-$program.log
  run_into "$file" timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 99 \
    "$build/tests/bin/test_$program" --gtest_filter="$filter" || status=$?
  [ $dry_run -eq 0 ] || return 0
  printf '%-10s %-40s exit %-3s %s\n' "$tool" "$program" "$status" "$(grep -E 'SUMMARY' "$out/$file" | tail -1)" >>"$out/sanitizer.txt"
  [ $status -eq 0 ] || failed=1
}

[ $dry_run -eq 1 ] || mkdir -p "$out"
[ -n "$no_tests" ] ||
  run_into ctest.txt ctest --test-dir "$build" -L gpu -R "$tests" --parallel "$parallel" --output-on-failure || failed=1
[ $dry_run -eq 1 ] || [ -z "$tools" ] || : >"$out/sanitizer.txt"
for tool in "${tool_list[@]}"; do
  sanitize "$tool" contract1_optimizer_cuda 'OptimizerOnGpu.*'
  sanitize "$tool" contract1_codec_cuda_reduce_encode
  sanitize "$tool" contract1_codec_cuda_feedback
  sanitize "$tool" gpu_nn_rows '*Embedding*:*GpuRows.CrossEntropy*'
  sanitize "$tool" gpu_model_transformer '*fp32*'
  sanitize "$tool" contract5_engine_trajectory '*/0:*/6'
  [ "$tool" = racecheck ] || sanitize "$tool" gpu_nn_linear
  [ "$tool" = racecheck ] || sanitize "$tool" gpu_nn_products 'GpuProducts.Meas*Right'
done
if [ $dry_run -eq 0 ]; then
  [ -n "$no_tests" ] || tail -30 "$out/ctest.txt"
  [ -z "$tools" ] || cat "$out/sanitizer.txt"
fi
exit $failed
