#!/usr/bin/env bash
# Finds which compression is safe, on one host: runs a matrix of zpp_converge, checks it and judges it. Writes to
# results/MACHINE/convergence/MATRIX/: converge.h5, table.md, judged.h5, pictures, chapter.md (for the docs),
# report.txt. Every finished run is kept: the same call resumes a matrix that was interrupted.
#
# usage: jobscripts/local/convergence.sh [OPTION...] [-- FLAG...]
#   --matrix FILE       [inputs/convergence/reduced.json: two minutes of 2 cores]
#   --ranks N           [4]
#   --backend B         cuda or host; on cuda ranks share GPUs over MPI where there are fewer [host]
#   --margin NATS       of equivalence [0.02]
#   --limit SECONDS     of the matrix; what it did until then is kept [1500]
#   --runs DIR          where runs are kept as they end [out/convergence/MACHINE/MATRIX]
#   --build DIR         of zeropp [build]
#   --table-python FILE Python with h5py, NumPy, SciPy and matplotlib [that of the build]
#   --results DIR       [results]
#   --machine NAME      [the number of ranks, and the GPU's name, or host]
#   --dry-run           print the commands and do nothing
#   FLAG...             passed on to zpp_converge, as --data-path FILE
# Exit codes: 0 VALID, 1 INVALID, else that of zpp_converge; 124: the limit.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

matrix=inputs/convergence/reduced.json gpus=4 backend=host margin=0.02 limit=1500 runs='' build=build table_python='' results=results
machine='' dry_run=0 extra=()
read_options 'matrix ranks=gpus backend margin limit runs build table-python results machine --' "$@"
case $backend in
  cuda) transport=() ;;
  host) transport=(--transport mpi) ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac
[ -r "$matrix" ] || fail "no matrix '$matrix': name one, as inputs/convergence/reduced.json"
table_python=${table_python:-$(python_of_build "$build")}
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python h5py numpy scipy matplotlib
# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
name=${matrix##*/}
name=${name%.json}
study=$results/$machine/convergence session=$name
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_converge" ] ||
  fail "no $build/bin/zpp_converge: cmake --preset cpu && cmake --build --preset cpu --target zpp_converge zpp_info"

# zpp_converge keeps each run as it ends; of a time limit it gets a signal first, and ends between two runs.
export OMPI_MCA_odls_base_sigkill_timeout=15
scratch=${runs:-out/convergence/$machine/$name} tables=$study/$name code=0
open_study "$call" "$build/bin/zpp_info"
[ $dry_run -eq 1 ] || mkdir -p "$scratch" "$tables"
run_measured "$name" host zeropp converge 0 "${launch[@]}" "$build/bin/zpp_converge" --config "$matrix" --backend "$backend" \
  "${transport[@]}" "${extra[@]}" --output "$scratch"
judge=("$table_python" validation/zpp-validate converge "$tables/converge.h5" --output "$tables" --margin "$margin" --command "${call% }")
if [ $dry_run -eq 1 ]; then
  printf '%q ' "${judge[@]}"
  echo
  exit 0
fi
# shellcheck disable=SC2154  # set by run_measured
[ "$last_code" -le 1 ] || exit "$last_code"
cp "$scratch/converge.h5" "$tables/converge.h5"
"$table_python" validation/zpp-validate summarize "$tables/converge.h5" --plot "$tables" >"$tables/report.txt" || code=1
"${judge[@]}" || code=1
exit $code
