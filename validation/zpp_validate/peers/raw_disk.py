"""What a disk gives and takes when several processes stream at once: the rate that offload to files is measured
against.

usage: zpp-validate raw-disk --folder DIR --processes N --bytes B --json FILE [--depth D] [--block B]

Each process has two nameless files of B bytes with room reserved, and D threads that each have one request of --block
bytes under way, one after the other through a file, past the page cache where the file system allows that (O_DIRECT).
Three rounds: both are written, the first is read, and the first is read while the second is written again. FILE gets
bytes and seconds of each, from the first process that begins to the last that ends. Standard library alone; shares no
code with the library."""

import json
import mmap
import os
from pathlib import Path
import threading
import time

from zpp_validate import command_line
from zpp_validate.peers import together


def open_file(folder, size):
    for direct in (os.O_DIRECT, 0):
        try:
            file = os.open(folder, os.O_TMPFILE | os.O_RDWR | direct, 0o600)
        except OSError:
            if not direct:
                raise
            continue
        os.posix_fallocate(file, 0, size)
        return file, bool(direct)


def stream(jobs, depth, block):
    """`jobs`: (call, file, bytes), each by `depth` threads, all at once."""
    failed = []

    def work(call, file, offsets):
        memory = mmap.mmap(-1, block)  # pages
        memory.write(os.urandom(4096) * (block // 4096))
        try:
            for offset in offsets:
                if call(file, [memory], offset) != block:
                    raise OSError(f"a transfer at byte {offset} is short")
        except OSError as error:
            failed.append(error)

    threads = []
    for call, file, size in jobs:
        offsets = iter(range(0, size, block))
        lock = threading.Lock()

        def take(offsets=offsets, lock=lock):
            while True:
                with lock:
                    offset = next(offsets, None)
                if offset is None:
                    return
                yield offset
        threads += [threading.Thread(target=work, args=(call, file, take())) for _ in range(depth)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def rounds(_, barrier, folder, size, depth, block):
    first, direct = open_file(folder, size)
    second, _ = open_file(folder, size)
    times = []
    for jobs in ([(os.pwritev, first, size), (os.pwritev, second, size)], [(os.preadv, first, size)],
                 [(os.preadv, first, size), (os.pwritev, second, size)]):
        barrier.wait()
        begin = time.monotonic()
        stream(jobs, depth, block)
        os.fdatasync(second)
        times.append((begin, time.monotonic()))
    return direct, times


def main(words):
    parser = command_line.parser("raw-disk", __doc__)
    parser.add_argument("--folder", type=command_line.InputFolder, required=True)
    parser.add_argument("--processes", type=command_line.positive, required=True)
    parser.add_argument("--bytes", type=command_line.positive, required=True,
                        help="of each file; rounded down to whole blocks")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--depth", type=command_line.positive, default=8)
    parser.add_argument("--block", type=command_line.positive, default=2**20)
    arguments = parser.parse_args(words)
    if arguments.block % 4096:
        parser.error(f"--block {arguments.block} is no multiple of 4096")
    size = max(1, arguments.bytes // arguments.block) * arguments.block
    found = together.run(arguments.processes, arguments.folder, rounds, arguments.folder, size, arguments.depth,
                         arguments.block)
    answer = {"processes": arguments.processes, "direct": all(direct for direct, _ in found)}
    for number, (name, files) in enumerate((("written", 2), ("read", 1), ("both", 2))):
        begins, ends = zip(*(times[number] for _, times in found))
        answer[name] = {"bytes": files * size * arguments.processes, "seconds": max(ends) - min(begins)}
    arguments.json.write_text(json.dumps(answer) + "\n", encoding="utf-8")
    print(", ".join(f"{name} {answer[name]['bytes'] / answer[name]['seconds'] / 1e9:.3f} GB/s"
                    for name in ("written", "read", "both")))
    return 0
