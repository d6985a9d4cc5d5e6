#!/usr/bin/env python3
"""How many layers a model may have whose device takes at most so many bytes, by zpp_plan estimate.

usage: largest_model.py --plan FILE --limit BYTES [--most N] -- FLAG...

FLAG: of zpp_plan estimate, and of the trainer, but --num-layers. Prints the number; 0: not even one layer fits."""

import argparse
import json
from pathlib import Path
import subprocess
import sys
import tempfile

BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def byte_count(text):
    """As the programs read it: K, M, G are powers of 1024."""
    return int(text[:-1]) * BINARY[text[-1]] if text[-1:] in BINARY else int(text)


def memory_of(plan, layers, flags, folder):
    summary = folder / "plan.json"
    done = subprocess.run([plan, "estimate", "--nodes", "1", "--ranks-per-node", "1", "--num-layers", str(layers), *flags, "--output", folder,
                           "--json", summary], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return json.loads(summary.read_text(encoding="utf-8"))["job"]["memory_bytes"]


def largest(fits, most):
    """The largest n of 0..most with fits(n); every smaller one does too."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path)
    parser.add_argument("--limit", required=True, type=byte_count, help="K, M, G: times 1024, ...")
    parser.add_argument("--most", type=int, default=4096, help="layers that are tried")
    parser.add_argument("flags", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(largest(lambda layers: memory_of(arguments.plan, layers, arguments.flags, Path(folder)) <= arguments.limit, arguments.most))
        except (OSError, ValueError) as error:
            print(f"largest_model: error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
