"""Do two sets of samples differ, and which of many pairs do: the rank-sum test of Mann and Whitney, and Holm's
correction.

The test asks how often a sample of one set exceeds one of the other, so outliers count no more than any large value,
and no shape of the distribution is assumed. Samples are taken to be independent: where one resembles the one before it
(serial()), the test calls too many sets different. Its p-value is that of the normal approximation, two-sided, with
corrections for ties and continuity. Where the sets are small and all but separated it is larger than the exact one: it
errs towards "the same".
"""

import math

import numpy as np
import scipy


def p_value(first, second):
    """That two sets of samples of one distribution would differ as much as these do."""
    return float(scipy.stats.mannwhitneyu(first, second, method="asymptotic").pvalue)


def smallest_p(m, n):
    """p_value() of m and n samples, none equal, when each sample of one side exceeds each of the other."""
    return math.erfc((m * n / 2 - 0.5) / math.sqrt(m * n * (m + n + 1) / 6))


def samples_needed(level):
    """The fewest samples on either side with which p_value() can be `level` or less."""
    count = 1
    while smallest_p(count, count) > level:
        count += 1
    return count


def serial(samples):
    """Whether samples, in the order in which they were taken, resemble the one before more than 1 of 100 independent
    sets would: their ranks' correlation with the next is above 2.33 standard deviations."""
    ranks = scipy.stats.rankdata(samples)
    ranks -= ranks.mean()
    square = ranks @ ranks
    return bool(square > 0 and ranks[:-1] @ ranks[1:] / square > 2.33 / math.sqrt(len(samples)))


def holm(p_values):
    """Adjusted p-values, in the order given. Calling those up to a level different errs in any row of all with no more
    than that probability, whatever the rows have to do with each other."""
    values = np.asarray(p_values, dtype=float)
    order = values.argsort(kind="stable")
    adjusted = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.minimum(adjusted, 1)[order.argsort()].tolist()
