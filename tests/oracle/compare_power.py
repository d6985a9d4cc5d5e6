# ctest: name=compare_finds_a_slowdown timeout=300 labels=oracle,nightly
"""zpp-validate compare finds a slowdown of 5 % in one row of 100, and no row where there is none.

Times spread by 2 %, 50 samples per row on either side, 50 trials each with seeds of their own: the planted row, and no
other, is slower beyond the threshold of 3 % in 47 trials or more; of 50 trials without a slowdown at most 3 name a
row, whatever for. Once with normal noise, once with the long tail of real times. And the parts it is made of keep what
they promise.
"""

import math

import numpy as np

from zpp_validate.gate import compare
from zpp_validate.stats import bootstrap, rank_test

TRIALS, ROWS, SAMPLES, CV, SLOWDOWN = 50, 100, 50, 0.02, 1.05
LEVEL, CONFIDENCE, THRESHOLD, RESAMPLES = 0.01, 0.95, 0.03, 4000  # the defaults


def normal(random, shape):
    return 1 + CV * random.standard_normal(shape)


def skewed(random, shape):
    """A floor and a tail: a gamma distribution of shape 4, whose standard deviation is half of its mean."""
    return 1 + CV * random.gamma(4.0, 0.5, shape)


def judged(before, after, seed):
    rows = [compare.Comparison(str(index), *pair) for index, pair in enumerate(zip(before, after))]
    compare.judge(rows, LEVEL, CONFIDENCE, THRESHOLD, bootstrap.Bootstrap(RESAMPLES, seed))
    return rows


def check_power(noise):
    found = alarms = named = 0
    for trial in range(TRIALS):
        random = np.random.default_rng([2306, 10209, trial])
        times = 10 ** random.uniform(1, 5, (ROWS, 1))
        before, clean, after = (times * noise(random, (ROWS, SAMPLES)) for _ in range(3))
        planted = random.integers(ROWS)
        after[planted] *= SLOWDOWN
        found += [row.name for row in judged(before, after, trial) if row.beyond] == [str(planted)]
        rows = judged(before, clean, trial)
        alarms += any(row.beyond for row in rows)
        named += any(row.verdict != compare.SAME for row in rows)
    print(f"{noise.__name__}: found in {found} of {TRIALS} trials; {alarms} false alarms, {named} other verdicts in "
          f"{TRIALS} clean ones")
    assert found >= 47 and alarms <= 3 and named <= 3, (found, alarms, named)


def check_bound():
    """Rows that are slower by the threshold itself are called beyond it about as often as the confidence allows."""
    random = np.random.default_rng(7)
    share = np.mean([row.beyond for row in judged(normal(random, (2000, SAMPLES)),
                                                  1.03 * normal(random, (2000, SAMPLES)), 1)])
    # Not seldom, for then the bound would be loose. Standard deviation of the share: 0.005.
    assert 0.02 <= share <= 0.07, share
    # Twice as fast: the ratio, its interval, and the side are right.
    (row,) = judged(normal(random, (1, SAMPLES)), normal(random, (1, SAMPLES)) / 2, 1)
    assert row.verdict == compare.FASTER and not row.beyond and row.interval[0] < 0.5 < row.interval[1] < 0.52, row
    assert math.isclose(row.ratio, np.median(row.after) / np.median(row.before)), row


def check_bootstrap():
    """Medians of resamples that are drawn one by one have the same distribution; ranks as far as chance allows."""
    random = np.random.default_rng(3)
    for count in (6, 7, 50, 51):
        samples = random.gamma(2.0, 1.0, count)
        slow = np.median(random.choice(samples, (40000, count)), axis=1)
        fast = bootstrap.Bootstrap(40000, 5).medians(samples, 0)
        for share in (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975):
            # The share of one below the other's quantile; steps of discrete values are taken from either side.
            value = np.quantile(slow, share)
            low, high = np.mean(fast < value - 1e-12), np.mean(fast <= value + 1e-12)
            assert low - 0.01 <= share <= high + 0.01, (count, share, low, high)
    first, again, other = (bootstrap.Bootstrap(1000, seed).medians(samples, 0) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    both = bootstrap.Bootstrap(20000, 1)
    assert abs(np.corrcoef(both.medians(samples, 0), both.medians(samples, 1))[0, 1]) < 0.03


def check_ranks():
    random = np.random.default_rng(11)
    assert rank_test.p_value([3.0] * 9, [3.0] * 9) == 1.0
    for m, n in ((5, 5), (6, 6), (20, 30)):
        apart = rank_test.p_value(np.arange(m), 100 + np.arange(n))
        assert math.isclose(apart, rank_test.smallest_p(m, n)), (m, n, apart)
        assert apart >= 2 / math.comb(m + n, m), (m, n, apart)  # the exact one
    assert rank_test.samples_needed(0.01) == 6
    count = rank_test.samples_needed(1e-4)
    assert rank_test.smallest_p(count, count) <= 1e-4 < rank_test.smallest_p(count - 1, count - 1)
    drift = random.standard_normal((2, 1000, 50))
    assert 0.002 <= np.mean([rank_test.serial(row) for row in drift[0]]) <= 0.02
    # Half of a sample is that before it.
    for index in range(1, 50):
        drift[1, :, index] = 0.5 * drift[1, :, index - 1] + math.sqrt(0.75) * drift[1, :, index]
    assert np.mean([rank_test.serial(row) for row in drift[1]]) > 0.75
    assert rank_test.serial(np.arange(20.0)) and not rank_test.serial([2.0] * 20)
    # Holm's own rule by hand: 3 x 0.01, 2 x 0.02, 0.3, never falling.
    assert np.allclose(rank_test.holm([0.3, 0.01, 0.02]), [0.3, 0.03, 0.04]), rank_test.holm([0.3, 0.01, 0.02])
    assert np.allclose(rank_test.holm([0.02, 0.02, 0.9]), [0.06, 0.06, 0.9]) and rank_test.holm([]) == []


check_ranks()
check_bootstrap()
check_bound()
for shape in (normal, skewed):
    check_power(shape)
