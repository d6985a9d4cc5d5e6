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


def p_of(distance, variance):
    """Two-sided p-value of a rank sum that is `distance` from what is expected of equal sets."""
    if variance <= 0:
        return 1.0
    return math.erfc(max(distance - 0.5, 0.0) / math.sqrt(2 * variance))


def ranks_of(samples):
    """(ranks, how often each value occurs); equal values share the mean of their ranks."""
    _, places, counts = np.unique(samples, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places], counts


def p_value(first, second):
    """That two sets of samples of one distribution would differ as much as these do."""
    m, n = len(first), len(second)
    ranks, counts = ranks_of(np.concatenate([first, second]))
    exceeds = ranks[:m].sum() - m * (m + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum())
    total = m + n
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    return p_of(abs(exceeds - m * n / 2), variance)


def smallest_p(m, n):
    """Of sets of m and n samples, none equal: what p_value() says when each of one exceeds each of the other."""
    return p_of(m * n / 2, m * n * (m + n + 1) / 12)


def samples_needed(level):
    """The fewest samples on either side with which p_value() can be `level` or less."""
    count = 1
    while smallest_p(count, count) > level:
        count += 1
    return count


def serial(samples):
    """Whether samples, in the order in which they were taken, resemble the one before more than 1 of 100 independent
    sets would: their ranks' correlation with the next is above 2.33 standard deviations."""
    ranks, counts = ranks_of(samples)
    if len(counts) < 2:
        return False
    ranks = ranks - ranks.mean()
    return float(ranks[:-1] @ ranks[1:] / (ranks @ ranks)) > 2.33 / math.sqrt(len(samples))


def holm(p_values):
    """Adjusted p-values, in the order given. Calling those up to a level different errs in any row of all with no more
    than that probability, whatever the rows have to do with each other."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(largest, 1.0)
    return adjusted
