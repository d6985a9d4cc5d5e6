# ctest: name=plot_sweep timeout=300 labels=oracle,nightly
"""zpp-validate plot on sweeps made here: crossings equal crossings worked out by hand, their intervals hold, and
pictures are written."""

import json
import math
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import numpy as np

import synthetic_sweep
import validate
from zpp_validate.plots import crossings
from zpp_validate.readers import sweep_file
from zpp_validate.stats import bootstrap

SIZES = [1 << k for k in range(10, 31, 2)]


def table(times):
    """`times`: {(codec, algorithm): {size: samples}}, of one collective."""
    return crossings.Table("t", "t",
                           {crossings.Series(*name): {size: sweep_file.Row(samples) for size, samples in rows.items()}
                            for name, rows in times.items()})


def found(times, codec="int8:256", algorithm="flat"):
    return crossings.crossing(table(times), crossings.Series(codec, algorithm), bootstrap.Bootstrap(2000, 1))


class Crossings(unittest.TestCase):
    def test_power_laws(self):
        """One time grows with the root of the size, one not at all: the logarithms are linear, so the crossing is
        exact."""
        for exponent in (20.0, 19.0, 13.5):
            times = {("none", "flat"): {s: [math.sqrt(s)] for s in SIZES},
                     ("int8:256", "flat"): {s: [2 ** (exponent / 2)] for s in SIZES}}
            crossing = found(times)
            self.assertAlmostEqual(math.log2(crossing.size), exponent)
            self.assertIsNone(crossing.interval)  # of one sample

    def test_ends(self):
        flat = {s: [10.0] * 6 for s in SIZES}
        for factor, size in ((0.9, 0.0), (1.1, math.inf), (1.0, math.inf)):
            crossing = found({("none", "flat"): flat, ("int8:256", "flat"): {s: [10.0 * factor] * 6 for s in SIZES}})
            self.assertEqual((crossing.size, crossing.interval), (size, (size, size)))
        # Faster, slower, faster: it is the last crossing that counts, half way between 4 and 8.
        times = {("none", "flat"): {s: [10.0] * 6 for s in (1, 2, 4, 8)},
                 ("int8:256", "flat"): {1: [5.0] * 6, 2: [5.0] * 6, 4: [20.0] * 6, 8: [5.0] * 6}}
        self.assertAlmostEqual(found(times).size, math.sqrt(32))

    def test_rows_without_bytes_are_left_out(self):
        rows = sweep_file.read_rows(synthetic_sweep.sweep(sizes=(1024, 4096)))
        empty = {key._replace(size=0): row for key, row in rows.items() if key.size == 1024}
        (own,) = crossings.tables({**empty, **rows}, "out-of-place")
        self.assertEqual(own.sizes, [1024, 4096])

    def test_baseline_is_the_fastest(self):
        times = {("none", "flat"): {4: [10.0], 8: [20.0]}, ("none", "two-level"): {4: [12.0], 8: [8.0]},
                 ("int8:256", "flat"): {4: [5.0], 8: [16.0], 16: [1.0]},
                 ("int4:128", "flat"): {8: [4.0]}}
        made = table(times)
        self.assertEqual([made.baseline(size) and made.baseline(size).algorithm for size in (4, 8, 16)],
                         ["flat", "two-level", None])
        self.assertEqual([made.speed_up(crossings.Series("int8:256", "flat"), size) for size in (4, 8, 16)],
                         [2.0, 0.5, None])
        self.assertEqual([made.speed_up(crossings.Series("int4:128", "flat"), size) for size in (4, 8)], [None, 2.0])
        self.assertEqual(found(times).size, math.inf)  # at 8, the largest that both have
        self.assertIsNone(found({("none", "flat"): {4: [1.0]}, ("int8:256", "flat"): {8: [1.0]}}))

    def test_interval_holds_the_crossing(self):
        inside, trials, exponent = 0, 200, 19.3
        for trial in range(trials):
            random = np.random.default_rng([19, trial])
            noise = lambda: 1 + 0.05 * random.standard_normal(20)
            times = {("none", "flat"): {s: math.sqrt(s) * noise() for s in SIZES},
                     ("int8:256", "flat"): {s: 2 ** (exponent / 2) * noise() for s in SIZES}}
            low, high = found(times).interval
            inside += low <= 2**exponent <= high
            self.assertLess(high / low, 1.5)
        # 95 % of 200 are 190, with a standard deviation of 3.
        self.assertGreaterEqual(inside, 180)


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def plot(self, *words, code=0):
        done = validate.run("plot", *words, "--output", self.folder / "out")
        self.assertEqual(done.returncode, code, done)
        if code == 0:
            self.assertEqual(done.stderr, "", done)
        return done

    def json_file(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def test_pictures_and_table(self):
        sizes = tuple(1 << k for k in range(16, 31))
        ours = self.json_file("ours.json", synthetic_sweep.sweep(collectives=("all_gather", "all_reduce"), sizes=sizes))
        done = self.plot(ours, self.json_file("theirs.json", synthetic_sweep.nccl_tests()))
        names = {f"{stem}{suffix}" for suffix in (".png", ".svg") for stem in (
            "ours-all_gather-world-nccl-bfloat16-bandwidth", "ours-all_gather-world-nccl-bfloat16-speed-up",
            "ours-all_reduce-world-nccl-bfloat16-bandwidth", "ours-all_reduce-world-nccl-bfloat16-speed-up",
            "theirs-all_gather-world-nccl-float-bandwidth")} | {"crossings.md"}
        written = {path.name: path for path in (self.folder / "out").iterdir()}
        self.assertEqual(set(written), names)
        for name, path in written.items():
            if name.endswith(".png"):
                self.assertTrue(path.read_bytes().startswith(b"\x89PNG"))
            elif name.endswith(".svg"):
                root = xml.etree.ElementTree.parse(path).getroot()
                self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(written["crossings.md"].read_text(), done.stdout)
        rows = {(cells[0].split()[0], *cells[1:3]): cells for cells in
                ([cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
                 if line.startswith("| all_"))}
        self.assertEqual(len(rows), 2 * 2 + 2)
        self.assertIn("## theirs: 8 ranks on 1 node, out-of-place\n\nno codec but `none`\n", done.stdout)
        # The model's own crossing: a latency more against bytes less.
        model = synthetic_sweep
        for codec in ("int8:256", "int4:128"):
            saved = 7 / 8 * (1 - model.RATIO[codec]) / model.LINK - 2 / model.CODEC
            exact = (model.LATENCY[codec] - model.LATENCY["none"]) / saved / 2**20
            value, unit = rows["all_gather", codec, "flat"][3].split()
            self.assertEqual(unit, "MiB")
            self.assertLess(abs(float(value) / exact - 1), 0.1, (codec, value, exact))
            gain = model.microseconds("all_gather", "none", "flat", sizes[-1], 8) / model.microseconds(
                "all_gather", codec, "flat", sizes[-1], 8)
            self.assertLess(abs(float(rows["all_gather", codec, "flat"][6][:-1]) / gain - 1), 0.03)
        # Again: the same bytes.
        before = {name: path.read_bytes() for name, path in written.items()}
        self.plot(ours, self.folder / "theirs.json")
        self.assertEqual({name: path.read_bytes() for name, path in written.items()}, before)

    def test_in_place_and_what_did_not_check(self):
        document = synthetic_sweep.sweep(sizes=(1 << 20, 1 << 26), factor=lambda *row: 2.0 if row[-1] == "in_place"
                                         else 1.0)
        path = self.json_file("a.json", document | {"verdict": "INVALID: 1 row"})
        done = self.plot(path, "--place", "in-place")
        self.assertIn("8 ranks on 1 node, in-place, INVALID: 1 row\n", done.stdout)

    def test_what_is_no_sweep(self):
        for name, document in {"a.json": {"results": [{}]}, "b.json": [1], "c.json": synthetic_sweep.sweep()
                               | {"results": []}}.items():
            done = self.plot(self.json_file(name, document), code=2)
            self.assertTrue(done.stderr.startswith("zpp-validate plot: error: ") and name in done.stderr, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        (self.folder / "d").mkdir()
        done = self.plot(self.json_file("a.json", synthetic_sweep.sweep()), self.json_file("d/a.json", {}), code=2)
        self.assertIn("the same name", done.stderr)


unittest.main(verbosity=2)
