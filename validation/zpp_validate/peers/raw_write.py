"""What a disk takes when several processes write at once: the limit that checkpoints are measured against.

usage: zpp-validate raw-write --folder DIR --processes N --bytes B --json FILE

Each process writes B bytes to a file of its own, in writes of 16 MiB of random values, and flushes it to the disk
(fsync). FILE gets the bytes of all, and the seconds between the first that begins and the last that has flushed. The
files are removed. Standard library alone."""

import json
import os
from pathlib import Path
import time

from zpp_validate import command_line
from zpp_validate.peers import together

BLOCK = 16 * 2**20


def write(index, barrier, paths, count, block):
    """Seconds at which it began and ended, on a clock that processes share."""
    barrier.wait()
    begin = time.monotonic()
    with open(paths[index], "wb", buffering=0) as file:
        while count > 0:
            count -= file.write(block[:count])
        os.fsync(file.fileno())
    return begin, time.monotonic()


def main(words):
    parser = command_line.parser("raw-write", __doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--processes", type=command_line.positive, required=True)
    parser.add_argument("--bytes", type=command_line.positive, required=True, help="of each process")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args(words)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    paths = [arguments.folder / f"raw-write-{os.getpid()}-{i}" for i in range(arguments.processes)]
    block = memoryview(os.urandom(BLOCK))
    try:
        times = together.run(len(paths), arguments.folder, write, paths, arguments.bytes, block)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
    begins, ends = zip(*times)
    seconds = max(ends) - min(begins)
    total = arguments.bytes * len(paths)
    arguments.json.write_text(json.dumps({"bytes": total, "seconds": seconds, "processes": len(paths)}) + "\n",
                              encoding="utf-8")
    print(f"{total / 1e9:.3f} GB in {seconds:.3f} s: {total / seconds / 1e9:.3f} GB/s")
    return 0
