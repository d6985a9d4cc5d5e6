"""From which size on a codec pays: where its time falls below that of the uncompressed collective, and stays there.

The uncompressed time at a size is that of the fastest algorithm there which sends codec `none`: a codec has to beat
what a user would run without it. Between two measured sizes the logarithm of the ratio of times is taken to be linear
in that of the size. The interval is the bootstrap's: sizes of crossings of resampled medians (2.5 % to 97.5 %).
"""

import math
from dataclasses import dataclass

import numpy as np

from zpp_validate.stats import rank_test

INTERVAL = (0.025, 0.975)
FEWEST = rank_test.samples_needed(0.05)  # samples of a row; with fewer its resamples say nothing of how it spreads


@dataclass(frozen=True)
class Series:
    """Codec and algorithm of a line of a plot."""

    codec: str
    algorithm: str

    def __str__(self):
        return f"{self.codec} {self.algorithm}"


@dataclass
class Table:
    """Rows of one collective, group, transport, type, operation, root and place by series and size."""

    title: str
    name: str
    rows: dict  # Series -> {size: sweep_file.Row}

    @property
    def sizes(self):
        return sorted({size for rows in self.rows.values() for size in rows})

    def median(self, series, size):
        row = self.rows[series].get(size)
        return None if row is None else float(np.median(row.samples))

    def baseline(self, size):
        """The fastest uncompressed series at a size; None where there is none."""
        plain = [series for series in self.rows if series.codec == "none" and size in self.rows[series]]
        return min(plain, key=lambda series: self.median(series, size), default=None)

    def speed_up(self, series, size):
        """Over the baseline; None where either was not measured."""
        base, time = self.baseline(size), self.median(series, size)
        return None if base is None or time is None else self.median(base, size) / time


@dataclass
class Crossing:
    """`size` in bytes: 0 where the codec pays from the smallest size on, infinity where it does not at the largest.
    `interval`: the same of its ends; None without samples enough."""

    series: Series
    size: float
    interval: tuple | None


def tables(rows, place):
    """The rows of a sweep (sweep_file), parted into tables of those that can be compared; those of `place`. Sizes that
    were rounded to nothing have no place on a logarithmic axis."""
    found = {}
    for key, row in rows.items():
        if key.place != place or key.size == 0:
            continue
        operation = [key.redop] * (key.redop not in ("none", "")) + [f"root {key.root}"] * (key.root >= 0)
        words = [key.collective, key.group, key.transport, key.type, *operation]
        table = found.setdefault(tuple(words), Table(" ".join(words), "-".join(words).replace(" ", "-"), {}))
        table.rows.setdefault(Series(key.codec, key.algorithm), {})[key.size] = row
    return list(found.values())


def crossing_of(sizes, log_ratios):
    """`sizes` ascending, n of them; `log_ratios` [n, r]: logarithms of codec's over uncompressed time. The crossings, r
    of them."""
    x = np.log(sizes)
    ratios = np.asarray(log_ratios, dtype=float)
    loses = ratios >= 0
    last = len(x) - 1 - np.argmax(loses[::-1], axis=0)  # the largest size at which it does not pay
    after = np.minimum(last + 1, len(x) - 1)
    column = np.arange(ratios.shape[1])
    below, above = ratios[last, column], ratios[after, column]
    fall = np.where(below > above, below - above, 1.0)
    between = np.exp(x[last] + (x[after] - x[last]) * below / fall)
    return np.where(~loses.any(axis=0), 0.0, np.where(loses[-1], math.inf, between))


def crossing(table, series, resampling):
    """Crossing of one compressed series; None where no size has an uncompressed time beside the compressed one.
    `resampling`: a Bootstrap."""
    sizes = [size for size in table.sizes if size in table.rows[series] and table.baseline(size)]
    if not sizes:
        return None
    measured = [table.rows[series][size].samples for size in sizes]
    plain = [table.rows[table.baseline(size)][size].samples for size in sizes]
    ratio = [[math.log(np.median(own) / np.median(base))] for own, base in zip(measured, plain)]
    point, interval = float(crossing_of(sizes, ratio)[0]), None
    if all(len(samples) >= FEWEST for samples in [*measured, *plain]):
        # A stream of its own for each size and side: rows vary apart from each other.
        drawn = [np.log(resampling.medians(own, 2 * i + 1) / resampling.medians(base, 2 * i))
                 for i, (own, base) in enumerate(zip(measured, plain))]
        found = np.sort(crossing_of(sizes, drawn))
        interval = tuple(float(found[round(share * (len(found) - 1))]) for share in INTERVAL)
    return Crossing(series, point, interval)


def crossings(table, resampling):
    """Crossings of all compressed series."""
    found = [crossing(table, series, resampling) for series in table.rows if series.codec != "none"]
    return [entry for entry in found if entry]
