# ctest: name=converge_power timeout=300 labels=oracle,nightly
"""zpp-validate power: its probabilities against closed forms and against simulated studies; a matrix of the size that
it plans finds a harm of 0.005 nats and calls nothing harmful that is not; and the command on a pilot with known
losses."""

import os
import re
import tempfile
import types
import unittest
from pathlib import Path

import h5py
import numpy as np
from scipy import stats

import synthetic_converge as made
import validate
from zpp_validate.convergence import judged
from zpp_validate.convergence import power as command
from zpp_validate.stats import paired, power

RARE = 1e-4
STUDIES, SETTINGS, LEVEL, HARM, MARGIN = 500, 10, 0.05, 0.005, 0.005


class Study:
    """A matrix of one baseline and several settings, as judged.judge() asks it: losses by setting and seed."""

    def __init__(self, baseline, losses):
        self.baseline, self.losses = baseline, losses

    def compared(self):
        return [(types.SimpleNamespace(index=index), None) for index in range(len(self.losses))]

    def differences(self, setting, baseline):
        return self.losses[setting.index] - self.baseline


def study(random, seeds, noise, effects):
    common = 3 + 0.05 * random.standard_normal(seeds)
    return Study(common + noise * random.standard_normal(seeds),
                 [common + effect + noise * random.standard_normal(seeds) for effect in effects])


