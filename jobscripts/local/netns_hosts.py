"""The inside of netns.py: builds emulated hosts and the network between them, starts a program on them with Open MPI,
and counts what their interfaces sent. Runs as the first process of a namespace of processes of its own.

A host is a process that sleeps in namespaces of its own: network (interface eth0, address 10.77.0.N), UTS (hostname
emulatedN), IPC, and mounts with an own /dev/shm. MPI and the trainer therefore take it for a machine. The other end of
eth0 is a port of a bridge in the namespace of this process.

Shaping: a token bucket (tbf) on eth0 for what the host sends, and one on the port for what it receives: a full-duplex
link. The bucket holds what the rate sends in 1 ms, at least two of the largest packets (64 KiB: veth passes segments on
unsplit, and tbf counts a header for each). Queues hold 64 MB, more than all windows together, so that nothing is
dropped, as on a fabric with flow control; the JSON says what was dropped or sent again. Frames are of 9000 bytes.
Congestion control is reno, which every kernel has and which paces nothing.

Open MPI uses TCP over eth0 alone between hosts, and shared memory inside a host. An agent replaces ssh: it enters
remote hosts with nsenter. Open MPI's session folder lies in the host's /dev/shm and ends with it. Over slow links
(SLOW) long messages are sent in pieces, since messages that Open MPI sends whole leave such links idle.
"""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

UNSHAPED = "unshaped"
UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
LARGEST_PACKET = 64 * 1024
QUEUE = 64 * 10**6  # bytes
MTU = 9000
NETWORK = "10.77.0.0/24"
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with time stamps
DEADLINE = 20  # seconds, for what takes milliseconds
FAILED, IO, INTERRUPTED = 3, 5, 130

# Asks as rsh does: HOST COMMAND..., where the words of COMMAND are joined for a shell.
AGENT = """#!/bin/sh
host=$1
shift
exec nsenter --target "$(cat "/dev/shm/$host.pid")" --net --uts --ipc --mount --root --wd -- sh -c "$*"
"""

MCA = {
    "plm": "rsh", "plm_rsh_agent": "/dev/shm/agent", "plm_rsh_no_tree_spawn": "1",
    "orte_leave_session_attached": "1", "ras": "^slurm,gridengine,tm,lsf",
    "pml": "ob1", "btl": "vader,tcp,self", "btl_tcp_if_include": NETWORK, "oob_tcp_if_include": NETWORK,
    "btl_vader_single_copy_mechanism": "none", "mpi_yield_when_idle": "1", "orte_tmpdir_base": "/dev/shm",
}
TCP_FLAGS = "OMPI_MCA_btl_tcp_flags"
# Bits per second. Over faster links pieces cost a core another copy (results/host-2core/emulated-network).
SLOW = 2 * 10**9
SYSCTL = {"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1",
          "net/ipv4/tcp_congestion_control": "reno"}


def bits_per_second(rate):
    """Bits per second of a rate such as 100mbit; None for `unshaped`. Raises ValueError, whose text says what a rate
    is."""
    if rate == UNSHAPED:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(kbit|mbit|gbit)", rate)
    value = float(match[1]) * UNITS[match[2]] if match else 0
    if not 10**6 <= value <= 10**12:
        raise ValueError(f"'{rate}' is no rate between 1mbit and 1000gbit, and not {UNSHAPED}")
    return value


def burst(rate):
    return max(2 * LARGEST_PACKET, int(bits_per_second(rate) / 8 / 1000))


def shape(device, rate):
    if rate == UNSHAPED:
        return []
    return [["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", f"{burst(rate)}b",
             "limit", f"{QUEUE}b"]]


def tcp_flags(rate):
    """How Open MPI is told to send over links with this rate, by the caller first; None: it is not told."""
    speed = bits_per_second(rate)
    return os.environ.get(TCP_FLAGS, "send" if speed and speed <= SLOW else None)


def variables(rate):
    """Environment variables for Open MPI over links with this rate."""
    flags = tcp_flags(rate)
    return {**{f"OMPI_MCA_{name}": value for name, value in MCA.items()}, **({TCP_FLAGS: flags} if flags else {})}


def name_of(host):
    return f"emulated{host}"


