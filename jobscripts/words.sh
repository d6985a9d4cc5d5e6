#!/usr/bin/env bash
# Checks of the words that both submit and the job scripts take. To be sourced, in the root of the source tree; the
# caller defines `fail`, which takes a message and ends.

check_system() {  # NAME
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ && -r jobscripts/systems/$1.sh ]] ||
    fail "no jobscripts/systems/$1.sh: there are $(cd jobscripts/systems && echo *.sh)"
}

check_max_restarts() {  # N
  [[ $1 =~ ^[0-9]{1,6}$ ]] || fail "--max-restarts '$1' is no number"
}
