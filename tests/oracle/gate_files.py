# ctest: name=gate_files timeout=300 labels=oracle
"""zpp-validate gate on files made here: what it records, what it refuses, and how often it alarms. Planted defects of
the real programs are in tests/cli/gate_defects.py."""

import json
import math
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
from scipy import stats

import synthetic_converge
import synthetic_trace
import validate
from zpp_validate.gate import baseline, compare, gate, gate_judge

SOURCE = Path(os.environ["ZEROPP_SOURCE"])
CASE = dict(synthetic_trace.FEATURES, skipped=(0,) * 12, evaluations=((0, 2), (12, 2)), interval=12)


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "baseline.json"

    def gate(self, *words, code=0):
        done = validate.run("gate", *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def another(self, trace, *words, code=0):
        """The gate for a run of another seed than the baseline's."""
        return self.gate(trace, "--baseline", self.path, "--partial", *words, code=code)

    def trace(self, name, seed, loss=3.0, norm=1.0, change=None, slower=1.0, spread=0.002, **case):
        """A training run whose final held-out loss, gradient norms and times (mean, and how they spread) are given."""
        attributes, groups = synthetic_trace.make(CASE | case)
        config = json.loads(attributes["config_json"])
        config["zeropp"]["seed"] = seed
        synthetic_trace.configure(attributes, config)
        attributes["seed"] = seed
        groups["evaluations"]["loss"][-1] = loss
        groups["evaluations"]["bits_per_byte"][-1] = loss / np.log(2)
        groups["steps"]["grad_norm"] = [norm] * 12
        random = np.random.default_rng(seed)
        groups["steps"]["time"] = [0.5 * slower * (1 + spread * random.standard_normal() ** 2) for _ in range(12)]
        tokens = groups["steps"]["tokens_per_second"][0] * 0.5
        groups["steps"]["tokens_per_second"] = [tokens / time for time in groups["steps"]["time"]]
        if change:
            change(attributes, groups)
        path = self.folder / name / f"seed={seed}" / "train.h5"
        path.parent.mkdir(parents=True, exist_ok=True)
        synthetic_trace.write(path, attributes, groups)
        return path

    def recorded(self, seeds=range(1, 7), deviation=0.001, **options):
        """A baseline; `deviation`: of losses and logarithms of norms over the seeds."""
        random = np.random.default_rng(5)
        for seed in seeds:
            loss, norm = deviation * random.standard_normal(2)
            self.trace("base", seed, loss=3 + loss, norm=math.exp(norm), **options)
        self.gate(self.folder / "base", "--record", self.path)

    def test_what_is_recorded(self):
        self.recorded()
        document = json.loads(self.path.read_text())
        self.assertEqual((document["schema"], document["machine"], document["layout"]),
                         ("zeropp-baseline", ["h"] * 4, "4 ranks on 2 nodes"))
        self.assertEqual(document["command"], f"validation/zpp-validate gate {self.folder / 'base'} --record "
                         f"{self.path}")
        self.assertLessEqual({"git_commit", "mpi_library"}, set(document["versions"]))
        (row,) = document["rows"]
        self.assertEqual((sorted(row["losses"]), len(row["times"])), ([str(seed) for seed in range(1, 7)], 6 * 11))
        self.assertIn("is there: give --replace", self.gate(self.folder / "base", "--record", self.path, code=2))
        self.gate(self.folder / "base", "--record", self.path, "--replace")

    def test_what_moved(self):
        self.recorded()
        self.assertIn(": 0 moved\n", self.another(self.trace("a", 50, loss=3.002)))
        for quantity, change in (("held-out loss", dict(loss=3.2)), ("held-out loss", dict(loss=2.8)),
                                 ("gradient norm", dict(norm=4.0))):
            text = self.another(self.trace("b", 51, **change), code=1)
            self.assertRegex(text, f"moved: gpt, .*: {quantity} was ")
            self.assertIn(": 1 moved\n", text)
        self.assertRegex(self.another(self.trace("d", 52, slower=1.1), code=1),
                         r"time was 5\.00\d*e\+05 us, is 5\.50\d*e\+05 us, x 1\.\d+ \(")

    def test_times_are_judged_by_the_threshold_of_compare(self):
        self.recorded()
        slower = self.trace("a", 50, slower=1.026)  # of 3 %, and not of 2 %
        self.assertIn(": 0 moved\n", self.another(slower, "--only", "times"))
        self.assertIn(": 1 moved\n", self.another(slower, "--only", "times", "--threshold", "0.02", code=1))
        self.assertEqual(gate.parse([str(self.folder), "--baseline", "name"]).threshold, compare.THRESHOLD)

    def test_report(self):
        self.recorded()
        report = self.folder / "report.json"
        self.another(self.trace("a", 50, norm=2.0), "--json", report, code=1)
        document = json.loads(report.read_text())
        self.assertEqual((document["schema"], document["code"]), ("zeropp-gate", 1))
        self.assertEqual([(each["kind"], each["verdict"]) for each in document["findings"]
                          if each["verdict"] != "same"], [("norm", "moved")])
        self.another(self.trace("b", 50), "--json", self.folder / "none" / "x.json", code=5)

    def test_exactly(self):
        self.recorded()

        def fewer(attributes, groups):
            groups["steps"]["bytes_inter_node"][3] -= 16
        self.assertIn("INVALID: ", self.another(self.trace("a", 50, change=fewer), code=1))
        text = self.another(self.trace("b", 50, skipped=(1,) + (0,) * 11, norm=1.0), code=1)
        self.assertIn("skipped steps, seed 50 was 0, is 1", text)
        self.assertIn(": 1 moved\n", text)

    def test_skips_that_vary_with_the_seed(self):
        """A count that no seed of the baseline had is undecided; another count for a seed of the baseline moved."""
        skips = {count: (1,) * count + (0,) * (12 - count) for count in range(4)}
        for seed in range(1, 7):
            self.trace("base", seed, skipped=skips[1 + seed % 2], norm=1 + seed / 1000, loss=3 + seed / 1000)
        self.gate(self.folder / "base", "--record", self.path)
        for seed, count, code, line in ((50, 1, 0, ": 0 moved\n"),
                                        (51, 3, 4, "undecided: .*: skipped steps, seed 51 was 1 to 2, is 3"),
                                        (52, 0, 4, "undecided: .*: skipped steps, seed 52 was 1 to 2, is 0"),
                                        (1, 1, 1, "moved: .*: skipped steps, seed 1 was 2, is 1")):
            trace = self.trace("a", seed, skipped=skips[count], loss=3.003, norm=1.003)
            text = self.another(trace, "--only", "bytes,convergence,norm", "--margin", "0.1", "--norm-margin", "0.1",
                                code=code)
            self.assertRegex(text, line)

    def test_skips_that_no_seed_of_the_baseline_had(self):
        """Within what they vary by, and yet without bytes to compare with."""
        for seed in range(1, 7):
            skips = 1 + seed % 2 * 2
            self.trace("base", seed, skipped=(1,) * skips + (0,) * (12 - skips), loss=3 + seed / 1000)
        self.gate(self.folder / "base", "--record", self.path)
        trace = self.trace("a", 50, skipped=(1, 1) + (0,) * 10)
        self.assertIn("undecided: gpt, stage 3, weights", text := self.another(trace, "--only", "bytes", code=4))
        self.assertIn(": bytes was of runs that skipped 1, 3, is of one that skipped 2", text)

    def test_hashes(self):
        def deterministic(value):
            def change(attributes, groups):
                config = json.loads(attributes["config_json"])
                config["zeropp"]["deterministic"] = True
                synthetic_trace.configure(attributes, config)
                attributes.update(deterministic=1, parameters_hash=value * 64)
            return change
        self.recorded(change=deterministic("a"))
        self.another(self.trace("a", 1, change=deterministic("a")))
        self.assertIn("parameters, seed 1 was aaaaaaaaaaaa, is bbbbbbbbbbbb",
                      self.another(self.trace("b", 1, change=deterministic("b")), code=1))
        self.another(self.trace("c", 9, change=deterministic("b")))  # a seed that it has not

    def test_refused(self):
        self.recorded()
        other = self.trace("a", 50, change=lambda attributes, groups: groups["ranks"].update(host=["other"] * 4))
        self.assertIn("is of another machine: 4 ranks on 2 nodes of 4x-h / 4 ranks on 2 nodes of 4x-other: "
                      "record one here",
                      self.another(other, code=2))
        self.another(other, "--across-machines")

        def learning_rate(attributes, groups):
            config = json.loads(attributes["config_json"])
            config["optimizer"]["params"]["lr"] = 1e-2
            synthetic_trace.configure(attributes, config)
            groups["steps"]["learning_rate"] = [1e-2] * 12
        self.assertIn("has another configuration than in the baseline: optimizer.params.lr 0.001 / 0.01",
                      self.another(self.trace("b", 50, change=learning_rate), code=2))
        self.assertIn("no baseline", self.gate(self.trace("c", 50), "--baseline", "no-such-name", code=5))
        (self.folder / "none.json").write_text("{}")
        self.assertIn("is no baseline of schema",
                      self.gate(self.trace("c", 50), "--baseline", self.folder / "none.json", code=2))
        self.assertIn("cannot be read", self.gate(self.folder / "nowhere.h5", "--record", self.folder / "x.json",
                                                  code=5))
        self.assertIn("is there twice with seed 1", self.gate(self.folder / "base", self.trace("d", 1),
                                                              "--record", self.folder / "y.json", code=2))
        broken = self.trace("e", 7, change=lambda attributes, groups: attributes.update(verdict="INVALID: x"))
        self.assertIn("a baseline is of valid runs", self.gate(broken, "--record", self.folder / "z.json", code=1))

    def test_few_seeds_cannot_show_equivalence(self):
        self.recorded(seeds=range(1, 5))
        self.assertIn("has 4 seeds: equivalence needs 5", self.another(self.trace("a", 50), code=2))
        self.another(self.trace("a", 50), "--only", "bytes,times")

    def test_few_times_are_undecided(self):
        self.recorded()
        text = self.another(self.trace("a", 50), "--only", "times", "--warmup", "10", code=4)
        self.assertRegex(text, r"undecided: gpt, .*: time was .* us, is .* us, x \d\.\d{4} \(\d+ samples needed\); "
                         r"allowed: x 1\.03\n")

    def test_times_that_spread_too_much(self):
        """A slowdown that drowns in the spread is not passed in silence, nor called one."""
        self.recorded(seeds=range(1, 8), spread=0.5)
        text = self.another(self.trace("a", 50, slower=1.1, spread=0.5), "--only", "times", code=4)
        self.assertRegex(text, r"blunt: gpt, .*: time: only a change beyond x \d\.\d{4} shows: measure more "
                         r"steps or ru")
        self.assertIn(": 0 moved\n", text)

    def test_seeds_that_spread_too_much(self):
        self.recorded(deviation=0.05)
        text = self.another(self.trace("a", 50), "--only", "convergence,norm", code=4)
        for quantity in ("held-out loss", "gradient norm"):
            self.assertRegex(text, f"blunt: gpt, .*: {quantity}: only a change beyond .* shows: record more seeds\n")
        self.another(self.trace("a", 50), "--only", "convergence,norm", "--margin", "0.9", "--norm-margin", "0.9")

    def test_missing_seeds(self):
        self.recorded()
        runs = [self.folder / "base" / f"seed={seed}" for seed in range(1, 6)]
        self.assertRegex(self.gate(*runs, "--baseline", self.path, code=1), "missing: gpt, .*: seed 6\n")
        self.assertRegex(self.gate(*runs, "--baseline", self.path, "--partial"), "not run: gpt, .*: seed 6\n")
        self.assertRegex(self.gate(self.trace("a", 50), "--baseline", self.path, code=1),
                         "missing: gpt, .*: seeds 1, 2, 3, 4, 5, 6\n")

    def test_missing_times(self):
        self.recorded()
        words = [self.folder / "base", "--baseline", self.path, "--warmup", "12"]
        self.assertRegex(self.gate(*words, code=1), "missing: gpt, .*: times\n")
        self.gate(*words, "--only", "bytes")

    def test_nothing_that_could_be_compared(self):
        self.recorded()
        text = self.gate(self.folder / "base", "--baseline", self.path, "--only", "hash", code=2)
        self.assertIn("nothing was compared: these rows have none of hash", text)

    def test_files_of_another_kind(self):
        self.recorded()
        self.assertIn(f"{self.path} is no trace (*.h5)", self.gate(self.path, "--baseline", self.path, code=2))
        trace = self.trace("a", 1)
        self.assertIn(f"{trace} is no baseline of schema", self.gate(trace, "--baseline", trace, code=2))

    def matrix(self, name, seeds, random_seed, settings=synthetic_converge.LADDER, **options):
        attributes, groups = synthetic_converge.make(settings=settings, seeds=seeds, random_seed=random_seed, **options)
        (self.folder / name).mkdir()
        return synthetic_converge.write(self.folder / name / "converge.h5", attributes, groups)

    def test_a_matrix(self):
        """A row a setting; what it lacks is missing; a codec that became worse is named."""
        self.gate(self.matrix("base", range(1, 9), 1), "--record", self.path)
        untimed = ["--baseline", self.path, "--only", "bytes,hash,convergence,norm", "--margin", "0.4",
                   "--norm-margin", "0.4"]
        self.gate(self.matrix("same", range(1, 9), 2), *untimed)
        worse = [each | ({"effect": 0.6} if each["name"] == "near" else {}) for each in synthetic_converge.LADDER]
        text = self.gate(self.matrix("worse", range(1, 9), 3, worse), *untimed, code=1)
        self.assertIn("moved: text: near: held-out loss was 3.", text)
        self.assertIn(": 1 moved\n", text)
        few = self.matrix("few", range(1, 9), 4, synthetic_converge.LADDER[:2])
        text = self.gate(few, *untimed, code=1)
        self.assertIn("missing: text: int4\nmissing: text: weights\n", text)
        self.assertIn("not run: text: int4\n", self.gate(few, *untimed, "--partial"))

    def test_false_alarms_and_power(self):
        """Equivalent runs alarm as rarely as promised, whatever the number of seeds; a shift of thrice what is allowed
        is found."""
        random, trials = np.random.default_rng(9), 4000
        for before, now in ((5, 1), (12, 1), (6, 6)):
            sides = random.standard_normal((trials, before + now))
            alarms = found = 0
            for values in sides:
                change, reach, allowed = gate_judge.equivalence(values[:before], values[before:], 1e-9, 1)
                alarms += abs(change) + reach > allowed
                found += abs(change + 3 * (allowed - reach)) + reach > allowed
            self.assertLessEqual(alarms, stats.binom.ppf(1 - 1e-4, trials, gate_judge.FALSE_ALARMS), (before, now))
            self.assertGreater(found, 0.99 * trials)

    def test_names(self):
        self.assertEqual(baseline.folder_name(["NVIDIA H200"] * 4), "4x-NVIDIA-H200")
        self.assertEqual(baseline.folder_name(["b", "a", "a"]), "2x-a-1x-b")
        self.assertEqual(baseline.default_path("train", ["h"] * 2).parts[-3:], ("baselines", "2x-h", "train.json"))


if __name__ == "__main__":
    unittest.main()
