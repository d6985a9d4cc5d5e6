# ctest: name=cli_info timeout=120 processors=4 labels=without-cuda
"""zpp_info, and with it the frame of all programs: help and version, one error line with the right exit
code, configuration files and flags, agreement of all ranks."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["ZEROPP_BIN"], "zpp_info")
MPIRUN = os.environ["ZEROPP_MPIRUN"].split()


def call(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60,
                          check=False)


def ranks(*groups):
    """mpirun with one (count, flags...) per group."""
    words = []
    for count, *flags in groups:
        words += ([":"] if words else []) + ["-n", count, PROGRAM, *flags]
    return call(*MPIRUN, *words)


class Info(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_refused(self, done, code, *parts):
        lines = [l for l in done.stderr.splitlines() if l.startswith("zpp_info: error: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertEqual(done.returncode, code, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def summary(self, done, name="summary.json"):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads((self.folder / name).read_text())

    def test_help_and_version(self):
        done = call(PROGRAM, "--help-all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("--config", "--output", "--json", "--zero-stage", "zero_optimization.stage",
                     "sequences", "int8:256"):
            self.assertIn(word, done.stdout)
        done = call(PROGRAM, "--version")
        self.assertRegex(done.stdout, r"^zpp_info \d+\.\d+\.\d+ \(git [0-9a-z]+(, dirty)?\)\n$")
        done = ranks((3, "--version"))
        self.assertEqual(done.stdout.count("zpp_info"), 1)

    def test_placement_comes_first_and_then_the_configuration(self):
        done = call(PROGRAM, "--zero-stage", 2)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        places = [done.stdout.index(words) for words in ("topology", "placement", "configuration",
                                                         "zero_optimization.stage", "versions", "codecs")]
        self.assertEqual(places, sorted(places), done.stdout[:400])

    def test_tables_and_json_agree(self):
        path = self.folder / "summary.json"
        done = ranks((4, "--node-size", 2, "--json", path, "--output", self.folder / "new" / "folder"))
        info = self.summary(done)
        self.assertEqual(info, self.summary(done, "new/folder/info.json"))
        self.assertEqual(info["topology"], {
            "world_size": 4, "node_count": 2, "ranks_per_node": 2, "emulated": True,
            "description": info["topology"]["description"]})
        self.assertIn("emulated", info["topology"]["description"])
        self.assertEqual(done.stdout.count("compiler"), 1)
        for section in ("codecs", "all_gather", "reduce_scatter", "models", "optimizers"):
            names = [entry["name"] for entry in info[section]]
            self.assertTrue(names and names == sorted(set(names)), section)
            for name in names:
                self.assertRegex(done.stdout, rf"(?m)^{name}( |$)")
        self.assertEqual(info["configuration"]["zeropp"]["all_gather_algorithm"], "two-level")
        for section in ("all_gather", "reduce_scatter"):
            self.assertEqual([row["name"] for row in info[section] if row["one_chunk"]], ["native"])
        self.assertEqual(info["configuration"]["train_batch_size"], 4)

    def test_where_each_rank_is(self):
        path = self.folder / "summary.json"
        done = ranks((4, "--node-size", 2, "--json", path, "--backend", "host"))
        info = self.summary(done)
        self.assertEqual([place["rank"] for place in info["placement"]], [0, 1, 2, 3])
        header = next(i for i, line in enumerate(done.stdout.splitlines()) if line.startswith("placement: rank"))
        rows = [line.split() for line in done.stdout.splitlines()[header + 2:header + 6]]
        # Rank, node and local rank; the host, and no GPU, for the host was asked for.
        self.assertEqual([row[:3] for row in rows], [["0", "0", "0"], ["1", "0", "1"], ["2", "1", "0"],
                                                     ["3", "1", "1"]])
        for row, place in zip(rows, info["placement"], strict=True):
            self.assertEqual((row[3], row[4]), (place["host"], "-"))
            self.assertEqual((place["host"], place["gpu"]), (os.uname().nodename, -1))
            self.assertIn(place["cpus"], row)
        allowed = len(os.sched_getaffinity(0))
        found = [line for line in info["mistakes"] if "share" in line and "processors" in line]
        self.assertEqual(bool(found), allowed < 4, info["mistakes"])
        for mistake in info["mistakes"]:
            self.assertIn(f"MISTAKE: {mistake}\n", done.stdout)

    def test_reports_of_the_nccl_here(self):
        """Each report that concerns the version is a line; versions have three numbers, and a fault ends after it
        began."""
        path = self.folder / "summary.json"
        done = call(PROGRAM, "--json", path)
        info = self.summary(done)
        number = lambda text: tuple(map(int, text.split(".")))
        found = re.search(r"NCCL (\d+\.\d+\.\d+)", info["versions"]["cuda"])
        self.assertGreater(len(info["nccl_reports"]), 4)
        for report in info["nccl_reports"]:
            last = number(report["fixed"]) if report["fixed"] else (99,)
            self.assertLess(number(report["first"]), last)
            self.assertEqual(report["here"], bool(found) and number(report["first"]) <= number(found[1]) < last, report)
            line = f"NCCL {found[1] if found else ''}: {report['seen']} ({report['thread']}"
            self.assertEqual(report["here"], line in done.stdout, (report, done.stdout))

    def test_flags_override_the_file(self):
        config = self.folder / "c.json"
        config.write_text(json.dumps({
            "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 5e8},
            "optimizer": {"type": "AdamW", "params": {"lr": 0.25, "betas": [0.5, 0.75]}},
            "zeropp": {"seed": 11}}))
        path = self.folder / "summary.json"
        done = call(PROGRAM, "--config", config, "--zero-stage", 1, "--no-overlap-comm", "--json", path)
        made = self.summary(done)["configuration"]
        self.assertEqual(made["zero_optimization"]["stage"], 1)
        self.assertIs(made["zero_optimization"]["overlap_comm"], False)
        self.assertEqual(made["zero_optimization"]["reduce_bucket_size"], 500_000_000)
        self.assertEqual(made["optimizer"]["params"]["betas"], [0.5, 0.75])
        self.assertEqual(made["zeropp"]["seed"], 11)
        config.write_text(json.dumps(made))  # the effective configuration is a configuration
        again = call(PROGRAM, "--config", config, "--json", path)
        self.assertEqual(self.summary(again)["configuration"], made)

    def test_refusals(self):
        malformed = self.folder / "malformed.json"
        malformed.write_text('{\n "zeropp": }\n')
        unknown = self.folder / "unknown.json"
        unknown.write_text('{"zero_optimization": {"stagee": 3}}')
        for words, code, parts in (
                (["--zero-stagee", 3], 2, ["unknown flag --zero-stagee", "--zero-stage"]),
                (["word"], 2, ['"word"']),
                (["--zero-stage"], 2, ["--zero-stage"]),
                (["--zero-stage", 1, "--zero-stage", 2], 2, ["--zero-stage"]),
                (["--seed", "-1"], 2, ["--seed"]),
                (["--lr", "nan"], 2, ["--lr"]),
                (["--zero-quantized-weights", "--weight-codec", "int9"], 2, ["--weight-codec", "int9"]),
                (["--hidden-size", 10], 2, ["hidden_size 10"]),
                (["--node-size", 2], 3, ["node"]),
                (["--config", malformed], 2, [f"{malformed}:2:12"]),
                (["--config", unknown], 2, ["zero_optimization.stagee", "zero_optimization.stage)"]),
                (["--config", self.folder / "none.json"], 5, ["none.json"]),
                (["--json", malformed / "x.json"], 5, [str(malformed)]),
                (["--output", malformed], 5, [str(malformed)])):
            with self.subTest(words):
                self.assert_refused(call(PROGRAM, *words), code, *parts)

    def test_refusals_of_several_ranks_are_one_line(self):
        self.assert_refused(ranks((3, "--node-size", 2)), 3, "3 ranks")
        self.assert_refused(ranks((3, "--train-iters", 0)), 2, "--train-iters")
        self.assert_refused(ranks((1,), (2, "--bogus")), 2, "--bogus")
        self.assert_refused(ranks((4, "--node-size", 2, "--zero-hpz-partition-size", 3)), 2, "choose 1 or 2 or 4")

    def test_ranks_with_different_configurations(self):
        done = ranks((1, "--seed", 1), (1, "--seed", 1), (1, "--seed", 2))
        self.assert_refused(done, 2, "rank 2", "zeropp.seed (2, rank 0 has 1)")
        done = ranks((1, "--node-size", 2), (1,))
        self.assert_refused(done, 2, "zeropp.node_size")


if __name__ == "__main__":
    unittest.main()
