# ctest: name=planner timeout=180 labels=oracle
"""zpp-validate planner on what is committed: zpp_plan predicts published throughputs and own traces as well as
docs/howto/planning-times.md says. The planner's commands refuse what they cannot answer."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import zpp

PLAN = zpp.BIN / "zpp_plan"
CLUSTERS = zpp.SOURCE / "inputs" / "clusters"
SHAPE = ["--num-layers", "4", "--hidden-size", "512", "--num-attention-heads", "8", "--seq-length", "512", "--bf16",
         "--backend", "cuda", "--vocab-size", "50257"]
MODEL = [*SHAPE, "--micro-batch-size", "2"]

LARGE_MODEL = ["--num-layers", "32", "--hidden-size", "4096", "--num-attention-heads", "32", "--seq-length", "2048",
               "--micro-batch-size", "4", "--bf16", "--backend", "cuda", "--vocab-size", "50257"]


def plan(folder, *arguments):
    command = [PLAN, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=zpp.DEADLINE)
    return zpp.Result(command, done.returncode, done.stdout, done.stderr)


def clusters():
    return sorted(CLUSTERS.glob("*.json"))


class Planner(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def refused(self, words, *arguments):
        result = plan(self.folder, *arguments)
        self.assertEqual(result.code, zpp.USAGE, result)
        (line,) = result.errors("zpp_plan")
        self.assertIn(words, line)

    def test_predictions_are_as_good_as_committed(self):
        done = subprocess.run([*zpp.VALIDATE, "planner", "--program", PLAN, "--output", self.folder / "planner.md"],
                              capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "planner.md").read_text(), done.stdout)
        table = next(block for block in done.stdout.split("\n\n") if block.startswith("| rows not fitted on"))
        self.assertIn(f"\n{table}\n", (zpp.SOURCE / "docs" / "howto" / "planning-times.md").read_text())

    def test_the_optimizer_is_told_where_it_runs(self):
        """At stage 3 updates run beside the first gathers and layers, at stage 2 all of forward waits for them."""
        def told(*words):
            result = plan(self.folder, "time", "--cluster", CLUSTERS / "h200-dgx.json", "--nodes", "2",
                          *LARGE_MODEL, *words)
            self.assertEqual(result.code, zpp.OK, result)
            return [float(re.search(rf"\noptimizer, {place} forward +([\d.]+)\n", result.stdout)[1])
                    for place in ("before", "beside")]

        before, beside = told("--optimizer", "AdamW")
        self.assertEqual(before, 0)
        self.assertGreater(beside, told("--optimizer", "SGD")[1])
        before, beside = told("--optimizer", "AdamW", "--zero-stage", "2")
        self.assertGreater(before, 0)
        self.assertEqual(beside, 0)

    def test_every_cluster_file_gives_times(self):
        self.assertGreaterEqual(len(clusters()), 5)
        for file in clusters():
            result = plan(self.folder, "time", "--cluster", file, *MODEL, "--json", self.folder / "time.json")
            self.assertEqual(result.code, zpp.OK, result)
            told = json.loads((self.folder / "time.json").read_text())
            time, timeline = told["time"], told["timeline"]
            self.assertGreater(time["step_seconds"], time["compute_seconds"])
            phases = time["optimizer_seconds"] + time["forward_seconds"] + time["backward_seconds"]
            self.assertAlmostEqual(phases, time["step_seconds"], delta=1e-9)
            self.assertEqual(timeline["operation"].count("forward"), 6)
            self.assertTrue(all(a <= b <= c for a, b, c in zip(timeline["begin"], timeline["started"],
                                                               timeline["end"])))

    def test_break_even_is_where_the_steps_are_equal(self):
        cluster = CLUSTERS / "h200-dgx.json"
        model = ["--cluster", cluster, "--nodes", "4", *LARGE_MODEL]
        result = plan(self.folder, "breakeven", *model, "--gain", "0.05", "--json", self.folder / "even.json")
        self.assertEqual(result.code, zpp.OK, result)
        rows = json.loads((self.folder / "even.json").read_text())["break_even"]
        self.assertEqual(rows["feature"], ["none", "qwZ", "hpZ", "qgZ", "qwZ+qgZ", "hpZ+qgZ", "all"])
        rate = rows["link_rate"][rows["feature"].index("hpZ")]
        self.assertTrue(1e8 < rate < 1e12, rows)

        def step(slower, *features):
            flags = [*model, "--rail-gb-per-s", rate * slower / 1e9, *features, "--json", self.folder / "time.json"]
            self.assertEqual(plan(self.folder, "time", *flags).code, zpp.OK)
            return json.loads((self.folder / "time.json").read_text())["time"]["step_seconds"]

        vendors = ["--all-gather-algorithm", "native", "--reduce-scatter-algorithm", "native"]
        hpz = ["--zero-hpz-partition-size", "8"]
        self.assertLess(step(0.9, *hpz), 0.95 * min(step(0.9), step(0.9, *vendors)))
        self.assertGreater(step(1.1, *hpz), 0.95 * min(step(1.1), step(1.1, *vendors)))

    def test_the_flags_of_the_first_row_have_its_time(self):
        """Beside what was given, without what is named as having no effect there."""
        job = ["--cluster", CLUSTERS / "h200-dgx.json", *SHAPE, "--nodes", "2", "--micro-batch-size", "1"]
        for given in ([], ["--zero-stage", "2"], ["--zero-stage", "3", "--minimum-weight-bits", "16"],
                      ["--shard-group-size", "8"], ["--shard-group-size", "8", "--zero-quantized-weights"],
                      ["--shard-group-size", "4"], ["--shard-group-size", "16"],
                      ["--zero-quantized-gradients"], ["--weight-codec", "int5:64"],
                      ["--param-persistence-threshold", "1000"], ["--moments", "int8"],
                      ["--zero-quantized-gradients", "--gradient-codec-intra", "int6:64"]):
            with self.subTest(given=given):
                result = plan(self.folder, "search", *job, "--goal", "time", *given, "--json",
                              self.folder / "found.json")
                self.assertEqual(result.code, zpp.OK, result)
                best = json.loads((self.folder / "found.json").read_text())["candidates"]["seconds"][0]
                said = re.search(r"\nthe first is, with what was given: (.*?)"
                                 r"(?:; without (.*), which has no effect there)?\n", result.stdout)
                flags, idle = [] if said[1] == "nothing more" else said[1].split(), (said[2] or "").split(", ")
                starts = [index for index, word in enumerate(given) if word.startswith("--")]
                pairs = [given[first:end] for first, end in zip(starts, [*starts[1:], len(given)])]
                kept = [word for pair in pairs if pair[0] not in idle and "minimum" not in pair[0] for word in pair]
                timed = plan(self.folder, "time", *job, *kept, *flags, "--json", self.folder / "time.json")
                self.assertEqual(timed.code, zpp.OK, timed)
                told = json.loads((self.folder / "time.json").read_text())["time"]["step_seconds"]
                self.assertAlmostEqual(told, best, delta=1e-9)

    def test_search_orders_by_the_times_that_time_tells(self):
        cluster = ["--cluster", CLUSTERS / "h200-dgx.json", *SHAPE, "--nodes", "8"]
        result = plan(self.folder, "search", *cluster, "--micro-batch-size", "2", "--goal", "time", "--json",
                      self.folder / "found.json")
        self.assertEqual(result.code, zpp.OK, result)
        found = json.loads((self.folder / "found.json").read_text())["candidates"]
        self.assertEqual(found["seconds"], sorted(found["seconds"]))
        best = {name: values[0] for name, values in found.items()}
        flags = ["--zero-stage", best["stage"], "--all-gather-algorithm", best["all_gather"],
                 "--reduce-scatter-algorithm", best["reduce_scatter"],
                 "--zero-hpz-partition-size", best["hpz_partition_size"]]
        if best["shard_group_size"]:
            flags += ["--shard-group-size", best["shard_group_size"]]
        if best["weight_codec"] != "none":
            flags += ["--zero-quantized-weights", "--weight-codec", best["weight_codec"]]
        if best["weight_difference_codec"] != "none":
            flags += ["--weight-differences", "--weight-difference-codec", best["weight_difference_codec"]]
        if best["gradient_codecs"] != "none":
            intra, inter = best["gradient_codecs"].split("/")
            flags += ["--zero-quantized-gradients", "--gradient-codec-intra", intra]
            flags += ["--gradient-codec-inter", inter] if best["reduce_scatter"] == "2-hop" else []
        if best["recompute"]:
            flags.append("--recompute-activations")
        self.assertEqual(best["micro_batch"] * best["micro_steps"], 2)
        flags += ["--micro-batch-size", best["micro_batch"], "--gradient-accumulation-steps", best["micro_steps"]]
        timed = plan(self.folder, "time", *cluster, *flags, "--json", self.folder / "time.json")
        self.assertEqual(timed.code, zpp.OK, timed)
        told = json.loads((self.folder / "time.json").read_text())["time"]["step_seconds"]
        self.assertAlmostEqual(told, best["seconds"], delta=1e-9)
        said = re.search(r"\nthe first is, with what was given: (--.*)\n", result.stdout)[1].split()
        timed = plan(self.folder, "time", *cluster, "--micro-batch-size", "2", *said, "--json",
                     self.folder / "time.json")
        self.assertEqual(timed.code, zpp.OK, timed)
        self.assertAlmostEqual(json.loads((self.folder / "time.json").read_text())["time"]["step_seconds"],
                               best["seconds"], delta=1e-9)

    def test_calibration_makes_the_committed_file(self):
        committed = CLUSTERS / "h200-2x2-emulated.json"
        made = self.folder / "made.json"
        result = plan(zpp.SOURCE, "calibrate", "results/1x-NVIDIA-H200/kernels/zpp_kernels.json",
                      "results/2x-NVIDIA-H200/collectives/one-chunk.json",
                      "results/4x-NVIDIA-H200/emulated-nodes/lanes-started-apart.json", "--cluster", committed,
                      "--calibrated", made)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertEqual(json.loads(made.read_text()), json.loads(committed.read_text()))

    def test_refuses_what_it_cannot_answer(self):
        cluster = CLUSTERS / "h200-dgx.json"
        self.refused("--cluster", "time", *MODEL)
        self.refused("--goal time", "search", "--goal", "time", *MODEL)
        self.refused("--nodes", "time", "--cluster", cluster, "--nodes", "0", *MODEL)
        self.refused("transformers", "time", "--cluster", cluster, "--model", "quadratic", "--backend", "host")
        self.refused("--zero-stage 3", "breakeven", "--cluster", cluster, "--zero-stage", "2", *MODEL)
        self.refused("no measurement", "calibrate", "--cluster", cluster, "--calibrated", self.folder / "a.json")
        self.refused("--calibrated", "calibrate", cluster, "--cluster", cluster)
        self.refused("no measurement of kernels or links", "calibrate", cluster, "--cluster", cluster, "--calibrated",
                     self.folder / "a.json")
        (self.folder / "bad.json").write_text(cluster.read_text().replace("gb_per_s", "gb_per_second", 1))
        self.refused("is missing", "time", "--cluster", self.folder / "bad.json", *MODEL)
        result = plan(self.folder, "time", "--cluster", self.folder / "none.json", *MODEL)
        self.assertEqual(result.code, zpp.IO, result)


if __name__ == "__main__":
    zpp.main()