def enter(pid):
    """--root and --wd: those of the process, so that it works in a chroot too."""
    return ["nsenter", "--target", str(pid), "--net", "--uts", "--ipc", "--mount", "--root", "--wd", "--"]


HOLD = ["unshare", "--net", "--uts", "--ipc", "--mount", "--", "sleep", "infinity"]


def switch_commands():
    return [["ip", "link", "add", "name", "switch", "mtu", str(MTU), "type", "bridge"],
            ["ip", "link", "set", "dev", "switch", "up"]]


def host_commands(host, pid, rate):
    """Commands that make a host of the sleeping process `pid`."""
    port = f"port{host}"
    inside = [["hostname", name_of(host)], ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm"],
              ["ip", "link", "set", "dev", "lo", "up"], ["ip", "address", "add", f"10.77.0.{host}/24", "dev", "eth0"],
              *shape("eth0", rate), ["ip", "link", "set", "dev", "eth0", "up"]]
    return [["ip", "link", "add", "name", port, "mtu", str(MTU), "type", "veth", "peer", "name", "eth0", "mtu", str(MTU),
             "netns", str(pid)],
            ["ip", "link", "set", "dev", port, "master", "switch"], *shape(port, rate),
            ["ip", "link", "set", "dev", port, "up"], *[[*enter(pid), *command] for command in inside]]


def launch_command(plan):
    """From the folder that we were called in; entering a host leads to its root."""
    hosts, ranks = plan["hosts"], plan["ranks_per_host"]
    where = ",".join(f"{name_of(host)}:{ranks}" for host in range(1, hosts + 1))
    return ["env", f"--chdir={os.getcwd()}", "mpirun", "-n", str(hosts * ranks), "--host", where, "--map-by", "slot", "--bind-to", "none",
            *plan["command"]]


def commands(plan):
    """All commands in order, for a reader: process ids are not known yet."""
    yield from switch_commands()
    for host in range(1, plan["hosts"] + 1):
        yield HOLD
        yield from host_commands(host, f"PID{host}", plan["rate"])
    settings = variables(plan["rate"])
    yield [*enter("PID1"), "env", *[f"{name}={value}" for name, value in settings.items()], *launch_command(plan)]


class Broken(Exception):
    """The cluster cannot be built."""


