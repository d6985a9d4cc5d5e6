# ctest: name=peer_stores_kill labels=gpu,fault timeout=240 processors=2
"""Kills a random rank of a sweep whose reductions encode into peers' memory, so that streams of the others wait for its
flags: all others end within 30 seconds, not with exit code 0, and one line names the rank (random_kills.py has the
rules)."""

import random
import sys

import random_kills
import zpp

KILLS = 4


def main():
    zpp.skip_without_open_mpi("the test of kills under peer stores")
    gpus = len(zpp.gpus())
    if gpus < 2:
        print(f"skipped: 2 GPUs are needed, {gpus} are visible")
        return zpp.SKIPPED
    random_kills.RANKS = 4 if gpus >= 4 else 2
    random_kills.COMMANDS = {"sweep": [str(zpp.BIN / "zpp_sweep"), "-b", "1M", "-e", "64M", "-i", "1M", "-n", "20",
                                       "-w", "1", "-c", "0",
                                       "-N", "1", "--collective", "reduce_scatter", "--codec", "int4:128,int8:256",
                                       "--algorithm", "1-hop",
                                       "--pipeline-depth", "4", "-d", "bfloat16", "--backend", "cuda",
                                       "--peer-stores", "on"]}
    chance = random.Random(2306)
    problems = []
    for number in range(KILLS):
        rank, seconds, code, line, problem = random_kills.kill_one("sweep", chance, alone=number % 2 == 1)
        print(f"kill {number}: rank {rank}, all ended after {seconds} s with {code}: {line}")
        if problem:
            problems.append(problem)
            print(f"kill {number}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
