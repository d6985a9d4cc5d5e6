"""Bootstrap of medians: how a median, or a ratio of two, would vary if the samples were drawn again.

A resample draws n of n sorted samples with replacement: sample floor(n U) for each of n uniform numbers U. Its k-th
smallest value is therefore sorted[floor(n U_k)], where U_k is the k-th smallest of the n numbers. U_k has a Beta(k, n -
k + 1) distribution, and given it, the next one is U_k + (1 - U_k) Beta(1, n - k). So the median of a resample takes one
or two random numbers instead of n: the same distribution, n times faster.

The numbers depend on the seed, the stream and n alone: what is said of a row does not depend on the rows beside it.
"""

import functools

import numpy as np


class Bootstrap:
    """`resamples`: how many; `seed`: the same seed, the same result."""

    def __init__(self, resamples, seed):
        self.resamples, self.seed = resamples, seed
        self.places = functools.cache(self.places)

    def places(self, count, stream):
        """Where the two middle values of each resample lie among `count` sorted samples; of an odd count both are
        one."""
        random = np.random.default_rng([self.seed, stream, count])
        middle = (count + 1) // 2  # the lower one, counted from 1
        lower = random.beta(middle, count - middle + 1, self.resamples)
        upper = lower if count % 2 else lower + (1 - lower) * random.beta(1, count - middle, self.resamples)
        return tuple(np.minimum((count * u).astype(int), count - 1) for u in (lower, upper))

    def medians(self, samples, stream):
        """The medians of all resamples. Medians of different streams are independent of each other."""
        values = np.sort(np.asarray(samples, dtype=float))
        lower, upper = self.places(len(values), stream)
        return (values[lower] + values[upper]) / 2

    def ratio(self, before, after, confidence):
        """(low, high) of median(after) / median(before): each end alone is a bound that holds with `confidence`."""
        ratios = self.medians(after, 1) / self.medians(before, 0)
        return tuple(np.quantile(ratios, (1 - confidence, confidence)).tolist())
