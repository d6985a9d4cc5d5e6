#!/usr/bin/env bash
# Installs a Python package with pip into .deps/MODULE; does nothing when it is there in the version that
# cmake/MODULE.txt pins. NumPy is the system's.
#
# usage: cmake/fetch_python_package.sh MODULE WHAT
#   MODULE   the name under which Python imports the package
#   WHAT     what is skipped without it, for the message
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
module=$1 what=$2
pinned=$root/cmake/$module.txt
target=$root/.deps/$module
log=$root/out/$module.log

cmp -s "$pinned" "$target/pinned.txt" && exit 0
fail() { echo "setup: continuing without $module ($*); $what is skipped" >&2; exit 1; }
python=''
for candidate in /usr/bin/python3 python3; do  # as CMake looks for one with NumPy
  if "$candidate" -c 'import numpy, pip' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || fail "no python3 with NumPy and pip"

mkdir -p "$(dirname "$log")" "$root/.deps"
work=$(mktemp -d "$root/.deps/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup: fetching $module (pip; log in out/$module.log)"
"$python" -m pip install --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
  --target "$work/$module" --requirement "$pinned" >"$log" 2>&1 ||
  fail "$(grep -m 1 '^ERROR' "$log" || echo "see out/$module.log")"
PYTHONPATH=$work/$module "$python" -c "import $module" >>"$log" 2>&1 ||
  fail "$python cannot import it, see out/$module.log"
cp "$pinned" "$work/$module/pinned.txt"
rm -rf "$target"
mv "$work/$module" "$target"
