#!/usr/bin/env bash
# Installs ml_dtypes with pip into .deps/ml_dtypes; does nothing when it is there in the version that
# cmake/ml_dtypes.txt pins. NumPy is the system's.
#
# usage: cmake/fetch_ml_dtypes.sh
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pinned=$root/cmake/ml_dtypes.txt
target=$root/.deps/ml_dtypes
log=$root/out/ml-dtypes.log

cmp -s "$pinned" "$target/pinned.txt" && exit 0
fail() { echo "setup: going on without ml_dtypes ($*); a test of the small floats is skipped" >&2; exit 1; }
python=''
for candidate in /usr/bin/python3 python3; do  # as CMake looks for one with NumPy
  if "$candidate" -c 'import numpy, pip' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || fail "no python3 with NumPy and pip"

mkdir -p "$(dirname "$log")" "$root/.deps"
work=$(mktemp -d "$root/.deps/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup: fetching ml_dtypes (pip; log in out/ml-dtypes.log)"
"$python" -m pip install --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
  --target "$work/ml_dtypes" --requirement "$pinned" >"$log" 2>&1 ||
  fail "$(grep -m 1 '^ERROR' "$log" || echo "see out/ml-dtypes.log")"
PYTHONPATH=$work/ml_dtypes "$python" -c 'import ml_dtypes' >>"$log" 2>&1 ||
  fail "$python cannot import it, see out/ml-dtypes.log"
cp "$pinned" "$work/ml_dtypes/pinned.txt"
rm -rf "$target"
mv "$work/ml_dtypes" "$target"
