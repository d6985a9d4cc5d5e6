"""Tests of paired differences: their mean with an interval, whether it is above or below a bound, whether it is within
a margin on both sides (two one-sided tests, TOST), and how small a difference so many pairs can show.

Differences are taken to be independent and near normal: each is one of two whole runs from one seed. All tests are
Student's with n - 1 degrees of freedom. Differences that are all equal have no spread: a test of such is certain,
either way. With fewer than two pairs nothing can be said, and everything throws ValueError.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from zpp_validate.problem import Unfit
from zpp_validate.stats import power


@dataclass(frozen=True)
class Pairs:
    """`mean` of `count` differences, `spread`: their standard deviation (n - 1), `error`: the mean's standard error."""

    count: int
    mean: float
    spread: float

    @property
    def error(self):
        return self.spread / math.sqrt(self.count)

    @property
    def freedom(self):
        return self.count - 1

    def interval(self, confidence):
        """(low, high), two-sided."""
        reach = scipy.stats.t.ppf((1 + confidence) / 2, self.freedom) * self.error
        return self.mean - reach, self.mean + reach

    def p_above(self, bound):
        """One-sided p-value: that a mean of `bound` or less would look this large."""
        if self.spread == 0:
            return 0.0 if self.mean > bound else 1.0
        return float(scipy.stats.t.sf((self.mean - bound) / self.error, self.freedom))

    def p_below(self, bound):
        """One-sided p-value: that a mean of `bound` or more would look this small."""
        return Pairs(self.count, -self.mean, self.spread).p_above(-bound)

    def p_differs(self):
        """Two-sided p-value of no difference."""
        return min(1.0, 2 * min(self.p_above(0), self.p_below(0)))

    def p_equivalent(self, margin):
        """(p above -margin, p below margin): equivalence is shown at the larger of the two."""
        return self.p_above(-margin), self.p_below(margin)

    def provable_margin(self, level):
        """The smallest margin within which these differences show equivalence at `level`."""
        reach = scipy.stats.t.ppf(1 - level, self.freedom) * self.error
        return max(self.mean + reach, reach - self.mean)

    def detectable(self, level, chance):
        """The smallest true difference that a two-sided test at `level` would find with probability `chance`, if
        differences spread as these do."""
        return power.shift_found(self.freedom, level, chance) * self.error


def of(differences):
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        raise Unfit(f"{len(values)} pairs: 2 at least are needed for an interval")
    return Pairs(len(values), float(values.mean()), float(values.std(ddof=1)))
