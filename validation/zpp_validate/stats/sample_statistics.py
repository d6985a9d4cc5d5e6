"""Statistics of repeated times: median with a 95 % interval, 95th percentile, coefficient of variation.

The interval of the median is that of the order statistics: whatever the distribution, the median lies between
the k-th smallest and the k-th largest of n samples with probability 1 - 2 P(Binomial(n, 1/2) < k). Up to 5
samples cannot reach 95 %: then it is the whole range.
"""

import math
import statistics
from dataclasses import dataclass

from zpp_validate.problem import Unfit


@dataclass(frozen=True)
class Summary:
    """In the unit of the samples. `p95`: linear between the two neighbours; `variation`: the standard deviation (n - 1)
    over the mean."""

    count: int
    median: float
    low: float
    high: float
    p95: float
    variation: float


def rank_of_interval(count):
    """The largest k whose k-th smallest and k-th largest samples hold the median in 95 of 100 cases; 1 at least."""
    rank, tail = 1, 1
    while True:  # tail / 2^count: probability that at most `rank` samples are below the median
        tail += math.comb(count, rank)
        if 2 * tail > 0.05 * 2**count:
            return rank
        rank += 1


def summarize(samples):
    """Throws ValueError without samples."""
    ordered = sorted(samples)
    count = len(ordered)
    if count == 0:
        raise Unfit("no samples")
    rank = rank_of_interval(count)
    p95 = statistics.quantiles(ordered, n=20, method="inclusive")[-1] if count > 1 else ordered[0]
    spread = statistics.stdev(ordered) if count > 1 else 0.0
    return Summary(count, statistics.median(ordered), ordered[rank - 1], ordered[count - rank], p95,
                   spread / statistics.fmean(ordered))
