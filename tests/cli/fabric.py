# ctest: name=fabric cuda=mpi,nccl labels=cli timeout=300 processors=4
"""zpp_fabric: the map is whole in text, JSON and trace; a planted slow rank and a planted slow link are named, with
exit code 1; beside other work no link is named; flags that it does not have are refused. On GPUs the map alone: the
planted delays are in MPI's sends."""

import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import unittest

import h5py
import validate
import zpp

HOST = socket.gethostname()
PROGRAM = str(zpp.BIN / "zpp_fabric")
SLOW = zpp.TEST_BIN / "libpmpi_slow.so"
PLACE = ["--backend", zpp.BACKEND, *(["--transport", zpp.TRANSPORT] if zpp.TRANSPORT else [])]
ON_HOST = unittest.skipUnless(zpp.DEVICE == "host", "the planted delays are in MPI's sends")

# Where ranks share busy processors, waiting for one's turn is no slow link, however long it takes; a delay that is far
# longer than any turn is.
SHORT = ["--fabric-bytes", "64K"]
CALM = [*SHORT, "--fabric-threshold", 1000]
DELAY, THRESHOLD = 6, 20  # ms; times
BUSY = 0.1  # share of the time
LINK = {"LD_PRELOAD": SLOW, "ZEROPP_PMPI_SLOW_MS": DELAY, "ZEROPP_PMPI_SLOW_LINK": "0,1"}


class Fabric(zpp.TestCase):
    def fabric(self, ranks, *words, env=None):
        return zpp.run(ranks, self.command(*words, env=env), cwd=self.folder)

    def command(self, *words, env=None):
        preload = [word for name, value in (env or {}).items() for word in ("-x", f"{name}={value}")]
        return [*preload, PROGRAM, *words, *PLACE, "--output", self.out, "--json", self.folder / "fabric.json"]

    def found(self):
        return json.loads((self.folder / "fabric.json").read_text())

    def planted(self, kinds, *words, **variables):
        """The faults that are found on four ranks. Measures again where a busy machine hides the delay, or has slow
        links of its own beside faults of these kinds."""
        env = {"LD_PRELOAD": SLOW, "ZEROPP_PMPI_SLOW_MS": DELAY, **variables}
        self.good = self.folder / "good"
        words = [*words, "--good-hosts", self.good]
        for _ in range(3):
            result = self.fabric(4, *SHORT, "--fabric-threshold", THRESHOLD, *words, env=env)
            found = self.found()
            if result.code == zpp.INVALID and {fault["kind"] for fault in found["faults"]} <= kinds:
                break
        self.assertEqual(result.code, zpp.INVALID, result)
        self.assertTrue(found["verdict"].startswith("INVALID: "), found["verdict"])
        self.assertEqual(result.errors("zpp_fabric"), [fault["text"] for fault in found["faults"]])
        for fault in found["faults"]:
            self.assertIn(f"# SLOW: {fault['text']}\n", result.stdout)
        for bad in found["hosts"]["bad"]:
            self.assertIn(f"# --exclude={HOST}\n# {bad['drain']}\n", result.stdout)
        return found