def call(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{shlex.join(command)}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return done.stdout


def write(before, path, text, executable=False):
    """To a file that the namespaces see which the command `before` enters."""
    call([*before, "tee", path], text)
    if executable:
        call([*before, "chmod", "+x", path])


def set_kernel(before):
    for path, value in SYSCTL.items():
        if Path("/proc/sys", path).exists():  # IPv6 may not be built in
            write(before, f"/proc/sys/{path}", value)


def hold():
    """A process in namespaces of its own, which it has when it sleeps."""
    process = subprocess.Popen(HOLD, stdin=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + DEADLINE
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
        if process.poll() is not None or time.monotonic() > end:
            raise Broken(f"{shlex.join(HOLD)}: does not start")
        time.sleep(0.005)
    return process.pid


def build(plan):
    """The process ids of the hosts."""
    set_kernel([])
    for command in switch_commands():
        call(command)
    pids = [hold() for _ in range(plan["hosts"])]
    names = "127.0.0.1 localhost\n"
    for host, pid in enumerate(pids, 1):
        names += f"10.77.0.{host} {name_of(host)}\n"
        set_kernel(enter(pid))
        for command in host_commands(host, pid, plan["rate"]):
            call(command)
    for pid in pids:
        write(enter(pid), "/dev/shm/hosts", names)
        call([*enter(pid), "mount", "--bind", "/dev/shm/hosts", "/etc/hosts"])
        write(enter(pid), "/dev/shm/agent", AGENT, executable=True)  # Open MPI wants it on every host
    for host, pid in enumerate(pids, 1):
        write(enter(pids[0]), f"/dev/shm/{name_of(host)}.pid", f"{pid}\n")
    return pids


def interface(pid):
    """Counters of a host's eth0 and its TCP so far."""
    line = next(line for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines() if line.strip().startswith("eth0:"))
    values = [int(value) for value in line.split(":")[1].split()]
    names, numbers = [line.split()[1:] for line in Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
                      if line.startswith("Tcp:")]
    return {"received_bytes": values[0], "received_packets": values[1], "sent_bytes": values[8], "sent_packets": values[9],
            "retransmitted_segments": int(numbers[names.index("RetransSegs")])}


def dropped(host, pid):
    """Packets that the queues of both ends of a host's link have dropped."""
    count = 0
    for before, device in ((enter(pid), "eth0"), ([], f"port{host}")):
        for queue in json.loads(call([*before, "tc", "-j", "-s", "qdisc", "show", "dev", device])):
            count += queue["drops"]
    return count


def busy_seconds():
    """Busy seconds of all cores of the machine since it started. Interrupts count too: Linux charges them to the
    process that they interrupt."""
    values = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, interrupt, deferred = values[:7]
    return (user + nice + system + interrupt + deferred) / os.sysconf("SC_CLK_TCK")


def used_seconds():
    """Seconds of processor time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(pids):
    return {"interfaces": [{**interface(pid), "dropped_packets": dropped(host, pid)} for host, pid in enumerate(pids, 1)],
            "seconds": time.monotonic(), "machine_cpu_seconds": busy_seconds(), "command_cpu_seconds": used_seconds()}


def report(plan, before, after, code):
    interfaces = [{"host": name_of(host), "interface": "eth0", **{name: new[name] - old[name] for name in new}}
                  for host, (old, new) in enumerate(zip(before["interfaces"], after["interfaces"]), 1)]
    total = {name: sum(interface[name] for interface in interfaces) for name in before["interfaces"][0]}
    spent = {name: after[name] - before[name] for name in ("seconds", "machine_cpu_seconds", "command_cpu_seconds")}
    others = (spent["machine_cpu_seconds"] - spent["command_cpu_seconds"]) / (spent["seconds"] * os.cpu_count())
    rate = plan["rate"]
    return {"schema": "zeropp-netns", "schema_version": "1.0", "emulated": True, "hosts": plan["hosts"],
            "ranks_per_host": plan["ranks_per_host"], "rate": rate, "bits_per_second": bits_per_second(rate),
            "mtu": MTU, "burst_bytes": None if rate == UNSHAPED else burst(rate), "command": plan["command"],
            "tcp_flags": tcp_flags(rate), "exit_code": code, **spent, "cores": os.cpu_count(), "others_cpu_share": max(others, 0.0),
            "interfaces": interfaces, "total": total, "header_bytes_per_packet": HEADERS,
            "payload_bytes": total["sent_bytes"] - HEADERS * total["sent_packets"]}


def reap(hosts):
    """Waits for what the launcher left to end by itself, so that its bytes and its time are counted."""
    end = time.monotonic() + DEADLINE
    keep = {1, *hosts}
    while {int(place.name) for place in Path("/proc").glob("[0-9]*")} - keep and time.monotonic() < end:
        if os.waitpid(-1, os.WNOHANG) == (0, 0):
            time.sleep(0.005)


def run(plan, pids):
    """The exit code of mpirun; of ours when a signal came."""
    environment = {**os.environ, **variables(plan["rate"]),
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ended = []
    launcher = subprocess.Popen([*enter(pids[0]), *launch_command(plan)], env=environment, stdin=subprocess.DEVNULL,
                                start_new_session=True)

    def end(*_):
        if not ended:
            ended.append(True)
            launcher.terminate()

    signal.signal(signal.SIGTERM, end)
    code = launcher.wait()
    reap(pids)
    return INTERRUPTED if ended else code if code >= 0 else 128 - code


def main(plan):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
    try:
        pids = build(plan)
        before = measure(pids)
        code = run(plan, pids)
        summary = report(plan, before, measure(pids), code)
    except (Broken, OSError) as error:
        print(f"netns: error: {error}: the emulated cluster cannot be built", file=sys.stderr)
        return FAILED
    if plan["counters"]:
        try:
            Path(plan["counters"]).write_text(json.dumps(summary, indent=2) + "\n")
        except OSError as error:
            print(f"netns: error: {plan['counters']} cannot be written ({error.strerror}): choose another file for "
                  "--counters", file=sys.stderr)
            return code or IO
    return code


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
