#!/usr/bin/env bash
# Shared part of the job scripts (jobscripts/*.sbatch): runs the missing runs of a study, passes signals on, and
# requeues the job when a run was asked to end before it was whole. To be sourced in a job; changes to the root of the
# source tree.
#
# Words of every job script:
#   STUDY.json        instead of the script's own study
#   --system NAME     of jobscripts/systems/ [generic]
#   --results DIR     [out/studies/NAME]
#   --max-restarts N  how often the job is requeued [3]
# In an array, task I does run I. Otherwise the job does the missing runs in order, and continues after one that failed.
# Exits with 0 when all its runs are complete, else with the code of the first run that failed; 85: ended by a
# signal and not requeued.

set -euo pipefail
script=$(readlink -f "$0")
cd "$SLURM_SUBMIT_DIR" || exit 2

usage() {  # the head of the script itself, which Slurm may have copied, and the words of all
  sed -n '2,/^#SBATCH/{/^#SBATCH/!s/^# \{0,1\}//p}' "$script"
  echo
  sed -n '/^# Words/,/^# signal/s/^# \{0,1\}//p' jobscripts/job.sh
}
fail() { echo "${SLURM_JOB_NAME:-job}: error: $*" >&2; exit 2; }

case ${1:-} in -h | --help) usage; exit 0 ;; esac  # of the script that sources this

# shellcheck source=jobscripts/words.sh
source jobscripts/words.sh
# shellcheck source=jobscripts/needed.sh
source jobscripts/needed.sh

study='' system=generic results=() max_restarts=3 flags=()
parse_words() {  # WORD...
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --) shift; flags=("$@"); break ;;
      --system | --results | --max-restarts) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    esac
    case $1 in
      --system) system=$2; shift ;;
      --results) results=(--results "$2"); shift ;;
      --max-restarts) max_restarts=$2; shift ;;
      -*) fail "unknown option '$1' (try --help)" ;;
      *) [ -z "$study" ] || fail "one study at a time, not also '$1'"; study=$1 ;;
    esac
    shift
  done
  check_max_restarts "$max_restarts"
  check_system "$system"
}

# Runs COMMAND..., passing on USR1 and TERM; returns its exit code. `wait` comes back early when a signal arrives, and
# tells the code of a command that has ended as often as it is asked.
child='' signalled=0 asked=''  # asked: the last signal since the job began
pass_on() { signalled=1 asked=$1; [ -z "$child" ] || kill -"$1" "$child" 2>/dev/null || true; }
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
run_and_wait() {  # COMMAND...
  local code
  "$@" &
  child=$!
  [ -z "$asked" ] || kill -"$asked" "$child" 2>/dev/null || true  # it came before there was a child to pass it on to
  while :; do
    signalled=0 code=0
    wait "$child" || code=$?
    [ $signalled -eq 1 ] || break
  done
  child=''
  return "$code"
}

# After COMMAND ended with CODE: where it was asked to end before it was whole, also where the signal came before there
# was a program to pass it on to, the job goes back into the queue, or ends with 85.
requeue_if_asked() {  # CODE
  if [ "$1" -eq 85 ] || { [ -n "$asked" ] && [ "$1" -gt 128 ]; }; then requeue; exit 85; fi
}

# Back into the queue, unless it was often enough or someone cancelled the job.
requeue() {
  local id=$SLURM_JOB_ID restarts=${SLURM_RESTART_COUNT:-0} state
  # The id of an array's last task is that of the whole array as well.
  [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  state=$(squeue --noheader --jobs="$id" --format=%T) || true
  if [ "$state" != RUNNING ]; then
    echo "${SLURM_JOB_NAME:-job}: not requeued: the job is ${state:-gone}" >&2
  elif [ "$restarts" -ge "$max_restarts" ]; then
    echo "${SLURM_JOB_NAME:-job}: not requeued: it was restarted $restarts times already; submit it again" >&2
  else
    echo "${SLURM_JOB_NAME:-job}: goes back into the queue ($((restarts + 1)) of at most $max_restarts)"
    scontrol requeue "$id" || echo "${SLURM_JOB_NAME:-job}: not requeued: scontrol failed; submit it again" >&2
  fi
}

# Modules of Python that a study needs, to judge the traces of its runs; a script adds those of what it does with them.
study_modules=(h5py numpy)
run_study() {  # DEFAULT-STUDY WORD...
  local default=$1
  shift
  parse_words "$@"
  [ ${#flags[@]} -eq 0 ] || fail "a study's flags are in its file: leave out what follows --"
  study=${study:-$default}
  # shellcheck source=jobscripts/systems/generic.sh
  source "jobscripts/systems/$system.sh"
  need_modules "$python" ZEROPP_PYTHON "${study_modules[@]}"
  local index code first=0 text
  local -a indices
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    indices=("$SLURM_ARRAY_TASK_ID")
  else
    text=$("$python" jobscripts/study.py missing "$study" "${results[@]}")
    mapfile -t indices < <(printf %s "${text:+$text$'\n'}")
  fi
  for index in "${indices[@]}"; do
    if [ -n "$asked" ]; then requeue; exit 85; fi  # before the first run, or between two
    code=0
    run_and_wait "$python" jobscripts/study.py run "$study" "$index" "${results[@]}" --build "$build" \
      --launcher "${launcher[@]}" "${container[@]}" || code=$?
    requeue_if_asked $code
    if [ $first -eq 0 ]; then first=$code; fi
  done
  return "$first"
}
