#!/usr/bin/env bash
# Fetches the headers of cuDNN's C++ front end with pip into .deps/cudnn-frontend/include; does nothing when
# they are there in the version that cmake/cudnn_frontend.txt pins. pip checks the archive's hash.
#
# usage: cmake/fetch_cudnn_frontend.sh
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pinned=$root/cmake/cudnn_frontend.txt
target=$root/.deps/cudnn-frontend
log=$root/out/cudnn-frontend.log

cmp -s "$pinned" "$target/pinned.txt" && exit 0
fail() { echo "setup: continuing without the headers of cuDNN's front end ($*); attention runs on cuBLASLt" >&2; exit 1; }
python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip"

mkdir -p "$(dirname "$log")" "$root/.deps"
work=$(mktemp -d "$root/.deps/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup: fetching the headers of cuDNN's front end (pip; log in out/cudnn-frontend.log)"
# One archive for every machine, whatever its Python: only headers are taken from it.
python3 -m pip download --disable-pip-version-check --no-input --no-deps --require-hashes \
  --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version 3.11 --implementation cp --abi cp311 \
  --dest "$work" --requirement "$pinned" >"$log" 2>&1 ||
  fail "$(grep -m 1 '^ERROR' "$log" || echo "see out/cudnn-frontend.log")"
python3 - "$work" >>"$log" 2>&1 <<'EOF' || fail "the archive could not be unpacked, see out/cudnn-frontend.log"
import pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(work / "unpacked", [name for name in archive.namelist() if name.startswith("include/")])
EOF
rm -rf "$target"
mv "$work/unpacked" "$target"
cp "$pinned" "$target/pinned.txt"
