#!/usr/bin/env python3
"""Runs an MPI program on a slow cluster that is emulated on this machine: hosts are network namespaces, the network is
shaped, and what the interfaces sent is written down.

usage: netns.py [OPTION...] [--] COMMAND [ARGUMENT...]
  --hosts N           emulated hosts, 2 to 16 [2]
  --ranks-per-host R  ranks of COMMAND on each [2]
  --rate RATE         of each host's link, in each direction, as 100mbit, 1gbit or unshaped [unshaped]
  --counters FILE     write what the interfaces sent and received to FILE (JSON)
  --dry-run           print the commands that would run, and run nothing
  --help

netns_hosts.py says how the hosts are built; Open MPI starts COMMAND on them as on a real cluster. All of it lives in a
namespace of processes whose end, however it comes, ends every process in it; with the last of them the interfaces, the
shaping and the mounts are gone. Nothing is visible from outside, so several clusters run at once.

Needs root or a kernel that lets users make namespaces, the packages iproute2 and util-linux, and Open MPI 4.
Exit codes: that of mpirun; 2 usage; 3 the cluster cannot be built; 5 FILE cannot be written; 77 this machine does not
allow it, with the reason; 130 ended by Ctrl-C, SIGTERM or SIGHUP.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import netns_hosts

USAGE, IO, SKIPPED, INTERRUPTED = 2, 5, 77, 130
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux",
            "setpriv": "util-linux", "mount": "mount", "hostname": "hostname", "mpirun": "openmpi-bin"}
WITHOUT_VALUE = ("--dry-run", "--help", "-h")
GRACE = 20  # seconds that the cluster has to end when it is asked to

# Everything that a cluster needs of the kernel, in namespaces that end with this command.
PROBE = """set -e
ip link add name probe0 type veth peer name probe1
ip link add name probe2 type bridge
tc qdisc add dev probe0 root tbf rate 1mbit burst 128kb limit 1mb
mount -t tmpfs tmpfs /dev/shm
hostname probe"""


def fail(code, message):
    print(f"netns: {'skipped' if code == SKIPPED else 'error'}: {message}", file=sys.stderr)
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(USAGE, f"{message} (try --help)")


def parse(words):
    """The options; COMMAND begins at the first word that is none of them, or after the first `--`."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        place += 1 if words[place] in WITHOUT_VALUE or "=" in words[place] else 2
    own, command = words[:place], words[place:]
    if command[:1] == ["--"]:
        command = command[1:]
    parser = Parser(prog="netns", add_help=False, allow_abbrev=False)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=2)
    parser.add_argument("--rate", default=netns_hosts.UNSHAPED)
    parser.add_argument("--counters", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    options = parser.parse_args(own)
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    if not 2 <= options.hosts <= 16:
        parser.error(f"--hosts {options.hosts}: 2 to 16 hosts can be built")
    if options.ranks_per_host < 1:
        parser.error(f"--ranks-per-host {options.ranks_per_host}: a host runs 1 rank or more")
    try:
        netns_hosts.bits_per_second(options.rate)
    except ValueError as error:
        parser.error(f"--rate: {error}")
    if not command:
        parser.error("no command: give it after the options")
    options.command = command
    return options


def namespaces():
    """The command that makes the namespaces of the cluster: their first process is killed with it, and it with us."""
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *as_user, "--mount", "--net", "--uts", "--ipc", "--pid", "--fork",
            "--kill-child", "--mount-proc", "--"]


def skip_where_impossible():
    for tool, package in PACKAGES.items():
        if shutil.which(tool) is None:
            fail(SKIPPED, f"no {tool} on the PATH: install the package {package}")
    probe = subprocess.run([*namespaces(), "sh", "-c", PROBE], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False)
    if probe.returncode != 0:
        said = " ".join(probe.stderr.split()) or f"exit code {probe.returncode}"
        fail(SKIPPED, f"namespaces with veth, bridge and tbf cannot be made here ({said}): run as root, in a container "
                      "with the capabilities NET_ADMIN and SYS_ADMIN")


def main(words):
    options = parse(words)
    plan = {"hosts": options.hosts, "ranks_per_host": options.ranks_per_host, "rate": options.rate,
            "counters": str(options.counters.absolute()) if options.counters else None, "command": options.command}
    inside = [*namespaces(), sys.executable, str(Path(netns_hosts.__file__).resolve()), json.dumps(plan)]
    if options.dry_run:
        print(shlex.join(inside))
        for command in netns_hosts.commands(plan):
            print(shlex.join(command))
        return 0
    skip_where_impossible()
    if options.counters:
        try:
            options.counters.parent.mkdir(parents=True, exist_ok=True)
            options.counters.write_text("")
        except OSError as error:
            fail(IO, f"{options.counters} cannot be written ({error.strerror}): choose another file for --counters")
    try:
        return run(inside)
    finally:
        if options.counters and options.counters.exists() and options.counters.stat().st_size == 0:
            options.counters.unlink()  # nothing has run


def run(inside):
    """The exit code of the cluster; our signals end it."""
    asked_to_end = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: asked_to_end.append(number))
    cluster = subprocess.Popen(inside, stdin=subprocess.DEVNULL, start_new_session=True)
    patience = 2 * GRACE  # in half seconds
    while True:
        try:
            code = cluster.wait(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            if asked_to_end:  # again and again: the first process of a namespace misses signals while it starts
                patience -= 1
                os.killpg(cluster.pid, signal.SIGTERM if patience > 0 else signal.SIGKILL)
    if asked_to_end:
        return INTERRUPTED
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
