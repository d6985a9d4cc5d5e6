# ctest: name=compare_files timeout=120 labels=oracle
"""zpp-validate compare on files made here: it reads what each program writes, matches rows, names what only one side
has, and refuses with a remedy what cannot be compared."""

import json
import statistics
import tempfile
import unittest
from pathlib import Path

import numpy as np

import synthetic_sweep
import synthetic_trace
import validate

STEPS = 30
PLANTED = ("all_gather", "int8:256", "two-level", 1 << 20, "in_place")


def slowed(amount, *planted):
    return lambda *row: amount if row in planted else 1.0


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def json_file(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def trace(self, name, seed, step=0.5, as_json=False, attributes=(), steps=STEPS, **case):
        """A training run whose first step takes 100 times as long."""
        root, groups = synthetic_trace.make(dict(skipped=(0,) * steps, evaluations=(), interval=0) | case)
        times = step * (1 + 0.01 * np.random.default_rng(seed).standard_normal(steps))
        times[0] *= 100
        groups["steps"]["time"] = times.tolist()
        root |= dict(attributes)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if as_json:
            config = json.loads(root["config_json"])
            path.write_text(json.dumps({**root, **groups, "config": config}))
        else:
            synthetic_trace.write(path, root, groups)
        return path

    def compare(self, a, b, *words, code=0):
        """(result of the process, the rows of --json by name)."""
        out = self.folder / "comparison.json"
        out.unlink(missing_ok=True)
        done = validate.run("compare", a, b, "--json", out, *words)
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stderr.count("\n"), 1 if code else 0, done)
        if not out.exists():
            return done, {}
        self.document = json.loads(out.read_text())
        return done, {row["row"]: row for row in self.document["rows"]}

    def refused(self, a, b, *parts, words=(), code=2):
        done, rows = self.compare(a, b, *words, code=code)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(rows, {})

    def test_other_bytes_of_a_sweep(self):
        """The same row on the same ranks sends the same bytes, however long it takes; what is of other ranks may
        differ."""
        before, after = synthetic_sweep.sweep(seed=1), synthetic_sweep.sweep(seed=1)
        after["results"][5]["out_of_place"]["wire_bytes"] += 16
        done, _ = self.compare(self.json_file("a.json", before), self.json_file("b.json", after), code=1)
        self.assertRegex(done.stderr, r"^zpp-validate compare: error: other bytes: all_gather \S+ \S+ .* out-of-place "
                         r"sends \d+, was \d+: find what changed in the program or its options\n$")
        after["devices"] = after["config"]["devices"] = after["config"]["devices"][:4]
        self.compare(self.folder / "a.json", self.json_file("b.json", after), "--across-machines")

    def test_emulated_nodes_are_other_ranks(self):
        plain = synthetic_sweep.sweep(seed=1)
        self.refused(self.json_file("a.json", plain), self.json_file("b.json", plain | {"provenance": {"emulated": 1}}),
                     "8 ranks on 1 node / 8 ranks on 1 node, emulated")

    def kernels(self, name, seed, backend="cuda", device="NVIDIA H200", slower=("", 1.0), verdict="VALID"):
        """A file like that of zpp_kernels -J, with the keys that are read."""
        random = np.random.default_rng(seed)
        rows = []
        for kernel in ("encode", "decode", "adamw"):
            samples = 100 * (1 + 0.02 * random.standard_normal(40)) * (slower[1] if kernel == slower[0] else 1)
            rows.append({"kernel": kernel, "variant": "int8:256", "dtype": "bf16", "shape": "1024",
                         "time": statistics.median(samples.tolist()), "samples": samples.tolist()})
        return self.json_file(name, {"schema": "zeropp-kernels", "backend": backend, "device": device, "threads": 1,
                                     "config": {"values": 1024}, "rows": rows, "verdict": verdict})

    def test_kernels(self):
        before = self.kernels("a.json", 1)
        _, rows = self.compare(before, self.kernels("b.json", 2, slower=("decode", 1.1)), code=1)
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         {"encode/int8:256/bf16/1024": "same", "decode/int8:256/bf16/1024": "slower",
                          "adamw/int8:256/bf16/1024": "same"})
        # Each kernel is a row of the metrics.
        metrics = validate.run("prometheus", self.folder / "comparison.json")
        metrics.check_returncode()
        self.assertEqual(sum(line.startswith("zeropp_comparison_time_ratio{") for line in metrics.stdout.splitlines()),
                         len(rows))
        self.refused(before, self.kernels("b.json", 2, backend="host"), "kernels on cuda / kernels on host")
        self.refused(before, self.kernels("b.json", 2, device="other"), "other machines")
        self.refused(before, self.kernels("b.json", 2, verdict="INVALID: 1 of 3 rows"), "is INVALID: 1 of 3 rows")
        self.refused(before, self.json_file("c.json", synthetic_sweep.sweep()), "one is of a sweep, one is not")
        self.refused(before, self.trace("train.h5", 1), "did other work")

    def test_sweeps(self):
        before = self.json_file("a.json", synthetic_sweep.sweep(seed=1))
        after = self.json_file("b.json", synthetic_sweep.sweep(seed=2, factor=slowed(1.1, PLANTED)))
        done, rows = self.compare(before, after, code=1)
        name = "all_gather int8:256 two-level world nccl 1 MiB bfloat16 in-place"
        self.assertEqual([row for row in rows if rows[row]["verdict"] != "same"], [name])
        row = rows[name]
        self.assertTrue(row["beyond"] and row["verdict"] == "slower" and row["interval"][0] > 1.03, row)
        self.assertLess(row["interval"][1], 1.2)
        self.assertRegex(done.stderr, rf"^zpp-validate compare: error: slower: {name} \(at least .*%\): measure "
                         r"these rows again on an idle machine; ")
        self.assertNotIn("bytes:", done.stderr)
        self.assertIn("8 ranks on 1 node; 8 x NVIDIA H200", done.stdout)
        self.assertEqual(len(rows), 3 * 2 * 12 * 2)
        samples = json.loads(before.read_text())["results"][0]["out_of_place"]["samples"]
        self.assertEqual(rows["all_gather none flat world nccl 1 KiB bfloat16 out-of-place"]["median_a"],
                         statistics.median(samples))
        # The other way round it is faster, and beyond a threshold of 20 % it is not.
        self.assertEqual(self.compare(after, before)[1][name]["verdict"], "faster")
        done, rows = self.compare(before, after, "--threshold", "0.2")
        self.assertEqual((rows[name]["verdict"], rows[name]["beyond"]), ("slower", False))
        # A run of the same seed sends the same bytes.
        first = (self.compare(before, after, code=1)[0].stdout, self.document)
        self.assertEqual((self.compare(before, after, code=1)[0].stdout, self.document), first)

    def test_rows_of_one_side(self):
        before = self.json_file("a.json", synthetic_sweep.sweep(codecs=("none", "int8:256"), sizes=(1024, 4096)))
        after = self.json_file("b.json", synthetic_sweep.sweep(codecs=("none", "int4:128"), sizes=(1024, 4096)))
        gone, _ = self.compare(before, after, code=1)
        self.assertIn("missing in B: all_gather int8:256 flat world nccl 1 KiB bfloat16 out-of-place", gone.stderr)
        done, rows = self.compare(before, after, "--partial")
        self.assertEqual(len(rows), 2 * 2 * 2)
        self.assertEqual(set(row["verdict"] for row in rows.values()), {"same"})
        self.assertEqual(len(self.document["only_a"]), 8)
        self.assertIn("only in A: all_gather int8:256 flat world nccl 1 KiB bfloat16 out-of-place\n", done.stdout)
        self.assertIn("only in B: all_gather int4:128 two-level world nccl 4 KiB bfloat16 in-place\n", done.stdout)

    def test_times_that_are_none(self):
        whole = json.loads(self.trace("whole.json", 1, as_json=True).read_text())
        good = self.json_file("good.json", whole)
        for time in (float("nan"), float("inf"), 0.0, -0.5, None):
            with self.subTest(time=time):
                steps = whole["steps"] | {"time": [*whole["steps"]["time"][:-1], time]}
                spoiled = self.json_file("bad.json", whole | {"steps": steps})
                self.refused(good, spoiled, "bad.json", "measure again")

    def test_noise_is_not_called_the_same_in_silence(self):
        files = [self.json_file(f"{seed}.json", synthetic_sweep.sweep(seed=seed, cv=0.2, codecs=("none",),
                                                                      sizes=(1 << 20,)))
                 for seed in (1, 2)]
        _, rows = self.compare(*files)
        for row in rows.values():
            self.assertEqual((row["verdict"], row["notes"][-1]), ("same", "3.0% not excluded"))

    def test_drift_is_said(self):
        document = synthetic_sweep.sweep(seed=1, codecs=("none",), sizes=(1 << 20,))
        before = self.json_file("a.json", document)
        document["results"][0]["in_place"]["samples"].sort()
        _, rows = self.compare(before, self.json_file("b.json", document))
        self.assertEqual([name for name, row in rows.items() if "B drifts" in row["notes"]],
                         ["all_gather none flat world nccl 1 MiB bfloat16 in-place"])

    def test_few_samples_in_one_row(self):
        """The others are judged; and a regression is said before what is undecided."""
        made = lambda seed, **options: synthetic_sweep.sweep(seed=seed, codecs=("none",), sizes=(1 << 20, 1 << 22),
                                                             **options)
        before = self.json_file("a.json", made(1))
        for factor, code in ((1.0, 4), (1.2, 1)):
            document = made(2, factor=lambda *row, by=factor: by)
            document["results"][0]["in_place"]["samples"][4:] = []
            done, rows = self.compare(before, self.json_file("b.json", document), code=code)
            verdicts = [row["verdict"] for row in rows.values()]
            self.assertEqual(verdicts.count("undecided"), 1)
            self.assertEqual(verdicts.count("slower" if code == 1 else "same"), len(rows) - 1)
            self.assertIn("1 undecided", done.stdout)

    def test_other_collectives(self):
        before = self.json_file("a.json", synthetic_sweep.sweep(collectives=("all_gather", "all_reduce"),
                                                                sizes=(1024,)))
        after = self.json_file("b.json", synthetic_sweep.sweep(collectives=("all_gather", "reduce_scatter"),
                                                               sizes=(1024,)))
        self.refused(before, after, "all_gather, all_reduce / all_gather, reduce_scatter", "--collective all_gather")
        _, rows = self.compare(before, after, "--collective", "all_gather")
        self.assertEqual({name.split()[0] for name in rows}, {"all_gather"})
        self.refused(before, after, words=("--collective", "broadcast"))

    def test_other_machines(self):
        before = self.json_file("a.json", synthetic_sweep.sweep(sizes=(1024,)))
        for name, change in (("ranks", dict(ranks=4)), ("gpus", dict(gpu="NVIDIA H100"))):
            after = self.json_file(f"{name}.json", synthetic_sweep.sweep(sizes=(1024,), **change))
            with self.subTest(name):
                self.refused(before, after, "--across-machines")
                self.compare(before, after, "--across-machines", "--threshold", "0.9")

    def test_files_that_say_nothing(self):
        good = self.json_file("a.json", synthetic_sweep.sweep(sizes=(1024,)))
        sweep = synthetic_sweep.sweep(sizes=(1024,))
        bad = {"INVALID: a row": sweep | {"verdict": "INVALID: a row"}, "INVALID: 3 wrong": sweep | {
                   "out_of_bounds": {"count": 3, "okay": False}},
               "is none of": {"steps": []}, "holds no object": [1], "holds no time": sweep | {"results": []},
               "it has no collective": sweep | {"results": [{"size": 1}]},
               "missing or of another kind": sweep | {"config": None}}
        for part, document in bad.items():
            with self.subTest(part):
                self.refused(good, self.json_file("b.json", document), "b.json", part)
        document = synthetic_sweep.sweep(sizes=(1024,))
        document["results"][0]["in_place"]["samples"][3] = 0.0
        self.refused(good, self.json_file("b.json", document), "not above 0")
        (self.folder / "torn.json").write_text('{"results": [')
        self.refused(good, self.folder / "torn.json", "torn.json is no trace or JSON")
        self.refused(good, self.folder / "nowhere.json", "nowhere.json cannot be read", code=5)
        self.refused(good, self.json_file("b.json", synthetic_sweep.sweep(sizes=(2048,))), "no row in common")
        self.refused(good, self.trace("train.h5", 1), "one is of a sweep, one is not")

    def test_nccl_tests(self):
        one, other = (self.json_file(f"{n}.json", synthetic_sweep.nccl_tests(seed=n)) for n in (1, 2))
        done, rows = self.compare(one, other, code=4)
        self.assertIn("6 of 6 rows are undecided: 8 samples on either side are needed", done.stderr)
        self.assertIn("-N 8 of zpp_sweep and nccl-tests", done.stderr)
        for row in rows.values():
            self.assertEqual((row["verdict"], row["interval"], row["notes"]), ("undecided", None, ["8 samples needed"]))
        self.assertEqual(len(rows), 6)
        # A row again for each cycle of -N: samples.
        before, after = (self.json_file(f"{n}.json", synthetic_sweep.nccl_tests(seed=n, cycles=20, slower=by))
                         for n, by in ((3, 1.0), (4, 1.08)))
        _, rows = self.compare(before, after, code=1)
        self.assertEqual(set((row["verdict"], row["samples_a"]) for row in rows.values()), {("slower", 20)})
        self.assertIn("all_gather none native world nccl 32 MiB float out-of-place", rows)
        # Wrong values; what nccl-tests leaves out; the time of the host.
        document = synthetic_sweep.nccl_tests(seed=5, cycles=20)
        self.refused(before, self.json_file("bad.json", document | {"out_of_bounds": {"count": 2, "okay": "false"}}),
                     "2 wrong")
        for row in document["results"]:
            row["out_of_place"] = None
            if row["size"] == 1 << 20:
                row["in_place"]["time"] = "nan"
            if row["size"] == 1 << 25:
                row["in_place"]["cpu_time"] = row["in_place"].pop("time")
        _, rows = self.compare(before, self.json_file("half.json", document), "--partial")
        self.assertEqual(list(rows), ["all_gather none native world nccl 1 GiB float in-place"])
        # alltoall_perf is all_to_all here.
        other = self.json_file("alltoall.json", synthetic_sweep.nccl_tests(cycles=20, program="/opt/alltoall_perf_mpi"))
        self.refused(before, other, "all_gather / all_to_all")
        # Beside a sweep of ours: what both have.
        own = self.json_file("own.json", synthetic_sweep.sweep(collectives=("all_to_all",), codecs=("none",),
                                                               sizes=(1 << 20, 1 << 25)))
        self.refused(own, other, "no row in common")

    def test_training(self):
        for as_json, suffix in ((False, "h5"), (True, "json")):
            with self.subTest(suffix):
                a, b, c = (self.trace(f"{name}.{suffix}", seed, step, as_json)
                           for name, seed, step in (("a", 1, 0.5), ("b", 2, 0.5), ("c", 3, 0.53)))
                _, rows = self.compare(a, b)
                row = rows["step time"]
                self.assertEqual((row["verdict"], row["samples_a"]), ("same", STEPS - 1))
                self.assertLess(row["median_a"], 0.6e6)  # microseconds, without the first step
                done, rows = self.compare(a, c, code=1)
                self.assertTrue(rows["step time"]["beyond"], rows)
                self.assertEqual(self.document["places"],
                                 ["A: 4 ranks on 2 nodes; 4 x h", "B: 4 ranks on 2 nodes; 4 x h"])
                self.assertEqual(self.compare(a, b, "--warmup", "0")[1]["step time"]["samples_a"], STEPS)
        self.compare(a, self.folder / "b.h5")  # one of each
        self.refused(a, b, "no step left", words=("--warmup", str(STEPS)))
        few = self.trace("few.h5", 1, steps=5)
        self.assertIn("6 samples on either side are needed", self.compare(few, few, code=4)[0].stderr)

    def test_skipped_steps_are_no_samples(self):
        skipped = [0] * STEPS
        skipped[3] = skipped[7] = 1
        path = self.trace("a.h5", 1, skipped=skipped)
        self.assertEqual(self.compare(path, path)[1]["step time"]["samples_a"], STEPS - 3)

    def test_training_that_cannot_be_compared(self):
        a = self.trace("a.h5", 1)
        self.refused(a, self.trace("b.h5", 1, nodes=4, local=1), "4 ranks on 2 nodes / 4 ranks on 4 nodes",
                     "--across-machines")
        self.refused(a, self.trace("b.h5", 1, micro=4), "other work: 192 tokens per step / 384",
                     words=("--across-machines",))
        self.refused(a, self.trace("b.h5", 1, attributes={"verdict": "INVALID: loss is not finite"}),
                     "loss is not finite")
        self.refused(a, self.trace("b.h5", 1, attributes={"emulated": 1}), "2 nodes, emulated")
        self.refused(a, a, "leave it out", words=("--collective", "all_gather"))

    def test_bytes(self):
        """Another configuration may send other bytes; the same one may not."""
        a, other = self.trace("a.h5", 1), self.trace("b.h5", 2, qwz=True)
        done, _ = self.compare(a, other)
        self.assertIn("zero_optimization.zero_quantized_weights False / True", done.stdout)
        root = {"config_hash": "same"}
        a, other = self.trace("a.h5", 1, attributes=root), self.trace("b.h5", 2, qwz=True, attributes=root)
        done, _ = self.compare(a, other, code=1)
        self.assertIn("bytes_inter_node a step", done.stderr)
        self.assertEqual(len(self.document["other_bytes"]), 2)

    def test_folders(self):
        """Folders of studies give a row per run."""
        for study, seed in (("before", 1), ("after", 10)):
            for index, run in enumerate(("plain", "qwz", study)):
                slower = 1.1 if (study, run) == ("after", "qwz") else 1.0
                self.trace(f"{study}/runs/{run}/train.h5", seed + index, 0.5 * slower, qwz=run == "qwz")
        done, rows = self.compare(self.folder / "before", self.folder / "after", code=1)
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         {"runs/plain/train: step time": "same", "runs/qwz/train: step time": "slower"})
        self.assertEqual((self.document["only_a"], self.document["only_b"]),
                         (["runs/before/train: step time"], ["runs/after/train: step time"]))
        self.assertIn("missing in B: runs/before/train: step time", done.stderr)
        (self.folder / "empty").mkdir()
        self.refused(self.folder / "before", self.folder / "empty", "holds no trace")

    def test_command_line(self):
        a = self.trace("a.h5", 1)
        for words in (("--threshold", "3"), ("--level", "0"), ("--resamples", "10"), ("--seed", "-1"),
                      ("--confidence", "0.4")):
            done = validate.run("compare", a, a, *words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words[0], done.stderr)
            if words[0] == "--threshold":
                self.assertIn("3 is not between 0 and 1: it is a share of the time, as 0.03 for 3 %, ", done.stderr)
                self.assertIn("compare bytes alone by zpp-validate gate --only bytes", done.stderr)
        done, _ = self.compare(a, a, "--json", self.folder / "nowhere" / "x.json", code=5)
        self.assertIn("cannot be read or written", done.stderr)


unittest.main(verbosity=2)
