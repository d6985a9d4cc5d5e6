"""Power of a study of so many pairs, before it is made: how wide its interval is, how likely it finds a difference or
shows that there is none beyond a margin, if the differences spread as a pilot's do.

All of Student's t test, as paired.py has it. Probabilities are means over the distribution of the standard deviation
that the study itself will find: chi-squared with n - 1 degrees of freedom, cut into SHARES parts of equal probability.
"""

import functools
import math

import numpy as np
import scipy

SHARES, MOST = 4000, 10000


@functools.cache
def own_spreads(freedom):
    """Standard deviations that samples find, in units of the true one."""
    shares = (np.arange(SHARES) + 0.5) / SHARES
    return np.sqrt(scipy.stats.chi2.ppf(shares, freedom) / freedom)


def spread_bound(spread, freedom, confidence):
    """Upper bound, with that confidence, of the true standard deviation of `freedom` + 1 differences that spread by
    `spread`."""
    return spread * math.sqrt(freedom / scipy.stats.chi2.ppf(1 - confidence, freedom))


def half_width(count, spread, confidence):
    """Half the width of the two-sided interval, where the study finds the spread itself."""
    return scipy.stats.t.ppf((1 + confidence) / 2, count - 1) * spread / math.sqrt(count)


def half_width_met(count, spread, wanted, confidence):
    """Probability that the interval is as narrow: the study finds its own spread, not the true one."""
    if spread == 0:
        return 1.0
    return float(scipy.stats.chi2.cdf((count - 1) * (wanted / half_width(count, spread, confidence)) ** 2, count - 1))


def found(count, spread, effect, level):
    """Probability that a two-sided test at `level` finds a true difference of `effect` on its own side."""
    if spread == 0:
        return 1.0 if effect else 0.0
    return shift_chance(count - 1, abs(effect) * math.sqrt(count) / spread, level)


def shift_chance(freedom, shift, level):
    """found() of a true difference of `shift` standard errors of the mean. SciPy's noncentral t is not exact at few
    degrees of freedom and large shifts."""
    critical = scipy.stats.t.ppf(1 - level / 2, freedom)
    return float(scipy.stats.norm.sf(critical * own_spreads(freedom) - shift).mean())


@functools.cache
def shift_found(freedom, level, chance):
    """The true difference, in standard errors of the mean, that is found with probability `chance`."""
    most = 20 * scipy.stats.t.ppf(1 - level / 2, freedom) + 20
    return scipy.optimize.brentq(lambda shift: shift_chance(freedom, shift, level) - chance, 0, most, xtol=1e-6)


def shown_equivalent(count, spread, margin, level, effect=0.0):
    """Probability that two one-sided tests at `level` show a true difference of `effect` to be within the margin."""
    if spread == 0:
        return 1.0 if abs(effect) < margin else 0.0
    root = math.sqrt(count) / spread
    reach = scipy.stats.t.ppf(1 - level, count - 1) * own_spreads(count - 1)
    below, above = (scipy.stats.norm.cdf(end) for end in ((margin - effect) * root - reach,
                                                          (-margin - effect) * root + reach))
    return float(np.maximum(below - above, 0).mean())


def split(differences, sizes):
    """(standard deviation that seeds cause, that the held-out data cause in one seed's mean, and that other data would
    cause in the mean of all seeds) of differences by seed and part of the held-out data, a row per seed. `sizes`: of
    the parts, in any unit.

    Each is a mean over seeds and parts, an effect of its seed, one of its part, and a rest. The rest, over the parts,
    is evaluation noise: it falls with the held-out size, and with the number of seeds. The effect of a part is the same
    in all seeds: no number of seeds makes it smaller. An effect that is estimated to be below 0 is 0. Effects and rests
    of parts fall with their sizes: weights are sizes, and variances are those of a part of the mean size."""
    values, weights = np.asarray(differences, dtype=float), np.asarray(sizes) / np.mean(sizes)
    seeds, parts = values.shape
    by_seed, by_part = values @ weights / parts, values.mean(axis=0)
    mean = by_seed.mean()
    rest = ((values - by_seed[:, None] - by_part + mean) ** 2 @ weights).sum() / ((seeds - 1) * (parts - 1))
    evaluation = rest / parts
    seed = max(0.0, by_seed.var(ddof=1) - evaluation)
    data = max(0.0, (by_part - mean) ** 2 @ weights / (parts - 1) - rest / seeds) / parts
    return math.sqrt(seed), math.sqrt(evaluation), math.sqrt(data)


def fewest(enough):
    """The smallest number of pairs of which `enough` is true, or None: what it asks for gets easier with every pair."""
    if not enough(MOST):
        return None
    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
