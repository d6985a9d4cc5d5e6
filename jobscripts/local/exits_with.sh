#!/usr/bin/env bash
# Runs a command that has to end with exit code CODE. Exits with 0 when it does, else with 1.
#
# usage: jobscripts/local/exits_with.sh CODE COMMAND...
set -u
[ $# -ge 2 ] || { echo "exits_with: error: a code and a command are needed" >&2; exit 2; }
wanted=$1
shift
"$@"
code=$?
[ "$code" -eq "$wanted" ] || { echo "exits_with: error: exit code $code where $wanted was to come: $*" >&2; exit 1; }
