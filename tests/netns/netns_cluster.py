# ctest: name=netns_cluster timeout=120 labels=netns,nightly processors=2
"""jobscripts/local/netns.py: emulated hosts are hosts to MPI and to the trainer, their link has the requested rate,
their interfaces have sent the bytes that the trace counts, and nothing is left of them, however they ended. The test is
skipped where namespaces cannot be made."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest.mock
import uuid

import zpp

NETNS = [sys.executable, zpp.SOURCE / "jobscripts" / "local" / "netns.py"]
MARKER = "ZEROPP_TEST_MARKER"
AGREE = 0.03  # relative difference of the bytes that interfaces sent, with headers, and the counted bytes

# Bytes of weights and gradients, in bf16: large beside what starting and ending a program sends.
MODEL = ["--num-layers", "2", "--hidden-size", "256", "--num-attention-heads", "4", "--seq-length", "8", "--vocab-size",
         "512", "--micro-batch-size", "1", "--train-iters", "6", "--bf16", "--backend", "host"]

# The first rank sends to the last over a socket, then the other way round; the receiver prints bits per second.
TRANSFER = """
import os, socket, sys, time
rank, peer, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), sys.argv[1], int(sys.argv[2])
if rank == 0:
    link = socket.create_server(("0.0.0.0", 7000)).accept()[0]
else:
    end = time.monotonic() + 20
    while True:
        try:
            link = socket.create_connection((peer, 7000))
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
for sender in (0, 1):
    if rank == sender:
        link.sendall(bytes(size))
        assert link.recv(1) == b"."
    else:
        warm, left, begin = size // 4, size, None
        while left:
            left -= len(link.recv(min(left, 1 << 20)))
            if begin is None and left <= size - warm:
                begin, counted = time.monotonic(), left
        print("rate", rank, 8 * counted / (time.monotonic() - begin), flush=True)
        link.sendall(b".")
"""


def processes(marker):
    """The processes that have the marker in their environment: all processes of netns.py inherit it."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARKER}={marker}".encode() in (place / "environ").read_bytes():
                found.append((place.name, (place / "cmdline").read_bytes()))
    return found


def surroundings():
    """The traces of a cluster outside of it: interfaces, mounts, the hostname, and Open MPI's files."""
    mounts = [line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
              if line.split()[1] in ("/dev/shm", "/etc/hosts", "/proc")]
    interfaces = [name for name in os.listdir("/sys/class/net") if name.startswith(("eth", "port", "switch", "probe"))]
    files = [path for folder in ("/tmp", "/dev/shm") for path in pathlib.Path(folder).glob("*emulated*")]
    return sorted(interfaces), mounts, os.uname().nodename, sorted(files)


