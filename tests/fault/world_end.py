# ctest: name=world_end timeout=120 processors=3
"""A failing rank ends all ranks: the right exit code, its line once, no hang."""
import os
import shlex
import subprocess
import sys

PROGRAM = os.path.join(os.environ["ZEROPP_TEST_BIN"], "world_end")
LINE = "world_end: error: rank 1 found no file"


def run(mode):
    command = shlex.split(os.environ["ZEROPP_MPIRUN"]) + ["-n", "3", PROGRAM, mode]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


failures = []
for mode in ("agreed", "abort", "unwinding"):
    result = run(mode)
    # Where a rank just leaves, MPICH's launcher kills the others, and may return their code.
    codes = (5, 9) if mode == "unwinding" and os.environ["ZEROPP_LAUNCHER"] != "openmpi" else (5,)
    if result.returncode not in codes:
        failures.append(f"{mode}: exit code {result.returncode}, not {codes[0]}")
    if result.stderr.count(LINE) != 1:
        failures.append(f"{mode}: the line appears {result.stderr.count(LINE)} times in:\n{result.stderr}")
print("\n".join(failures) or "every way of failing ends all ranks")
sys.exit(1 if failures else 0)
