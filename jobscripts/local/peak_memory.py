#!/usr/bin/env python3
"""Runs a command and keeps in FOLDER/RANK how much memory of the host it had resident at most, in bytes.

usage: peak_memory.py FOLDER COMMAND...

RANK is Open MPI's, or 0. Exits with the command's exit code."""

import os
from pathlib import Path
import resource
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    code = subprocess.run(sys.argv[2:], check=False).returncode
    folder.mkdir(parents=True, exist_ok=True)
    peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # Linux counts KiB
    (folder / os.environ.get("OMPI_COMM_WORLD_RANK", "0")).write_text(f"{peak}\n", encoding="utf-8")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