class Map(Fabric):
    def test_the_map_is_whole(self):
        result = self.check_ok(self.fabric(4, *CALM, "--node-size", 2))
        found, (root, groups) = self.found(), zpp.read_trace(self.out / "fabric.h5")
        self.assertEqual((found["schema"], found["verdict"], found["faults"]), ("zeropp-fabric", "VALID", []))
        self.assertEqual((root["verdict"], root["app"]), ("VALID", "fabric"))
        self.assertEqual(found["message_bytes"], 64 * 1024)
        self.assertEqual(found["rounds"]["all"], found["rounds"]["measured"])
        fabric = groups["fabric"]
        self.assertEqual(fabric["sender"], [rank for rank in range(4) for _ in range(4)])
        self.assertEqual(fabric["receiver"], list(range(4)) * 4)
        links = ["self", "intra-node", "inter-node", "inter-node"]
        self.assertEqual(fabric["link"][:4], links)
        for metric in ("latency", "bandwidth"):
            matrix = [value for row in found[metric] for value in row]
            self.assertTrue(all(value > 0 for value in matrix), matrix)
            for ours, theirs in zip(matrix, fabric[metric], strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-9 * abs(theirs))
        self.assertEqual(fabric["corrupted"], [0] * 16)
        self.assertEqual([row["rail"] for row in found["rails"]], [0, 1, 0, 1])
        self.assertEqual(groups["fabric_rails"]["rail"], [0, 1, 0, 1])
        self.assertEqual(len(groups["fabric_typical"]["class"]), 8)
        # The median is over all links of the class, or over the rails, where each rail is as slow as its slowest rank.
        kinds = {"self": [(r, r) for r in range(4)], "intra-node": [(0, 1), (1, 0), (2, 3), (3, 2)],
                 "inter-node": [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]}
        for row in found["typical"]:
            if row["class"] == "rail":
                slowest = max if row["metric"] == "latency" else min
                values = [slowest(each[row["metric"]] for each in found["rails"] if each["rail"] == rail)
                          for rail in range(2)]
            else:
                values = [found[row["metric"]][a][b] for a, b in kinds[row["class"]]]
            self.assertAlmostEqual(row["median"], statistics.median(values), delta=1e-9 * row["median"])
        self.assertRegex(result.stdout, r"(?m)^# class +of +links +median +typical +worst +slow beyond$")
        self.assertEqual(groups["placement"]["host"], groups["ranks"]["host"])
        self.assertEqual("gpus" in groups, zpp.BACKEND == "cuda")
        # Comments, but for the rows of the matrices and of the rails.
        rows = [line for line in result.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(len(rows), 4 + 4 + 4)
        first = next(line for line in rows if line.split()[0] == "0").split()
        self.assertEqual(len(first), 5)
        self.assertEqual(found["threshold"], 1000)
        self.assertAlmostEqual(float(first[2]), found["latency"][0][1], delta=0.006)
        self.assertRegex(result.stdout, r"(?m)^# Verdict +: VALID$")

    def test_a_median_that_is_not_of_its_links_is_found(self):
        self.check_ok(self.fabric(2, *CALM))
        trace = self.out / "fabric.h5"
        for name, message in (("median", "the median is"), ("worst", "the worst is"), ("count", "a count of")):
            with self.subTest(name):
                with h5py.File(trace, "r+") as file:
                    before = file["fabric_typical"][name][2]
                    file["fabric_typical"][name][2] = before + 1
                judged = zpp.check_trace(trace)
                self.assertEqual(judged.code, zpp.INVALID, judged)
                self.assertIn(f"intra-node latency: {message}", judged.stdout)
                with h5py.File(trace, "r+") as file:
                    file["fabric_typical"][name][2] = before
        self.check_accepted(trace)

    def test_pairs_by_all_reduce(self):
        result = self.check_ok(self.fabric(3, *CALM, "--fabric-pairs", "all_reduce"))
        found = self.found()
        self.assertEqual(found["pairs"], "all_reduce")
        self.assertTrue(all(value > 0 for row in found["latency"] for value in row), found["latency"])
        self.assertIn("# latency: 8 bytes, an all-reduce of two; ", result.stdout)
        by_messages = self.folder / "messages"
        self.check_ok(zpp.run(3, [PROGRAM, *CALM, *PLACE, "--output", by_messages], cwd=self.folder))
        refused = validate.run("compare", by_messages / "fabric.h5", self.out / "fabric.h5", "--threshold", "0.5")
        self.assertEqual(refused.returncode, zpp.USAGE, refused)
        self.assertIn("other tests, exchange / all_reduce: measure again with --fabric-pairs exchange", refused.stderr)

    def test_any_number_of_ranks(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.check_ok(self.fabric(ranks, *CALM))
                found = self.found()
                self.assertEqual(len(found["latency"]), ranks)
                self.assertNotIn(None, [value for row in found["latency"] for value in row])
                self.assertEqual(found["rails"], [])

    def test_what_there_was_no_time_for_is_said(self):
        result = self.fabric(4, *CALM, "--fabric-seconds", 1e-9)
        self.assertEqual(result.code, zpp.UNDECIDED, result)
        missing = "6 of 10 pairs of ranks were not measured (0-1, 0-2, 0-3, 1-2, 1-3, 2-3)"
        self.assertEqual(result.errors("zpp_fabric"), [f"the survey is incomplete after 1e-09 s: {missing}; give more "
                                                       "time with --fabric-seconds"])
        found = self.found()
        self.assertEqual(found["verdict"], f"INCOMPLETE: {missing}")
        self.assertEqual(found["unmeasured"], [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
        trace = self.out / "fabric.h5"
        judged = zpp.check_trace(trace)
        self.assertEqual(judged.code, zpp.INVALID, judged)
        self.assertIn(f"INVALID: the run itself says INCOMPLETE: {missing}", judged.stdout)
        refused = validate.run("compare", trace, trace, "--threshold", "0.5")
        self.assertEqual(refused.returncode, zpp.USAGE, refused)
        self.assertIn("fabric.h5 is no baseline: 6 pairs of ranks were not measured: measure again", refused.stderr)
        self.assertEqual(found["rounds"]["measured"], 0)
        self.assertEqual(found["rounds"]["all"], 3)
        self.assertIn("# ONLY 0 of 3 rounds were measured", result.stdout)
        self.assertIsNone(found["latency"][0][1])
        self.assertIsNotNone(found["latency"][0][0])


    def test_good_hosts(self):
        file = self.folder / "hosts" / "good"
        result = self.check_ok(self.fabric(2, *CALM, "--good-hosts", file))
        self.assertRegex(result.stdout, r"(?m)^# Good hosts +: 1 of 1, the largest set$")
        self.assertEqual(self.found()["hosts"], {"good": [HOST], "bad": [], "exact": True})
        self.assertEqual(file.read_text(), f"{HOST}\n")
        if zpp.OPEN_MPI:
            launched = zpp.Process([*zpp.MPIRUN, "--hostfile", file, "-n", "2", "hostname"]).end()
            self.assertEqual((launched.code, launched.stdout), (zpp.OK, f"{HOST}\n" * 2), launched)
        self.assertNotIn("Good hosts", self.check_ok(self.fabric(2, *CALM)).stdout)
        shutil.rmtree(self.out)
        refused = self.fabric(2, *CALM, "--good-hosts", self.folder / "fabric.json" / "good")
        self.check_fails(refused, zpp.IO, "fabric.json", program="zpp_fabric")


@ON_HOST
class Planted(Fabric):
    def test_a_slow_rank_is_named(self):
        for node in ([], ["--node-size", 2]):
            with self.subTest(node=node):
                found = self.planted({"rank", "rail"}, *node, ZEROPP_PMPI_SLOW_RANK=2)
                ranks = [fault for fault in found["faults"] if fault["kind"] == "rank"]
                self.assertTrue(ranks, found["faults"])
                self.assertEqual({fault["rank"] for fault in ranks}, {2}, found["faults"])
                self.assertIn("latency", {fault["metric"] for fault in ranks})
                self.assertEqual([fault for fault in found["faults"] if fault["kind"] == "link"], [])
                for fault in ranks:
                    self.assertGreater(fault["times"], THRESHOLD)
                    self.assertRegex(fault["text"], r"^rank 2 \(.+\) is slow on \d of its \d \S+ links: ")
                self.assertEqual(self.good.read_text(), "")  # one host, which is slow inside
                [bad] = found["hosts"]["bad"]
                self.assertEqual((bad["host"], bad["reason"]), (HOST, ranks[0]["text"]))
                self.assertEqual(bad["drain"], f'scontrol update nodename={HOST} state=drain '
                                               f'reason="zpp_fabric: {bad["reason"]}"')
                if node:  # both members of its rail wait for it
                    self.assertEqual({fault["rail"] for fault in found["faults"] if fault["kind"] == "rail"}, {0})

    def test_all_reduces_of_a_slow_rank_are_named(self):
        found = self.planted({"rank", "rail"}, "--fabric-pairs", "all_reduce", ZEROPP_PMPI_SLOW_RANK=2)
        self.assertEqual({fault["rank"] for fault in found["faults"] if fault["kind"] == "rank"}, {2}, found["faults"])

    def test_wrong_sums_are_named(self):
        result = self.fabric(3, *CALM, "--fabric-pairs", "all_reduce",
                             env={"LD_PRELOAD": SLOW, "ZEROPP_PMPI_WRONG_RANK": 1})
        self.assertEqual(result.code, zpp.INVALID, result)
        self.assertEqual([(fault["kind"], fault["rank"], fault["peer"], fault["corrupted"])
                          for fault in self.found()["faults"]],
                         [("corrupted", a, b, 1) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))])

    def test_a_slow_link_is_named(self):
        found = self.planted({"link"}, ZEROPP_PMPI_SLOW_LINK="1,3")
        self.assertEqual({fault["kind"] for fault in found["faults"]}, {"link"}, found["faults"])
        self.assertEqual({frozenset((fault["rank"], fault["peer"])) for fault in found["faults"]}, {frozenset((1, 3))})
        bandwidth = [fault for fault in found["faults"] if fault["metric"] == "bandwidth"]
        self.assertTrue(bandwidth)
        self.assertGreater(found["rounds"]["repeated"], 0)


@ON_HOST
@unittest.skipUnless(pathlib.Path("/proc/self/schedstat").exists(), "the kernel does not tell who waits")
@unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "two ranks share one processor")
class Busy(Fabric):
    """Other work on the processors of both ranks, beside which nothing tells whether a link is slow."""

    def beside_work(self, *words):
        processors = [str(processor) for processor in sorted(os.sched_getaffinity(0))[:2]]
        pinned = [["taskset", "-c", processor, sys.executable, "-c", "while True: pass"] for processor in processors]
        work = [subprocess.Popen(command) for command in pinned]
        try:
            return zpp.Process(["taskset", "-c", ",".join(processors), *zpp.MPIRUN, "-n", "2",
                                *self.command(*SHORT, *words, "--good-hosts", self.folder / "good", env=LINK)],
                               cwd=self.folder).end()
        finally:
            for process in work:
                process.kill()
                process.wait()

    def test_work_is_named_and_no_link_is(self):
        result = self.beside_work()
        self.assertEqual(result.code, zpp.UNDECIDED, result)
        found, (root, _) = self.found(), zpp.read_trace(self.out / "fabric.h5")
        # A rank that sends slowly may sleep more than it waits.
        busy = [rank for rank in range(2) if found["waited"][rank] > BUSY]
        self.assertTrue(busy, found["waited"])
        pairs = [pair for pair in ([0, 0], [0, 1], [1, 1]) if set(pair) & set(busy)]
        names = ", ".join(f"{low}-{high}" for low, high in pairs)
        missing = (f"{len(pairs)} of 3 pairs of ranks were not measured ({names}), other work had processors of "
                   f"rank{'s' if busy[1:] else ''} {', '.join(map(str, busy))}")
        self.assertEqual((found["verdict"], root["verdict"]), (f"INCOMPLETE: {missing}",) * 2)
        self.assertEqual(result.errors("zpp_fabric"),
                         [f"the survey is incomplete: {missing}; end that work, or measure later"])
        self.assertEqual(found["unmeasured"], pairs)
        self.assertIsNone(found["bandwidth"][0][1])
        self.assertEqual(len(found["mistakes"]), len(busy))
        for rank, mistake in zip(busy, found["mistakes"], strict=True):
            share = f"{100 * found['waited'][rank]:.0f} % of the time"
            self.assertTrue(mistake.startswith(f"rank {rank} on {HOST} waited for a processor for {share}: "), mistake)
            self.assertIn(f"# MISTAKE: {mistake}\n", result.stdout)
        self.assertEqual(found["faults"], [])
        [bad] = found["hosts"]["bad"]
        self.assertEqual((bad["host"], bad["drain"]), (HOST, None))
        self.assertIn(f"# {HOST}: {bad['reason']}\n", result.stdout)
        self.assertNotIn("scontrol", result.stdout)
        self.assertEqual((self.folder / "good").read_text(), "")

    def test_a_threshold_that_allows_for_work_keeps_what_was_measured(self):
        result = self.beside_work("--fabric-threshold", 1000)
        self.assertEqual((result.code, self.found()["mistakes"]), (zpp.OK, []), result)

    def test_a_slow_link_is_named_or_the_work_beside_it(self):
        result = self.fabric(2, *SHORT, env=LINK)
        found = self.found()
        if found["mistakes"]:  # of other tests
            self.assertEqual(result.code, zpp.UNDECIDED, result)
        else:
            self.assertEqual(result.code, zpp.INVALID, result)
            [fault] = found["faults"]
            self.assertEqual((fault["kind"], fault["rank"], fault["peer"]), ("link", 0, 1))


@ON_HOST
class Refusals(Fabric):
    def test_flags(self):
        for words, part in ((["--codec", "int8"], "--codec"), (["-b", "1K"], "-b"), (["--fabric"], "--fabric"),
                            (["--fabric-threshold", 0], "--fabric-threshold"), (["--gpu-sampling", 1], "gpu_sampling")):
            with self.subTest(words=words):
                self.check_fails(self.fabric(1, *words), zpp.USAGE, part, program="zpp_fabric")

    def test_help_says_what_fails(self):
        text = re.sub(r"\s+", " ", zpp.Process([PROGRAM, "--help"]).end().stdout)
        self.assertIn("slow beside its equals is named, and the exit code is 1", text)


if __name__ == "__main__":
    zpp.skip_without_gpus(4)
    zpp.main()
