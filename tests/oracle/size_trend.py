# ctest: name=size_trend timeout=120 labels=oracle,nightly
"""zpp-validate size-trend: the slope against SciPy's and against simulated studies, and the command on matrices of
three sizes with known losses, some of them in two files."""

import json
import math
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
from scipy import stats

import synthetic_converge as made
import validate
from zpp_validate.stats import paired, trend

RARE = 1e-4


class Slope(unittest.TestCase):
    def test_two_groups_are_welchs_interval(self):
        random = np.random.default_rng(3)
        for first, second in ((5, 9), (2, 30), (12, 12)):
            low, high = 0.004 * random.standard_normal(first), 0.001 + 0.002 * random.standard_normal(second)
            slope = trend.of([2.0, 4.5], [paired.of(low), paired.of(high)])
            expected = stats.ttest_ind(high, low, equal_var=False)
            self.assertAlmostEqual(slope.value, (high.mean() - low.mean()) / 2.5, places=12)
            self.assertAlmostEqual(slope.value / slope.error, expected.statistic, places=9)
            self.assertAlmostEqual(2 * stats.t.sf(abs(expected.statistic), slope.freedom), expected.pvalue, places=12)
            reach = stats.t.ppf(0.975, slope.freedom) * slope.error
            self.assertEqual(slope.interval(0.95), (slope.value - reach, slope.value + reach))

    def test_several_groups_are_the_least_squares_line(self):
        random = np.random.default_rng(4)
        places = [0.0, 0.5, 1.3, 2.0]
        groups = [paired.of(0.01 * place + random.standard_normal(6)) for place in places]
        slope = trend.of(places, groups)
        self.assertAlmostEqual(slope.value, stats.linregress(places, [group.mean for group in groups]).slope, places=12)
        equal = [paired.Pairs(5, 0.002 * place, 0.0) for place in places]
        self.assertAlmostEqual(trend.of(places, equal).value, 0.002, places=15)
        self.assertEqual(*trend.of(places, equal).interval(0.95))
        for places in ([1.0], [2.0, 2.0]):
            with self.assertRaises(ValueError):
                trend.of(places, groups[:len(places)])

    def test_intervals_cover(self):
        """Groups of other sizes and spreads, and a true slope of 0.003."""
        random, studies = np.random.default_rng(5), 2000
        places, counts, spreads = np.log10([7e6, 27e6, 124e6]), (24, 12, 5), (0.002, 0.004, 0.008)
        covered = 0
        for _ in range(studies):
            groups = [paired.of(0.003 * place + spread * random.standard_normal(count))
                      for place, count, spread in zip(places, counts, spreads)]
            low, high = trend.of(places, groups).interval(0.95)
            covered += low <= 0.003 <= high
        self.assertGreaterEqual(covered, stats.binom.ppf(RARE, studies, 0.94))
        self.assertLessEqual(covered, stats.binom.ppf(1 - RARE, studies, 0.96))


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        os.environ["COLUMNS"] = "1000"

    def matrix(self, name, hidden, growth, **options):
        """A matrix whose setting `grows` costs `growth` more than the baseline, and `flat` 0.01."""
        settings = (made.BASE, made.setting("grows", effect=growth, **made.INT4),
                    made.setting("flat", effect=0.01, **made.WEIGHTS))
        attributes, groups = made.make(settings, quadratic=False, contracts=False, **options)
        groups["settings"]["config_json"] = [self.of_size(text, hidden) for text in groups["settings"]["config_json"]]
        return made.write(self.folder / name, attributes, groups)

    def of_size(self, text, hidden):
        config = json.loads(text)
        config["zeropp"]["model"] |= {"hidden_size": hidden, "num_attention_heads": 2}
        return json.dumps(config)

    def say(self, *words, code=0):
        done = validate.run("size-trend", *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def rows(self, text, name):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
                if line.startswith(f"| {name} ")]

    def test_three_sizes(self):
        words = [self.matrix("small.h5", 32, 0.01, noise=1e-6), self.matrix("middle.h5", 64, 0.04, noise=1e-6),
                 self.matrix("large.h5", 128, 0.07, noise=1e-6),
                 self.matrix("larger.h5", 128, 0.07, noise=1e-6, seeds=range(7, 10))]
        text = self.say(*words, "--output", self.folder / "table.md")
        self.assertEqual((self.folder / "table.md").read_text(), text[:-1])
        *sizes, slope = self.rows(text, "grows")
        # A GPT of two blocks, 256 tokens and 32 positions, whose head is the embedding.
        count = {hidden: 288 * hidden + 2 * (12 * hidden**2 + 13 * hidden) + 2 * hidden for hidden in (32, 64, 128)}
        self.assertEqual([row[1:5] for row in sizes],
                         [[f"{count[hidden] / 1e6:.1f} M", f"{16 * 32 * made.STEPS / count[hidden]:.2g}", seeds, cost]
                          for hidden, seeds, cost in ((32, "6", "+0.0100"), (64, "6", "+0.0400"),
                                                      (128, "9", "+0.0700"))])
        expected = stats.linregress([math.log10(each) for each in count.values()], [0.01, 0.04, 0.07]).slope
        self.assertEqual(slope[1], "3")
        self.assertAlmostEqual(float(slope[2]), expected, delta=1e-4)
        low, high = map(float, slope[3].split(" to "))
        self.assertTrue(low <= expected + 1e-4 and expected - 1e-4 <= high and high - low < 1e-3, slope)
        low, high = map(float, self.rows(text, "flat")[-1][3].split(" to "))
        self.assertTrue(low - 1e-4 <= 0 <= high + 1e-4)
        only = self.say(*words, "--only", "base", "--only", "flat")
        self.assertEqual((self.rows(only, "grows"), len(self.rows(only, "flat"))), ([], 4))

    def test_refusals(self):
        small, same = self.matrix("small.h5", 32, 0.0), self.matrix("same.h5", 32, 0.0, seeds=range(7, 10))
        self.assertIn("of one size", self.say(small, same, code=2))
        path = self.folder / "no.h5"
        path.write_bytes(b"no trace")
        self.say(small, path, code=2)
        attributes, groups = made.make(quadratic=False, contracts=False)
        other = made.write(self.folder / "unsaid.h5", attributes, groups)
        self.assertIn("does not say the size", self.say(small, other, code=2))
        attributes, groups = made.make(quadratic=False, contracts=False)
        groups["settings"]["config_json"] = [self.of_size(text, 64) for text in groups["settings"]["config_json"]]
        groups["runs"]["bytes_inter_node"][0] += 1
        spoilt = made.write(self.folder / "spoilt.h5", attributes, groups)
        self.assertIn("INVALID", self.say(small, spoilt, code=1))


if __name__ == "__main__":
    unittest.main()
