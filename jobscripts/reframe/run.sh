#!/usr/bin/env bash
# Runs zeropp's checks under ReFrame, which it installs with pip into a virtual environment of the tree, nowhere else.
#
# usage: jobscripts/reframe/run.sh [OPTION...] [-- REFRAME_ARGUMENT...]
#   --system NAME    system (or SYSTEM:PARTITION) of the settings: local, two-node-slurm [local]
#   --settings FILE  ReFrame's settings, of another site for example [jobscripts/reframe/settings.py]
#   --build DIR      zeropp as it was built, or the prefix where it is installed [build]
#   --output DIR     for everything that ReFrame writes [out/reframe/SYSTEM]
#   --venv DIR       the virtual environment; made where it is missing or has other versions than requirements.txt
#                    [.deps/reframe]
#   --python FILE    Python 3.11 or later with the module venv, to make it [python3]
#   --list           list the checks and what can be set, run none
#   --dry-run        print the command and do nothing
#   REFRAME_ARGUMENT passed on: -S nodes=4, -S ranks_per_node=8, -S ZppTrain.config=FILE, -n ZppTrain ...
# In DIR of --output lie report.json, perflogs/, reframe.log, and stage/ with the files of checks that failed.
#
# Exit codes: 0 every check passed; 1 one failed, or ReFrame refused its arguments; 2 usage, or no check ran; 3 no zeropp or
# no Python; 77 ReFrame cannot be installed here.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$root/jobscripts/reframe/run.sh"; }
fail() { echo "reframe: error: $2" >&2; exit "$1"; }
skip() { echo "reframe: skipped: $*" >&2; exit 77; }

system=local settings=$root/jobscripts/reframe/settings.py build=$root/build output='' venv=$root/.deps/reframe
python=python3 action=--run dry_run=0
while [ $# -gt 0 ]; do
  case $1 in
    --list) action=--list-detailed; shift; continue ;;
    --dry-run) dry_run=1; shift; continue ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    --*) [ $# -ge 2 ] || fail 2 "$1 needs a value, or is unknown (try --help)" ;;
  esac
  case $1 in
    --system) system=$2 ;;
    --settings) settings=$(realpath -m -- "$2") ;;
    --build) build=$(realpath -ms -- "$2") ;;
    --output) output=$(realpath -m -- "$2") ;;
    --venv) venv=$(realpath -m -- "$2") ;;
    --python) python=$2 ;;
    *) fail 2 "unknown argument '$1' (try --help)" ;;
  esac
  shift 2
done
output=${output:-$root/out/reframe/${system//[^A-Za-z0-9_-]/-}}
[ -f "$settings" ] || fail 2 "no settings file $settings"

checks=$root/jobscripts/reframe/zeropp_checks.py
for path in "$output" "$settings" "$checks"; do  # ReFrame hands these to a shell; what DIR of --build holds is quoted
  [[ $path =~ ^[[:alnum:]_./+,:@%=-]+$ ]] || fail 2 "ReFrame cannot cope with the name $path: letters, digits, _./+,:@%=- only"
done
report=$output/report.json
command=("$venv/bin/python" "$root/jobscripts/reframe/session.py" "$report" --config-file "$settings" --checkpath "$checks"
  --system "$system" --setvar "build=$build" --prefix "$output" --report-file "$report" --warn-as-error "$action" "$@")
if [ $dry_run -eq 1 ]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
for program in zpp_train zpp_info; do
  [ -x "$build/bin/$program" ] ||
    fail 3 "no $build/bin/$program: cmake --preset cpu && cmake --build --preset cpu --target zpp_train zpp_info"
done

# Makes the virtual environment; its stamp comes last, so that one that was interrupted is made again.
install_reframe() {
  local pinned=$root/jobscripts/reframe/requirements.txt log=$venv.log reason
  if cmp -s "$pinned" "$venv/pinned.txt" && [ -x "$venv/bin/python" ]; then return 0; fi
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail 3 "$python is no Python 3.11 or later: name one with --python"
  echo "reframe: installing ReFrame into $venv (pip; log in $log)"
  rm -rf "$venv"
  "$python" -m venv "$venv" >"$log" 2>&1 || skip "$python cannot make a virtual environment: install python3-venv ($log)"
  if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --requirement "$pinned" >>"$log" 2>&1; then
    reason=$(grep -m 1 '^ERROR' "$log" || echo "see $log")
    rm -rf "$venv"
    if grep -q 'from versions: none' <<<"$reason"; then skip "the index of Python packages cannot be reached ($log)"; fi
    fail 3 "pip could not install ReFrame: $reason"
  fi
  cp "$pinned" "$venv/pinned.txt"
}

mkdir -p "$output" "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9  # another run may be installing
install_reframe
exec 9>&-

# ReFrame keeps its log and what it finds out about the machine where it is started.
cd "$output"
export PYTHONDONTWRITEBYTECODE=1
exec "${command[@]}"
