#!/usr/bin/env bash
# The regression gate on one host: runs inputs/studies/regression.json anew, nodes emulated, and compares it with a baseline of this
# machine (zpp-validate gate), or with --record makes the baseline, in validation/baselines/MACHINE/.
#
# usage: jobscripts/local/regression.sh NAME [OPTION...] [-- FLAG...]
#   --record            make the baseline NAME of this run
#   --study FILE        of several seeds [inputs/studies/regression.json]
#   --results DIR       of the runs, table and report.json; runs that are there are not done again [out/regression/TIME]
#   --build DIR         of zeropp [build]
#   --table-python FILE Python with h5py, NumPy, SciPy and matplotlib [that of the build]
#   --dry-run           print the commands and do nothing
#   FLAG...             passed on to zpp-validate gate, as --threshold 0.05
# Exit codes are those of zpp-validate gate: 0 nothing moved, 1 something did or is missing, 2 cannot be compared, 4 nothing moved
# but the gate is blunt, 5 the baseline is not there; or that of the first run that failed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

baseline='' record='' study=inputs/studies/regression.json results='' build=build table_python='' dry_run=0 extra=()
read_options '+baseline record! study results build table-python --' "$@"
[ -n "$baseline" ] || fail "name a baseline, with --record the first time"
table_python=${table_python:-$(python_of_build "$build")}
[ $dry_run -eq 1 ] || need_modules "$table_python" --table-python h5py numpy scipy matplotlib
results=${results:-out/regression/$(date -u +%Y%m%dT%H%M%SZ)}

do_or_print() {  # COMMAND...
  if [ $dry_run -eq 0 ]; then "$@"; else printf '%q ' "$@"; echo; fi
}

# Root may start ranks too, in containers; a rank has one host thread.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
missing=$("$table_python" jobscripts/study.py missing "$study" --results "$results")
mapfile -t indices < <(printf %s "${missing:+$missing$'\n'}")
for index in "${indices[@]}"; do
  do_or_print "$table_python" jobscripts/study.py run "$study" "$index" --results "$results" --build "$build" --declare-nodes \
    --launcher mpirun -q -n @RANKS@ --oversubscribe --bind-to none
done
extra=(--warmup "$("$table_python" jobscripts/study.py warmup "$study")" "${extra[@]}")
what=--record
[ -n "$record" ] || { what=--baseline && extra+=(--json "$results/report.json"); }
do_or_print "$table_python" jobscripts/study.py collect "$study" --results "$results"
do_or_print "$table_python" validation/zpp-validate gate "$results/runs" "$what" "$baseline" "${extra[@]}"
