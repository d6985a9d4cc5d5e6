#!/usr/bin/env bash
# Loads the modules of the site that a script needs, and checks its Python modules before its runs. To be sourced, in
# the root of the source tree; the caller defines `fail`, which takes a message and ends.

# Loads modules of the site, in its jobs and on its login nodes; a dry run of submit shows commands elsewhere too.
load_modules() {  # NAME...
  if declare -F module >/dev/null || command -v module >/dev/null; then
    module load "$@"
  elif [ "${dry_run:-0}" -eq 0 ]; then
    # shellcheck disable=SC2154  # of the caller, with the name of this system
    fail "there is no command 'module' to load $1 and others: start it on the site of --system $system, or name another system"
  fi
}

# Prints the Python that CMake chose for a build, which has all modules but PyTorch; python3 where there is none.
python_of_build() {  # FOLDER
  local python
  python=$(sed -n 's/^ZEROPP_PYTHON:[A-Z]*=//p' "$1/CMakeCache.txt" 2>/dev/null) || true
  echo "${python:-python3}"
}

# Prints those of the modules that PYTHON cannot import, as "h5py, numpy"; ends where PYTHON is no Python. OPTION names another.
missing_modules() {  # PYTHON OPTION MODULE...
  local python=$1 option=$2 missing
  shift 2
  missing=$("$python" jobscripts/needed_modules.py "$@" 2>/dev/null) || fail "'$python' runs no Python program: name another Python with $option"
  echo "${missing//$'\n'/, }"
}

# Ends where PYTHON lacks one of the modules.
need_modules() {  # PYTHON OPTION MODULE...
  local missing
  missing=$(missing_modules "$@") || exit
  [ -z "$missing" ] || fail "'$1' has no Python module $missing: install what is missing, or name another Python with $2"
}
