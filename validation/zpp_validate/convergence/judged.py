"""Judges each setting of a matrix against its baseline by the losses: difference, interval, equivalence, and the
differences that the runs could not have shown.

Two families of p-values are corrected by Holm, each over all settings of the file: that a setting differs from its
baseline, and that it is equivalent to it within the margin. The detectable difference and the provable margin are
corrected too, by the number of rows (Bonferroni): they hold for all rows together. The interval holds for its row
alone.
"""

from dataclasses import dataclass

from zpp_validate.stats import paired, rank_test

SAFE, WORSE, BETTER, OPEN, DIVERGED = "equivalent", "worse", "better", "undecided", "diverged"
WITHIN = ", within the margin"  # beside WORSE and BETTER
POWER, CONFIDENCE = 0.8, 0.95


@dataclass
class Row:
    """A setting and its baseline; nats per token. `p_differs`, `p_equivalent`: corrected. `p_low`, `p_high`: the two
    one-sided tests, uncorrected. `interval`: of this row alone. `detectable`: the smallest true difference that would
    have been found with a probability of POWER; `provable`: the smallest margin within which equivalence would be
    shown; both corrected."""

    setting: object
    baseline: object
    pairs: paired.Pairs
    interval: tuple
    p_low: float
    p_high: float
    p_differs: float
    p_equivalent: float
    detectable: float
    provable: float
    verdict: str = ""

    def mean(self, name, side=None):
        """Mean of a column of /runs, over the seeds of the setting or of `side`."""
        runs = (side or self.setting).runs.values()
        return sum(getattr(run, name) for run in runs) / len(runs)


def verdict_of(row, level):
    """A difference may be shown and be within the margin as well: then it is small, and there."""
    equivalent, differs = row.p_equivalent <= level, row.p_differs <= level
    if not differs:
        return SAFE if equivalent else OPEN
    return (WORSE if row.pairs.mean > 0 else BETTER) + WITHIN * equivalent


def shown(verdict):
    """As it is printed: files of earlier versions say "equivalent, worse" of what is worse, within the margin."""
    first, _, second = verdict.partition(", ")
    return second + WITHIN if first == SAFE and second else verdict


def judge(study, margin, level):
    """Rows in the file's order, by the last held-out losses. Needs a study that ConvergeChecker accepts, with two seeds
    at least."""
    compared = study.compared()
    pairs = [paired.of(study.differences(setting, baseline)) for setting, baseline in compared]
    differs = rank_test.holm([each.p_differs() for each in pairs])
    equivalent = rank_test.holm([max(each.p_equivalent(margin)) for each in pairs])
    share = level / max(1, len(pairs))
    rows = []
    for (setting, baseline), each, p_differs, p_equivalent in zip(compared, pairs, differs, equivalent):
        row = Row(setting, baseline, each, each.interval(CONFIDENCE), *each.p_equivalent(margin), p_differs,
                  p_equivalent,
                  each.detectable(share, POWER), each.provable_margin(share))
        row.verdict = verdict_of(row, level)
        rows.append(row)
    return rows
