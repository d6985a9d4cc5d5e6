#!/usr/bin/env bash
# The command line of the studies' scripts. To be sourced in the project's folder by a script of jobscripts/local/, whose
# usage is its head comment, up to `set`.
# shellcheck disable=SC2034  # what is set here, the callers read

script_name=$(basename "$0")

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "jobscripts/local/$script_name"; }
fail() { echo "${script_name%.sh}: error: $*" >&2; exit 2; }

# shellcheck source=jobscripts/needed.sh
source jobscripts/needed.sh

# Sets the variables that WORDs name. LIST says which there are:
#   NAME           --NAME VALUE, of the variable NAME with _ for -
#   NAME=VARIABLE  the same, of another variable
#   NAME!          --NAME sets the variable to 1
#   +VARIABLE      one word that begins with no -
#   --             words after -- go into the array `extra`
# --dry-run sets dry_run to 1, and --help prints the usage and ends.
read_options() {  # LIST WORD...
  local entry key word='' more=0
  local -A variable=() flag=()
  for entry in $1; do
    case $entry in
      --) more=1 ;;
      +*) word=${entry#+} ;;
      *!) key=${entry%!} && flag[$key]=${key//-/_} ;;
      *=*) variable[${entry%%=*}]=${entry#*=} ;;
      *) variable[$entry]=${entry//-/_} ;;
    esac
  done
  shift
  while [ $# -gt 0 ]; do
    key=${1#--}
    case $1 in
      --dry-run) dry_run=1 ;;
      -h | --help) usage; exit 0 ;;
      --)
        [ "$more" -eq 1 ] || fail "nothing may follow -- (try --help)"
        shift
        extra=("$@")
        return
        ;;
      --*)
        if [ -n "${flag[$key]:-}" ]; then
          printf -v "${flag[$key]}" 1
        else
          [ -n "${variable[$key]:-}" ] || fail "unknown argument '$1' (try --help)"
          [ $# -ge 2 ] || fail "$1 needs a value (try --help)"
          printf -v "${variable[$key]}" '%s' "$2"
          shift
        fi
        ;;
      *)
        [ -n "$word" ] || fail "unknown argument '$1' (try --help)"
        [ -z "${!word}" ] || fail "one $word at a time, not also '$1'"
        printf -v "$word" '%s' "$1"
        ;;
    esac
    shift
  done
}