class Cluster(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.marker = uuid.uuid4().hex
        self.before = surroundings()
        self.addCleanup(self.check_nothing_stays)

    def check_nothing_stays(self):
        end = time.monotonic() + 10
        while processes(self.marker) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes(self.marker), [])
        self.assertEqual(surroundings(), self.before)

    def start_cluster(self, *words, **environment):
        process = zpp.Process([*NETNS, *words], cwd=self.folder, env={MARKER: self.marker, **environment})
        self.addCleanup(process.stop)
        return process

    def cluster(self, *words, **environment):
        return self.start_cluster(*words, **environment).end()

    def wait_for(self, *paths):
        end = time.monotonic() + 20
        while not all(path.exists() for path in paths):
            self.assertLess(time.monotonic(), end, f"no {paths}")
            time.sleep(0.02)

    def test_a_command_that_ends_well_or_badly(self):
        """Its words arrive as they are, its folder is ours, and its exit code comes back."""
        awkward = ["a b", "it's", '"quoted"', "$(touch broken)", "`touch broken`", "", "*", "-- "]
        # One write: the launcher puts together what several programs write piece by piece.
        say = "import os, sys; os.write(1, f'{os.uname().nodename} {os.getcwd()} {sys.argv[1:]}\\n'.encode())"
        result = self.cluster("--", sys.executable, "-c", say, *awkward)
        self.assertEqual(result.code, 0, result)
        wanted = sorted(f"emulated{host} {self.folder} {awkward}" for host in (1, 1, 2, 2))
        self.assertEqual(sorted(result.stdout.splitlines()), wanted, result)
        self.assertEqual(list(self.folder.iterdir()), [])
        result = self.cluster("--ranks-per-host", "1", "sh", "-c", "exit 7")
        self.assertEqual(result.code, 7, result)

    def check_ends(self, number, code):
        here = [self.folder / f"rank{rank}" for rank in range(4)]
        say = 'touch "rank$OMPI_COMM_WORLD_RANK"; exec sleep 3600'
        process = self.start_cluster("--counters", self.folder / "sent.json", "--", "sh", "-c", say)
        self.wait_for(*here)
        self.assertGreater(len(processes(self.marker)), 8)  # hosts, launcher, ranks: the search finds them
        process.process.send_signal(number)
        self.assertEqual(process.end().code, code)

    def test_sigterm(self):
        self.check_ends(signal.SIGTERM, zpp.INTERRUPTED)
        self.assertEqual(json.loads((self.folder / "sent.json").read_text())["exit_code"], zpp.INTERRUPTED)

    def test_ctrl_c(self):
        self.check_ends(signal.SIGINT, zpp.INTERRUPTED)

    def test_sigkill(self):
        """Even what cannot be trapped leaves nothing."""
        self.check_ends(signal.SIGKILL, -signal.SIGKILL)

    def test_rate_of_the_link_with_two_clusters_at_once(self):
        """Each has a network of its own, with the same addresses; the payload of frames of 9014 bytes is 8948. A busy
        machine may not fill the faster link."""
        megabit, least = {"200mbit": 2e8, "1gbit": 1e9}, {"200mbit": 0.90, "1gbit": 0.25}
        running = {rate: self.start_cluster("--ranks-per-host", "1", "--rate", rate, "--", sys.executable,
                                            "-c", TRANSFER,
                                            "emulated1", str(int(nominal / 8))) for rate, nominal in megabit.items()}
        for rate, process in running.items():
            result = process.end()
            self.assertEqual(result.code, 0, result)
            lines = [line.split() for line in result.stdout.splitlines() if line.startswith("rate")]
            self.assertEqual(sorted(line[1] for line in lines), ["0", "1"], result)  # both directions
            for line in lines:
                share = float(line[2]) / megabit[rate]
                self.assertLess(share, 1.02, result)
                self.assertGreater(share, least[rate], result)
            print(f"{rate}: goodput {' and '.join(line[2] for line in lines)} bit/s")

    def check_counters(self, name, *algorithms):
        """At 1 Gb/s on 2 hosts x 2 ranks. Nothing is subtracted from what the interfaces sent: headers, launch, control
        messages and acknowledgements are the difference."""
        counters, out = self.folder / f"{name}.json", self.folder / name
        result = self.cluster("--rate", "1gbit", "--counters", counters, "--",
                              *zpp.train_command(*MODEL, *algorithms, out=out))
        self.assertEqual(result.code, 0, result)
        self.assertIn("on 2 nodes x 2 ranks", result.stdout)
        root, groups = self.trace(out)
        self.assertEqual((root["verdict"], root["node_count"], root["ranks_per_node"]), ("VALID", 2, 2))
        self.assertEqual(groups["ranks"]["host"], ["emulated1", "emulated1", "emulated2", "emulated2"])
        self.assertEqual(set(groups["collectives"]["modelled"]), {0})
        counted, seen = sum(groups["collectives"]["wire_bytes_inter"]), json.loads(counters.read_text())
        sent, payload = seen["total"]["sent_bytes"], seen["payload_bytes"]
        print(f"{name}: counted {counted}, interfaces sent {sent} ({sent / counted - 1:+.2%}), without headers "
              f"{payload} ({payload / counted - 1:+.2%}), sent again {seen['total']['retransmitted_segments']} "
              f"segments")
        self.assertGreater(counted, 20e6)
        self.assertGreaterEqual(payload, counted)  # every counted byte went over the wire
        self.assertLess(sent, (1 + AGREE) * counted)
        self.assertEqual(seen["total"]["dropped_packets"], 0)
        self.assertEqual(seen["exit_code"], 0)
        for interface in seen["interfaces"]:  # the algorithms are symmetric
            self.assertAlmostEqual(interface["sent_bytes"] / sent, 0.5, delta=0.02)
        return groups["collectives"]["algorithm"]

    def test_interfaces_sent_what_the_trace_counts(self):
        for name, gather, reduce in (("flat", "flat", "flat"), ("two-level", "two-level", "flat"),
                                     ("2-hop", "flat", "2-hop")):
            with self.subTest(name):
                ran = self.check_counters(name, "--all-gather-algorithm", gather, "--reduce-scatter-algorithm", reduce)
                self.assertEqual(set(ran), {gather, reduce})

    def test_bad_usage(self):
        for words in (["--hosts", "1", "--", "true"], ["--rate", "1Gb", "--", "true"],
                      ["--rate", "0gbit", "--", "true"],
                      ["--frob", "--", "true"], ["--hosts", "2"], ["--ranks-per-host", "0", "true"],
                      ["--hosts", "two", "true"], ["--rate"], []):
            with self.subTest(words):
                result = self.cluster(*words)
                self.assertEqual((result.code, result.stdout), (zpp.USAGE, ""), result)
                self.assertEqual(len(result.errors("netns")), 1, result)

    def test_counters_that_cannot_be_written(self):
        (self.folder / "file").touch()
        result = self.cluster("--counters", self.folder / "file" / "x.json", "--", "true")
        self.assertEqual((result.code, len(result.errors("netns"))), (zpp.IO, 1), result)

    def test_a_program_that_is_not_there(self):
        counters = self.folder / "sent.json"
        result = self.cluster("--counters", counters, self.folder / "nowhere")
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("nowhere", result.stderr + result.stdout)
        self.assertEqual(json.loads(counters.read_text())["exit_code"], result.code)

    def test_dry_run_needs_nothing(self):
        result = self.cluster("--hosts", "4", "--rate", "100mbit", "--dry-run", "--", "echo", "a b", PATH="/nowhere")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.stdout.count(" tbf rate 100mbit "), 2 * 4)
        self.assertIn("'a b'", result.stdout)

    def test_long_messages_go_in_pieces_over_slow_links(self):
        """Unless the caller says how TCP sends."""
        name = "OMPI_MCA_btl_tcp_flags"
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop(name, None)
            for rate, given, wanted in (("2gbit", None, "send"), ("2gbit", "put", "put"), ("2.1gbit", None, ""),
                                        ("2.1gbit", "put", "put"), ("unshaped", None, "")):
                with self.subTest(rate=rate, given=given):
                    result = self.cluster("--rate", rate, "--", "sh", "-c", f'echo "flags=${name}"',
                                          **({} if given is None else {name: given}))
                    self.assertEqual(set(result.stdout.split()), {f"flags={wanted}"}, result)


class WithoutPrivileges(zpp.TestCase):
    def test_says_what_is_missing(self):
        done = subprocess.run([*NETNS, "--", "true"], capture_output=True, text=True, env={"PATH": "/nowhere"},
                              check=False)
        self.assertEqual(done.returncode, zpp.SKIPPED, done)
        self.assertRegex(done.stderr, r"^netns: skipped: no \w+ on the PATH: install the package [\w-]+\n$")


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/local/netns.py")
    probe = subprocess.run([*NETNS, "--", "true"], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode == zpp.SKIPPED:
        print(probe.stderr.strip())
        sys.exit(zpp.SKIPPED)
    zpp.main()
