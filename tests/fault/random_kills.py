# ctest: name=random_kills labels=fault,nightly timeout=300 processors=4
"""Kills a random rank of training and of sweeps at a random point: all others end within 30 seconds, not with exit code
0, and one line names the rank and its or the others' operation. Every other run has a launcher that does not end the
ranks itself (Open MPI's --enable-recovery), as srun may be.

  random_kills.py [--count 2] [--seed 1] [--table FILE]     runs of each program; a row of each run

The table in results/host-2core/rank-kills/ is of --count 200."""

import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time

import zpp

RANKS = 4
LIMIT = 30  # seconds from the kill until no rank is left
COMMANDS = {
    "train": zpp.train_command("--train-iters", "1000000", "--log-interval", "5", "--node-size", "2"),
    "sweep": [str(zpp.BIN / "zpp_sweep"), "-b", "1K", "-e", "64M", "-i", "64", "-n", "1", "-w", "1", "--collective",
              "all_gather", "--codec", "none,int8:256", "--backend", "host"],
}
LINE = re.compile(r"rank (?P<rank>\d+) on \S+ died; it was .* \d+ of group \S+")
LINES = 60  # of output, at most, before the kill


def gone(pids, limit):
    """Seconds until no process of `pids` is left, or None."""
    begin = time.monotonic()
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() - begin > limit:
            return None
        time.sleep(0.02)
    return time.monotonic() - begin


def rank_of(pid):
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    name = b"OMPI_COMM_WORLD_RANK="
    return next(int(variable[len(name):]) for variable in environment if variable.startswith(name))


def kill_one(program, chance, alone):
    """(rank, seconds until all ended, exit code, line of the program, what is wrong with it or None)"""
    # A launcher that continues returns no useful exit code: each rank writes its own.
    recovery = ["--enable-recovery"] if alone else []
    keep = ["/bin/sh", "-c", '"$@"; echo $? > "code.$OMPI_COMM_WORLD_RANK"', "sh"] if alone else []
    rank, lines = chance.randrange(RANKS), chance.randint(1, LINES)
    with tempfile.TemporaryDirectory(prefix="zpp-") as folder:
        out = pathlib.Path(folder) / "out"
        process = zpp.Process([*zpp.MPIRUN, *recovery, "-n", str(RANKS), *keep, *COMMANDS[program],
                               "--output", str(out)], cwd=folder,
                              patient=True)
        try:
            for number, _ in enumerate(process.process.stdout):
                if number >= lines + 10:  # the sweep's head
                    break
            pids = process.pids(f"zpp_{program}")
            if len(pids) != RANKS:
                return rank, None, "-", "", f"{len(pids)} ranks before the kill: {process.process.stderr.read()}"
            os.kill(next(pid for pid in pids if rank_of(pid) == rank), signal.SIGKILL)
            begin = time.monotonic()
            result = process.end(2 * LIMIT)
            seconds = time.monotonic() - begin
            left = gone(pids, LIMIT)
            codes = {int(path.suffix[1:]): int(path.read_text()) for path in pathlib.Path(folder).glob("code.*")}
        finally:
            process.stop()
        errors = result.errors(f"zpp_{program}")
        line = errors[0].replace(str(out), "out") if errors else ""
        found = LINE.match(line)
        problem = None
        if left is None or seconds + left > LIMIT:
            problem = f"ranks are left after {LIMIT} s"
        elif result.code == 0 and not alone:
            problem = "exit code 0"
        elif alone and codes != {each: 137 if each == rank else 124 for each in range(RANKS)}:
            problem = f"rank {rank} was killed, and the ranks ended with {codes}"
        elif len(errors) != 1 or not found or int(found["rank"]) != rank:
            problem = f"rank {rank} was killed: {result.stderr}"
        elif [path for path in out.rglob("*") if not path.name.startswith("flight-record.")
              and not path.name.endswith(".lock")]:
            problem = f"files left: {sorted(out.rglob('*'))}"
        shown = " ".join(str(codes[each]) for each in sorted(codes)) if alone else str(result.code)
        return rank, seconds + (left or 0), shown, line, problem


def main():
    zpp.skip_without_open_mpi("the test of random kills")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    chances = {program: random.Random(f"{program} {arguments.seed}") for program in COMMANDS}
    rows, problems, seconds = ["program\tlauncher\trank\tseconds\tcode\tline"], [], {}
    for number in range(arguments.count):
        alone = number % 2 == 1
        done = zpp.side_by_side(lambda program: kill_one(program, chances[program], alone), COMMANDS)
        for program, (rank, time_left, code, line, problem) in zip(COMMANDS, done):
            launcher = "waits" if alone else "ends all"
            rows.append("\t".join([program, launcher, str(rank), "-" if time_left is None else f"{time_left:.2f}",
                                   code, line]))
            seconds.setdefault((program, launcher), []).append(time_left or float("inf"))
            if problem:
                problems.append(f"{program}, run {number}: {problem}")
                print(problems[-1], file=sys.stderr, flush=True)
            if arguments.table:
                arguments.table.write_text("\n".join(rows) + "\n")
    for (program, launcher), each in seconds.items():
        print(f"{program}, the launcher {launcher}: {len(each)} kills, all ranks gone after "
              f"{statistics.median(each):.2f} s "
              f"(median), {max(each):.2f} s (most)")
    print(f"{len(problems)} of {len(rows) - 1} runs were not as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