class Power(unittest.TestCase):
    def at_most(self, count, trials, probability):
        self.assertLessEqual(count, stats.binom.ppf(1 - RARE, trials, probability), (count, trials, probability))

    def at_least(self, count, trials, probability):
        self.assertGreaterEqual(count, stats.binom.ppf(RARE, trials, probability), (count, trials, probability))

    def near(self, count, trials, probability):
        self.at_most(count, trials, probability)
        self.at_least(count, trials, probability)

    def test_closed_forms(self):
        for count in (2, 5, 30):
            low, high = stats.t.interval(0.95, count - 1, 0, 0.004 / np.sqrt(count))
            self.assertAlmostEqual(power.half_width(count, 0.004, 0.95), (high - low) / 2, places=12)
        for count in (11, 16, 40):  # SciPy's noncentral t at few degrees of freedom and large shifts is not one
            for effect in (0.001, 0.003, 0.005):
                shift = effect * np.sqrt(count) / 0.004
                self.assertAlmostEqual(power.found(count, 0.004, effect, 0.01),
                                       stats.nct.sf(stats.t.ppf(0.995, count - 1), count - 1, shift), places=3)
        # The spread of so many pairs is known, and the mean is normal.
        count, margin, level = 20001, 0.0001, 0.05
        reach = stats.norm.ppf(1 - level)
        for effect in (0.0, 0.00004):
            low, high = ((-margin - effect) * np.sqrt(count) / 0.004 + reach, (margin - effect) * np.sqrt(count) / 0.004
                         - reach)
            self.assertAlmostEqual(power.shown_equivalent(count, 0.004, margin, level, effect), stats.norm.cdf(high)
                                   - stats.norm.cdf(low), places=3)
        self.assertEqual(power.shown_equivalent(5, 0.1, 0.001, 0.05), 0.0)  # no spread that five pairs find leaves room
        # At the margin itself no more than the level.
        self.assertLessEqual(power.shown_equivalent(8, 0.002, MARGIN, LEVEL, MARGIN), LEVEL)
        self.assertAlmostEqual(power.found(8, 0.002, 0.0, LEVEL), LEVEL / 2, places=3)
        self.assertEqual([power.found(5, 0.0, effect, LEVEL) for effect in (0.0, 0.1)], [0.0, 1.0])
        self.assertEqual([power.shown_equivalent(5, 0.0, 0.1, LEVEL, effect) for effect in (0.0, 0.2)], [1.0, 0.0])
        self.assertEqual(power.half_width_met(5, 0.0, 0.1, 0.95), 1.0)

    def test_against_simulated_studies(self):
        random = np.random.default_rng(11)
        for count, spread, effect in ((5, 0.004, 0.006), (9, 0.004, 0.002)):
            rows = [paired.of(each) for each in effect + spread * random.standard_normal((4000, count))]
            self.near(sum(row.p_above(0) <= LEVEL / 2 for row in rows), 4000, power.found(count, spread, effect, LEVEL))
            self.near(sum(max(row.p_equivalent(0.01)) <= LEVEL for row in rows), 4000,
                      power.shown_equivalent(count, spread, 0.01, LEVEL, effect))
            self.near(sum(spread <= power.spread_bound(row.spread, count - 1, 0.8) for row in rows), 4000, 0.8)
            widths = [(high - low) / 2 for low, high in (row.interval(0.95) for row in rows)]
            for wanted in (0.002, 0.004):
                self.near(sum(width <= wanted for width in widths), 4000,
                          power.half_width_met(count, spread, wanted, 0.95))

    def test_causes(self):
        random = np.random.default_rng(13)
        # Effects of seeds and of parts, and no rest.
        exact = np.add.outer([0.001, 0.003, 0.002], [0.01, -0.01, 0.0, 0.02])
        seeds, evaluation, data = power.split(exact, [4] * 4)
        self.assertAlmostEqual(seeds, 0.001, places=12)
        self.assertAlmostEqual(evaluation, 0, places=12)
        self.assertAlmostEqual(data, np.std([0.01, -0.01, 0.0, 0.02], ddof=1) / 2, places=12)
        found = np.array([power.split(0.002 * random.standard_normal((8, 1)) + 0.004 * random.standard_normal((1, 16)) +
                                      0.006 * random.standard_normal((8, 16)), [1] * 16) for _ in range(2000)])
        for values, true in zip(found.T, (0.002, 0.006 / 4, 0.004 / 4)):
            self.assertAlmostEqual(np.sqrt((values**2).mean()), true, delta=0.05 * true)

    def test_causes_of_parts_of_several_sizes(self):
        """Parts are means of one or five batches; causes are computed for the mean of all 48 batches."""
        random = np.random.default_rng(14)
        sizes = [1, 5] * 8
        starts = np.cumsum([0, *sizes[:-1]])
        found = []
        for _ in range(2000):
            batches = (0.002 * random.standard_normal((8, 1)) + 0.008 * random.standard_normal((1, 48))
                       + 0.012 * random.standard_normal((8, 48)))
            found.append(power.split(np.add.reduceat(batches, starts, axis=1) / sizes, sizes))
        for values, true in zip(np.array(found).T, (0.002, 0.012 / np.sqrt(48), 0.008 / np.sqrt(48))):
            self.assertAlmostEqual(np.sqrt((values**2).mean()), true, delta=0.05 * true)

    def test_the_fewest(self):
        for spread, wanted in ((0.002, 0.003), (0.006, 0.003), (0.0001, 0.003)):
            enough = lambda count: count > 1 and power.half_width_met(count, spread, wanted, 0.95) >= 0.8
            self.assertEqual(command.seeds_for(spread, wanted),
                             next(count for count in range(2, 1000) if enough(count)))
        self.assertIsNone(command.seeds_for(10.0, 0.003))

    def test_a_harm_is_found_and_nothing_is_not(self):
        """The spread of a pilot, the seeds that it plans for, and the judge on such matrices: one setting of ten is
        worse by the harm."""
        noise = 0.003
        spread = noise * np.sqrt(2)
        seeds = power.fewest(lambda count: count > 1 and power.found(count, spread, HARM, LEVEL / SETTINGS) >= 0.8)
        random = np.random.default_rng(12)
        found = alarms = beside = 0
        for _ in range(STUDIES):
            harmed = judged.judge(study(random, seeds, noise, [HARM] + [0.0] * (SETTINGS - 1)), MARGIN, LEVEL)
            found += judged.WORSE in harmed[0].verdict
            beside += any(judged.WORSE in row.verdict or judged.BETTER in row.verdict for row in harmed[1:])
            rows = judged.judge(study(random, seeds, noise, [0.0] * SETTINGS), MARGIN, LEVEL)
            alarms += any(judged.WORSE in row.verdict for row in rows)
        self.at_least(found, STUDIES, 0.8)
        self.at_most(alarms, STUDIES, LEVEL)
        self.at_most(beside, STUDIES, LEVEL)
        fewer = sum(judged.WORSE in judged.judge(study(random, seeds // 2, noise, [HARM] + [0.0] * (SETTINGS - 1)),
                                                 MARGIN, LEVEL)[0].verdict
                    for _ in range(STUDIES))
        self.assertLess(fewer, 0.6 * STUDIES)  # half of them are too few: the plan is not a generous guess


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def pilot(self, name="converge.h5", **options):
        return made.write(self.folder / name, *made.make(**options))

    def say(self, *words, code=0):
        os.environ["COLUMNS"] = "1000"
        done = validate.run("power", *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def rows(self, text, name):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
                if line.startswith(f"| {name} ")]

    def test_a_pilot(self):
        path = self.pilot()
        text = self.say(path, "--half-width", "0.004", "--seeds", "6,30", "--settings", "12")
        with h5py.File(path) as file:
            losses = np.array(file["runs/final_held_out_loss"][:24]).reshape(4, 6)
            parts = np.array(file["held_out_parts/loss"]).reshape(4, 6, 4)
        for place, (name, own) in enumerate(zip(("near", "int4", "weights"), losses[1:]), 1):
            first, causes, *by_seeds = self.rows(text, name)
            apart = own - losses[0]
            spread = apart.std(ddof=1)
            bound = spread * np.sqrt(5 / stats.chi2.ppf(0.2, 5))
            self.assertEqual(first[1:7], ["6", f"{apart.mean():+.4f}", f"{spread:.5f}", f"{bound:.5f}",
                                          f"{losses[0].std(ddof=1):.5f}",
                                          f"{np.corrcoef(own, losses[0])[0, 1]:.3f}"])
            self.assertEqual(first[7:], [str(command.seeds_for(spread, 0.004)), str(command.seeds_for(bound, 0.004))])
            each = power.split(parts[place] - parts[0], [1] * 4)
            self.assertEqual(causes[1:4] + causes[5:], [f"{spread:.5f}", *(f"{value:.5f}" for value in each)])
            self.assertEqual(causes[4], f"{np.sqrt(each[0]**2 + each[1]**2 / 4):.5f}")
            self.assertEqual([row[1] for row in by_seeds], ["6", "30"])
            for count, row in zip((6, 30), by_seeds):
                self.assertEqual(row[2:], [f"{stats.t.ppf(0.975, count - 1) * bound / np.sqrt(count):.4f}",
                                           f"{power.shown_equivalent(count, bound, 0.005, 0.05 / 12):.3f}",
                                           f"{power.found(count, bound, 0.005, 0.05 / 12):.3f}"])
        self.assertRegex(text, r"\d+ seeds give every setting an interval of \+-0\.004 nats or less in 80% of studies; "
                         r"\d+ show equivalence "
                               r"within 0\.005 and find a harm of 0\.005 with a probability of 80% each, among 12 "
                         r"settings\.")
        self.assertIn("A run of the pilot took 2 s on 4 ranks.", text)

    def test_a_file_without_parts(self):
        attributes, groups = made.make()
        groups["held_out_parts"] = {name: [] for name in groups["held_out_parts"]}
        self.assertIn("is not to be seen", self.say(made.write(self.folder / "old.h5", attributes, groups)))

    def test_several_files_are_one_pilot(self):
        one, two = self.pilot("a.h5", seeds=(1, 2)), self.pilot("b.h5", seeds=(3, 4, 5), random_seed=2)
        text = self.say(one, two)
        self.assertTrue(text.startswith("2 files as one matrix: "), text)
        self.assertEqual(self.rows(text, "int4")[0][1], "5")
        self.assertTrue(re.search(r"are no parts of one matrix",
                                  self.say(one, self.pilot("c.h5", settings=made.LADDER[:2], seeds=(7, 8)), code=2)))

    def test_refusals(self):
        self.assertIn("INVALID: no setting of it is compared", self.say(self.pilot(settings=(made.BASE,)), code=1))
        self.assertIn("INVALID: setting base has 1 seeds, 2 are needed", self.say(self.pilot(seeds=(1,)), code=1))
        self.assertIn("No number of seeds up to 10000", self.say(self.pilot(), "--half-width", "0.000001"))
        for words in (["--harm", "0"], ["--seeds", "1,5"], ["--settings", "0"], ["--level", "1"]):
            self.say(self.pilot(), *words, code=2)
        self.assertIn("cannot be read", self.say(self.folder / "nowhere.h5", code=5))


if __name__ == "__main__":
    unittest.main()
