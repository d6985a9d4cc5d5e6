"""How fast the memory of a host is copied, as STREAM's copy: the rate that the optimizer's step on the host is measured
against.

usage: zpp-validate raw-copy --bytes B --json FILE [--threads N] [--repetitions R]

Two arrays of B bytes, much larger than the caches, in N threads (all processors that may be used), each bound to a
processor and with a part of its own that it touches first: memory may come only as it is touched. One round more than R
is copied, and the first not counted. FILE gets the bytes of a round, read + written; the seconds of each, from the
first thread that begins to the last that ends; the least and the median. NumPy, which lets other threads run while it
copies; shares no code with the library."""

import json
import os
from pathlib import Path
import statistics
import threading
import time

import numpy as np

from zpp_validate import command_line
from zpp_validate.problem import CHECK_FAILED, ENVIRONMENT, Problem

BEFORE, AFTER = 1, 2  # of an element: what a target has, and what a copy leaves


def copies(source, target, processor, barrier, times, wrong):
    try:
        os.sched_setaffinity(0, {processor})  # this thread alone
        source.fill(AFTER)
        target.fill(BEFORE)
        for of_round in times:
            barrier.wait()
            begin = time.perf_counter()
            np.copyto(target, source)
            of_round.append((begin, time.perf_counter()))
    except (OSError, threading.BrokenBarrierError):
        barrier.abort()  # the others do not wait for it
    if not np.array_equal(target, source):
        wrong.append(processor)


def measure(size, count, repetitions):
    """Seconds of each round."""
    processors = sorted(os.sched_getaffinity(0))
    elements = size // np.dtype(np.int64).itemsize
    source, target = (np.empty(elements, np.int64) for _ in range(2))
    barrier = threading.Barrier(count)
    times, wrong = [[] for _ in range(1 + repetitions)], []
    threads = []
    for i in range(count):
        part = slice(elements * i // count, elements * (i + 1) // count)
        threads.append(threading.Thread(target=copies, args=(source[part], target[part],
                                                             processors[i % len(processors)], barrier, times, wrong)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong or any(len(of_round) != count for of_round in times):
        raise Problem(f"not every thread copied its part, on the processors {sorted(wrong)}: give fewer --threads",
                      CHECK_FAILED)
    return [max(end for _, end in of_round) - min(begin for begin, _ in of_round) for of_round in times[1:]]


def main(words):
    parser = command_line.parser("raw-copy", __doc__)
    parser.add_argument("--bytes", type=command_line.positive, required=True,
                        help="of each array; rounded down to whole elements of 8")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--threads", type=command_line.positive, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=command_line.positive, default=10)
    arguments = parser.parse_args(words)
    if arguments.bytes // 8 < arguments.threads:
        parser.error("--bytes is less than 8 bytes a thread")
    try:
        seconds = measure(arguments.bytes, arguments.threads, arguments.repetitions)
    except (MemoryError, ValueError):  # of NumPy: more than an address has
        raise Problem(f"two arrays of {arguments.bytes} bytes do not fit into the memory of this host: lower --bytes",
                      ENVIRONMENT) from None
    moved = 2 * (arguments.bytes // 8 * 8)
    answer = {"threads": arguments.threads, "bytes": moved, "seconds": seconds, "best": min(seconds),
              "median": statistics.median(seconds)}
    arguments.json.write_text(json.dumps(answer) + "\n", encoding="utf-8")
    print(f"{moved / 1e9:.3f} GB read + written by {arguments.threads} threads: {moved / answer['best'] / 1e9:.1f} "
          f"GB/s at best, "
          f"{moved / answer['median'] / 1e9:.1f} in the median of {len(seconds)}")
    return 0
