# ctest: name=contract4_demo_runs_pmpi timeout=200 labels=oracle processors=4
"""The five configurations of the demo, run as they are under a counter at MPI's profiling interface: what MPI was
given, by link class, equals what the trace counted over all its collectives, and every step equals its prediction.

usage: demo_pmpi.py [STEPS]
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import h5py

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
TRAIN = pathlib.Path(os.environ["ZEROPP_BIN"]) / "zpp_train"
COUNTER = pathlib.Path(os.environ["ZEROPP_TEST_BIN"]) / "libpmpi_dump.so"
MPIRUN = shlex.split(os.environ["ZEROPP_MPIRUN"])
QWZ, HPZ, QGZ = "--zero-quantized-weights", "--zero-hpz-partition-size=2", "--zero-quantized-gradients"
RUNS = {"zero3": [], "qwz": [QWZ], "hpz": [HPZ], "qgz": [QGZ],
        "all": [QWZ, HPZ, QGZ, "--all-gather-algorithm=two-level"]}
RANKS, RANKS_PER_NODE = 4, 2


def seen_by_mpi(prefix):
    """Bytes inside nodes and across them, over all ranks."""
    intra = inter = 0
    for rank in range(RANKS):
        for line in pathlib.Path(f"{prefix}.{rank}").read_text().splitlines():
            peer, sent = map(int, line.split())
            if peer // RANKS_PER_NODE != rank // RANKS_PER_NODE:
                inter += sent
            elif peer != rank:
                intra += sent
    return intra, inter


def main():
    steps = sys.argv[1] if len(sys.argv) > 1 else "4"
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, flags in RUNS.items():
            folder = pathlib.Path(scratch) / name
            counts = pathlib.Path(scratch) / f"{name}.bytes"
            subprocess.run([*MPIRUN, "-n", str(RANKS), "env", f"LD_PRELOAD={COUNTER}", f"ZEROPP_PMPI_OUTPUT={counts}",
                            TRAIN, "--config", SOURCE / "inputs" / "demo.json", "--train-iters", steps,
                            "--output", folder, *flags],
                           check=True, stdout=subprocess.DEVNULL)
            with h5py.File(folder / "train.h5") as trace:
                rows, step = trace["collectives"], trace["steps"]
                counted = tuple(int(rows[f"wire_bytes_{link}"][:].sum()) for link in ("intra", "inter"))
                as_predicted = all((step[f"bytes_{link}"][:] == step[f"bytes_predicted_{link}"][:]).all()
                                   for link in ("intra_node", "inter_node"))
            seen = seen_by_mpi(counts)
            agrees = counted == seen and as_predicted and min(seen) > 0
            failures += not agrees
            print(f"{name:6s} {'agrees' if agrees else 'DIFFERS'}: MPI saw {seen[0]} bytes inside nodes and "
                  f"{seen[1]} across, "
                  f"the trace counted {counted[0]} and {counted[1]}; steps as predicted: {as_predicted}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
