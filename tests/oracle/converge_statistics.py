# ctest: name=converge_statistics timeout=120 labels=oracle,nightly
"""The statistics of zpp-validate converge over many simulated matrices: intervals cover, false alarms are as rare as
promised, what is promised to be seen is seen. Every count lies within what a binomial of the promised probability gives
in all but 1 of 10,000 cases."""

import unittest

import numpy as np
from scipy import stats

from zpp_validate.stats import paired, power, rank_test

MATRICES, SETTINGS, LEVEL, NOISE = 800, 8, 0.05, 0.01
RARE = 1e-4


def matrices(seeds, effect, random_seed):
    """For each matrix a Pairs of each setting. As in a matrix, all settings are compared with the same runs of the
    baseline."""
    random = np.random.default_rng(random_seed)
    own = effect + NOISE * random.standard_normal((MATRICES, SETTINGS, seeds))
    differences = own - NOISE * random.standard_normal((MATRICES, 1, seeds))
    return [[paired.of(each) for each in matrix] for matrix in differences]


class Statistics(unittest.TestCase):
    def at_most(self, count, trials, probability, what):
        self.assertLessEqual(count, stats.binom.ppf(1 - RARE, trials, probability), what)

    def at_least(self, count, trials, probability, what):
        self.assertGreaterEqual(count, stats.binom.ppf(RARE, trials, probability), what)

    def test_intervals_cover(self):
        """The first setting of each matrix: those beside it share its baseline and are not independent."""
        for seeds, effect in ((3, 0.0), (5, 0.03), (12, -0.01)):
            inside = sum(low <= effect <= high for matrix in matrices(seeds, effect, 1)
                         for low, high in [matrix[0].interval(0.95)])
            self.at_most(inside, MATRICES, 0.95, (seeds, inside))
            self.at_least(inside, MATRICES, 0.95, (seeds, inside))

    def test_false_alarms_of_a_matrix(self):
        """Nothing differs: any row of a matrix is called different in no more than LEVEL of all matrices."""
        alarms = sum(min(rank_test.holm([row.p_differs() for row in matrix])) <= LEVEL
                     for matrix in matrices(5, 0.0, 2))
        self.at_most(alarms, MATRICES, LEVEL, alarms)
        self.assertGreater(alarms, 0.2 * LEVEL * MATRICES)  # and the test is not one that never says anything

    def test_false_equivalence(self):
        """All settings differ by just the margin: any row is called equivalent in no more than LEVEL of all
        matrices."""
        for effect in (0.02, -0.02):
            wrong = sum(min(rank_test.holm([max(row.p_equivalent(0.02)) for row in matrix])) <= LEVEL
                        for matrix in matrices(5, effect, 3))
            self.at_most(wrong, MATRICES, LEVEL, wrong)

    def test_equivalence_is_shown_where_it_is(self):
        """A margin of seven standard deviations of a difference, five seeds."""
        shown = sum(max(matrix[0].p_equivalent(0.1)) <= LEVEL / SETTINGS for matrix in matrices(5, 0.0, 4))
        self.assertGreater(shown, 0.99 * MATRICES)

    def test_power_is_as_promised(self):
        """The difference that is said to be found with 80 % is found with 80 %: its size comes from the true spread
        here."""
        for seeds in (5, 8):
            spread = NOISE * np.sqrt(2)
            effect = paired.Pairs(seeds, 0.0, spread).detectable(LEVEL / SETTINGS, 0.8)
            found = sum(row.p_above(0) <= LEVEL / SETTINGS / 2 for row, *_ in matrices(seeds, effect, 5))
            self.at_least(found, MATRICES, 0.79, (seeds, found))
            self.at_most(found, MATRICES, 0.81, (seeds, found))

    def test_the_provable_margin_is_just_provable(self):
        for matrix in matrices(5, 0.004, 6)[:50]:
            margin = matrix[0].provable_margin(LEVEL)
            self.assertAlmostEqual(max(matrix[0].p_equivalent(margin)), LEVEL, places=9)

    def test_against_scipy(self):
        random = np.random.default_rng(7)
        for count in (2, 3, 7):
            values = 0.01 + 0.02 * random.standard_normal(count)
            row = paired.of(values)
            self.assertAlmostEqual(row.p_differs(), stats.ttest_1samp(values, 0).pvalue, places=12)
            self.assertAlmostEqual(row.p_above(0.005), stats.ttest_1samp(values, 0.005, alternative="greater").pvalue,
                                   places=12)
            self.assertAlmostEqual(row.p_below(0.005), stats.ttest_1samp(values, 0.005, alternative="less").pvalue,
                                   places=12)
            for ours, theirs in zip(row.interval(0.95), stats.t.interval(0.95, count - 1, values.mean(),
                                                                         stats.sem(values))):
                self.assertAlmostEqual(ours, theirs, places=12)
        # The noncentral t where SciPy has it: ten degrees of freedom.
        shift = power.shift_found(10, 0.05, 0.8)
        self.assertAlmostEqual(stats.nct.sf(stats.t.ppf(0.975, 10), 10, shift), 0.8, places=3)

    def test_no_spread(self):
        same, apart = paired.of([0.0] * 5), paired.of([0.5] * 5)
        self.assertEqual((same.p_differs(), same.p_equivalent(0.02), same.interval(0.95)),
                         (1.0, (0.0, 0.0), (0.0, 0.0)))
        self.assertEqual((apart.p_differs(), apart.p_equivalent(0.02)), (0.0, (0.0, 1.0)))
        for values in ([], [1.0]):
            with self.assertRaisesRegex(ValueError, "2 at least"):
                paired.of(values)


if __name__ == "__main__":
    unittest.main()
