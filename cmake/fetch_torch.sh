#!/usr/bin/env bash
# Makes a virtual environment with PyTorch in .deps/torch-VERSION, from PyPI (5.6 GB, about two minutes). Does nothing when
# it is there with the packages that cmake/torch-VERSION.txt pins.
#
# usage: cmake/fetch_torch.sh newest|oldest
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
case ${1:-} in newest | oldest) ;; *) echo "usage: cmake/fetch_torch.sh newest|oldest" >&2; exit 2 ;; esac
pinned=$root/cmake/torch-$1.txt
target=$root/.deps/torch-$1
log=$root/out/torch-$1.log

cmp -s "$pinned" "$target/pinned.txt" && exit 0
fail() { echo "setup: error: no PyTorch ($*)" >&2; exit 3; }
# The Python that the build takes: the module that it makes loads in no other version.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

mkdir -p "$(dirname "$log")" "$root/.deps"
rm -rf "$target"
echo "setup: installing PyTorch into .deps/torch-$1 (pip; log in out/torch-$1.log)"
"$python" -m venv "$target" >"$log" 2>&1 || fail "$python makes no virtual environment: install python3-venv"
"$target/bin/python" -m pip install --disable-pip-version-check --no-input --no-cache-dir --only-binary=:all: \
  --requirement "$pinned" >>"$log" 2>&1 || fail "$(grep -m 1 '^ERROR' "$log" || echo "see out/torch-$1.log")"
"$target/bin/python" -c "import torch" >>"$log" 2>&1 || fail "torch cannot be imported: see out/torch-$1.log"
cp "$pinned" "$target/pinned.txt"
