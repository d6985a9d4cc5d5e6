"""Runs a script of examples/ on ranks of this host over gloo: losses by step, and the rows of its report."""

import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
ON_CPUS = SOURCE / "tests" / "support" / "on_cpus.py"
LOSS = re.compile(r"\bloss:? +([0-9.]+)|'loss': '?([0-9.]+)")


def run(*words, folder=None, python_path=(), limit=500, size=4):
    """The output of rank 0 of `size` ranks of torchrun's script. Raises AssertionError with it if a rank fails."""
    path = os.pathsep.join([*map(str, python_path), os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size),
         "--local-ranks-filter", "0",
         *map(str, words)], cwd=folder, capture_output=True, text=True, check=False, timeout=limit,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
             "TORCHDYNAMO_DISABLE": "1",
             "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr  # torchrun passes rank 0's own on by either


def losses(said):
    return [float(first or second) for first, second in LOSS.findall(said)]


def rows(said):
    """Words of each row of the report, by module and phase."""
    lines = said[said.index("as predicted"):].splitlines()[1:]
    end = next(index for index, line in enumerate(lines) if line.startswith("all "))
    return [re.split(r" {2,}", line) for line in lines[:end + 1]]


def check(case, plain, compressed, tolerance):
    """A run whose loss falls, and the same with codecs, near it; its report, in which both codecs have sent the bytes
    predicted."""
    before, after = losses(plain), losses(compressed)
    case.assertGreater(len(before), 4, plain)
    case.assertEqual(len(before), len(after), compressed)
    case.assertLess(before[-1], before[0] - 10 * tolerance, plain)
    case.assertLess(max(abs(a - b) for a, b in zip(before, after)), tolerance, f"{before}\n{after}")
    case.assertNotEqual(before, after, "nothing was compressed")
    found = rows(compressed)
    sent = {tuple(row[1:4]) for row in found[:-1]}
    case.assertLessEqual({("forward gather", "two-level", "int8:256"), ("backward gather", "two-level", "int8:256"),
                          ("reduce", "2-hop", "int4:128")}, sent, compressed)
    case.assertEqual({row[7] for row in found[:-1] if row[2] != "torch"}, {"yes"}, compressed)
    case.assertGreater(float(found[-1][3]), 0, compressed)
