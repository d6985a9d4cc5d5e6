#!/usr/bin/env bash
# Runs commands of a study one by one and keeps what they said. To be sourced; the caller sets
#   study    the folder of the study, results/MACHINE/NAME
#   session  one word for this invocation: runs of one session are compared with each other only
#   limit    seconds after which a command is ended
#   dry_run  1: print the commands, run and write nothing
# before it sources this file.
#
# A study is a folder: runs.tsv, a row per command, written when the command has ended, also when it failed; in runs/
# its output (STEM.log) and its summary (STEM.json); session-*.txt, the machine. Another session adds to it.

: "${study:?}" "${session:?}" "${limit:?}" "${dry_run:?}"
readonly study_columns=(session shape layout kind name warmup exit seconds loopback_before loopback_after stem command)

# Bytes that the loopback interface has sent; 0 where the system does not say.
loopback_bytes() {
  local name rest
  while IFS=': ' read -r name rest; do
    if [ "$name" = lo ]; then
      local -a counters
      read -ra counters <<<"$rest"
      echo "${counters[8]}"
      return
    fi
  done < <(cat /proc/net/dev 2>/dev/null)
  echo 0
}

join_tabs() { local IFS=$'\t'; printf '%s\n' "$*"; }

# Begins a session: writes down CALL, what was asked for, and what the runs run on; COMMAND... tells more of it
# (what it cannot tell is no error). Runs are numbered through the study.
run_number=0
open_study() {  # CALL COMMAND...
  [ "$dry_run" -eq 0 ] || return 0
  local call=$1
  shift
  mkdir -p "$study/runs"
  [ -e "$study/runs.tsv" ] || join_tabs "${study_columns[@]}" >"$study/runs.tsv"
  run_number=$(($(wc -l <"$study/runs.tsv") - 1))
  {
    echo "command: $call"
    echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
    uname -srm
    grep -m1 'model name' /proc/cpuinfo
    nvidia-smi --query-gpu=index,name,driver_version,clocks.max.sm,power.limit --format=csv
    nvidia-smi topo -m
    "$@"
  } >"$study/session-$session.txt" 2>&1 || true
}

# Processes of a session of the system, by the id of its leader; those that have ended are none.
members() {  # LEADER
  local file text
  local -a fields  # state, parent, group, session
  for file in /proc/[0-9]*/stat; do
    { IFS= read -r text <"$file"; } 2>/dev/null || continue
    read -ra fields <<<"${text##*) }"
    if [ "${fields[3]}" = "$1" ] && [ "${fields[0]}" != Z ]; then echo "${file//[!0-9]/}"; fi
  done
}

# Runs COMMAND... in a session of its own and ends what it left: a launcher that is ended while it starts its ranks
# loses some, and those would keep their GPUs and disturb the next run. Returns its exit code.
leader=''
run_alone() {  # COMMAND...
  local code=0
  setsid "$@" </dev/null &
  leader=$!
  wait "$leader" || code=$?
  end_session
  return "$code"
}

end_session() {
  local try
  local -a left
  for try in {1..50}; do
    mapfile -t left < <(members "$leader")
    [ ${#left[@]} -gt 0 ] || return 0
    kill -KILL "${left[@]}" 2>/dev/null || true
    sleep 0.1
  done
  echo "  processes do not end after $try attempts: ${left[*]}" >&2
}
trap 'if [ -n "$leader" ]; then end_session; fi; exit 130' INT TERM

# Runs COMMAND... with the time limit; `@JSON@` in it becomes the file of its summary. Never fails: a command that
# does is a row with its exit code. Leaves its STEM and exit code in last_stem and last_code.
# shellcheck disable=SC2034  # read by the scripts that source this
run_measured() {  # SHAPE LAYOUT KIND NAME WARMUP COMMAND...
  local shape=$1 layout=$2 kind=$3 name=$4 warmup=$5
  shift 5
  local stem
  run_number=$((run_number + 1))
  stem=$(printf '%03d-%s-%s-%s' "$run_number" "$shape" "$layout" "$name")
  last_stem=$stem last_code=0
  local -a command=(timeout --kill-after=20 "$limit" "${@//@JSON@/$study/runs/$stem.json}")
  if [ "$dry_run" -eq 1 ]; then
    printf '%q ' "${command[@]}"
    echo
    return 0
  fi
  echo "$(date -u +%H:%M:%S) $shape $layout $name" >&2
  local before after code=0 begin=$SECONDS
  before=$(loopback_bytes)
  run_alone "${command[@]}" >"$study/runs/$stem.log" 2>&1 || code=$?
  after=$(loopback_bytes)
  last_code=$code
  join_tabs "$session" "$shape" "$layout" "$kind" "$name" "$warmup" "$code" "$((SECONDS - begin))" "$before" "$after" \
    "$stem" "$(printf '%q ' "${command[@]}")" >>"$study/runs.tsv"
  [ "$code" -eq 0 ] || echo "  failed with exit code $code: see $study/runs/$stem.log" >&2
}
