"""Slope of a mean over a quantity, from groups of differences at known values of it.

The slope is that of the least-squares line through the groups' means, all of one weight: a contrast of the means, with
no assumption on how the spread depends on the group. Its standard error adds those of the means; its degrees of freedom
are Welch's and Satterthwaite's. Two groups have Welch's
interval of the difference of two means, over their distance.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from zpp_validate.problem import Unfit


@dataclass(frozen=True)
class Slope:
    value: float
    error: float
    freedom: float

    def interval(self, confidence):
        """(low, high), two-sided."""
        reach = scipy.stats.t.ppf((1 + confidence) / 2, self.freedom) * self.error if self.error > 0 else 0.0
        return self.value - reach, self.value + reach


def of(places, groups):
    """Slope of the means of `groups`, a paired.Pairs at each of `places`."""
    apart = np.asarray(places, dtype=float) - np.mean(places)
    if len(set(places)) < 2:
        raise Unfit(f"{len(set(places))} place: a slope needs two at least")
    weights = apart / np.sum(apart**2)
    variances = (weights * [group.error for group in groups])**2
    total = float(variances.sum())
    freedom = total**2 / sum(own**2 / group.freedom for own, group in zip(variances, groups)) if total > 0 else math.inf
    return Slope(float(weights @ [group.mean for group in groups]), math.sqrt(total), float(freedom))
