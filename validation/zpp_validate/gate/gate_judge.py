"""Differences between a baseline's rows and those of new runs (gate.py names the tests). Reads no files."""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from zpp_validate.gate import compare
from zpp_validate.problem import Problem
from zpp_validate.stats import bootstrap

KINDS = ("bytes", "hash", "convergence", "norm", "times")
FEWEST_SEEDS = 5  # of a baseline whose spread is to be judged by: of two the quantile is that of chance alone
TIMES_LEVEL = 0.01  # of the test that times differ
EQUIVALENCE_LEVEL = 0.05  # of each one-sided test
FALSE_ALARMS = 1e-3  # of a gate whose runs are equivalent to the baseline's, over all its rows
CONFIDENCE, RESAMPLES, SEED = 0.95, 4000, 1
SAME, MOVED, UNDECIDED = "same", "moved", "undecided"


@dataclass
class Finding:
    """One quantity of one row. `before`, `now`, `change`, `allowed`: as text."""

    row: str
    kind: str
    quantity: str
    before: str
    now: str
    change: str = ""
    allowed: str = "none"
    verdict: str = SAME
    blunt: str = ""  # the least change that shows, where that is more than was asked for


@dataclass
class Result:
    findings: list = field(default_factory=list)
    invalid: dict = field(default_factory=dict)  # trace -> reason
    missing: list = field(default_factory=list)  # what the baseline has: rows, seeds or times, as text
    unknown: list = field(default_factory=list)  # rows that the baseline has not
    notes: list = field(default_factory=list)
    partial: bool = False
    baseline: object = None

    @property
    def moved(self):
        return [each for each in self.findings if each.verdict == MOVED]

    @property
    def code(self):
        if self.moved or self.invalid or (self.missing and not self.partial):
            return 1
        return 4 if any(each.verdict == UNDECIDED or each.blunt for each in self.findings) else 0


def exact_of(old, new):
    """Findings on exact values, for runs that skipped as many steps as one of the baseline."""
    for skipped in sorted(set(old.exact) & set(new.exact), key=int):
        for name, value in old.exact[skipped].items():
            now = new.exact[skipped].get(name)
            yield Finding(old.name, "bytes", name, str(value), str(now), verdict=SAME if now == value else MOVED)
    known = ", ".join(sorted(old.exact, key=int))
    for skipped in sorted(set(new.exact) - set(old.exact), key=int) if old.exact else ():
        yield Finding(old.name, "bytes", "bytes", f"of runs that skipped {known}", f"of one that skipped {skipped}",
                      verdict=UNDECIDED)


def skips_of(old, new):
    """Findings on skipped steps. A seed of the baseline has to skip as many as there; another seed as many as the seeds
    there do, or a number between their least and most."""
    least, most = min(old.skips.values(), default=0), max(old.skips.values(), default=0)
    for seed, now in sorted(new.skips.items(), key=lambda item: int(item[0])):
        known = seed in old.skips
        low, high = (old.skips[seed],) * 2 if known else (least, most)
        verdict = SAME if low <= now <= high else MOVED if known or least == most else UNDECIDED
        yield Finding(old.name, "bytes", f"skipped steps, seed {seed}", str(low) if low == high else f"{low} to {high}",
                      str(now),
                      verdict=verdict)


def hashes_of(old, new):
    for seed in sorted(set(old.hashes) & set(new.hashes), key=int):
        pair = old.hashes[seed], new.hashes[seed]
        yield Finding(old.name, "hash", f"parameters, seed {seed}", *(each[:12] for each in pair),
                      verdict=SAME if pair[0] == pair[1] else MOVED)


def equivalence(before, now, margin, tests):
    """(difference of the means, reach of its interval, margin that is allowed): equivalent where |difference| + reach
    <= margin. The spread is the baseline's; `tests`: among how many the false alarms are shared."""
    before, now = np.array(before), np.array(now)
    freedom = len(before) - 1
    error = before.std(ddof=1) * math.sqrt(1 / len(before) + 1 / len(now))
    reach = scipy.stats.t.ppf(1 - EQUIVALENCE_LEVEL, freedom) * error
    provable = reach + scipy.stats.t.ppf(1 - FALSE_ALARMS / tests / 2, freedom) * error
    return now.mean() - before.mean(), reach, max(margin, provable)


def spread_of(old, new, kind, margin, tests):
    """The finding of losses, or of the logarithms of norms; none where there is nothing to compare."""
    before, now = (list((side.losses if kind == "convergence" else side.norms).values()) for side in (old, new))
    if not before or not now:
        return
    if len(before) < FEWEST_SEEDS:
        raise Problem(f"the baseline of {old.name} has {len(before)} seeds: equivalence needs {FEWEST_SEEDS}: "
                          f"record more, or leave "
                          "convergence and norm out of --only")
    ratio = kind == "norm"
    quantity = "gradient norm" if ratio else "held-out loss"
    sides = [sum(values) / len(values) for values in (before, now)]
    finding = Finding(old.name, kind, quantity, *(f"{value:.5g}" for value in sides))
    if not all(map(math.isfinite, before + now)) or (ratio and min(before + now) <= 0):
        finding.verdict, finding.change = MOVED, "not finite"
    else:
        if ratio:
            before, now, margin = np.log(before), np.log(now), math.log1p(margin)
        change, reach, allowed = equivalence(before, now, margin, tests)
        finding.verdict = SAME if abs(change) + reach <= allowed else MOVED
        finding.change = f"x {math.exp(change):.4f}" if ratio else f"{change:+.4f}"
        finding.allowed = (f"x {math.exp(reach - allowed):.4f} to {math.exp(allowed - reach):.4f}" if ratio
                           else f"{allowed - reach:.4f} (equivalence within {allowed:.4f})")
        finding.blunt = finding.allowed if finding.verdict == SAME and allowed > margin else ""
    yield finding


def times_of(pairs, threshold):
    """By the same tests as compare.py, over all rows at once."""
    rows = [compare.Comparison(old.name, old.times, new.times) for old, new in pairs if old.times and new.times]
    if not rows:
        return
    compare.judge(rows, TIMES_LEVEL, CONFIDENCE, threshold, bootstrap.Bootstrap(RESAMPLES, SEED))
    for row in rows:
        low, high = row.interval or (math.nan, math.nan)
        known = f"{low:.4f} to {high:.4f}" if row.interval else row.notes[0]  # how many samples it takes
        hidden = row.verdict != compare.FASTER and not row.beyond and high > 1 + threshold
        yield Finding(row.name, "times", "time", f"{np.median(row.before):.5g} us", f"{np.median(row.after):.5g} us",
                      f"x {row.ratio:.4f} ({known})", f"x {1 + threshold:g}",
                      MOVED if row.beyond else UNDECIDED if row.verdict == compare.UNDECIDED else SAME,
                      f"x {(1 + threshold) * row.ratio / low:.4f}" if hidden else "")


def missing_of(old, new, kinds):
    """Seeds, or all times, that a row of the baseline has and the new one lacks, as text."""
    seeds = sorted(set(old.skips) - set(new.skips), key=int)
    if seeds:
        yield f"{old.name}: {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}"
    if "times" in kinds and old.times and not new.times:
        yield f"{old.name}: times"


def require_same_work(old, new):
    """Raises Problem where an option that both configurations have differs. An option that only one has was added or
    removed between versions."""
    other = [f"{name} {old.config[name]} / {new.config[name]}" for name in sorted(set(old.config) & set(new.config))
             if old.config[name] != new.config[name]]
    if other:
        raise Problem(f"{old.name} has another configuration than in the baseline: {'; '.join(other[:4])}: run the "
                          f"same, or record anew")


def judge(old, new, arguments, result):
    """Fills `result` from two baseline.Runs. Raises Problem where rows cannot be compared."""
    pairs = [(row, new.rows[name]) for name, row in old.rows.items() if name in new.rows]
    result.findings += [Finding(name, "convergence", "held-out loss", "finite", "diverged", verdict=MOVED)
                        for name in new.diverged if name in old.rows]
    if not pairs and not result.findings:
        raise Problem(f"no row in common: the baseline has {', '.join(sorted(old.rows))}; here are "
                          f"{', '.join(sorted(new.rows))}")
    for before, now in pairs:
        require_same_work(before, now)
    result.partial = arguments.partial
    result.missing = [name for name in old.rows if name not in new.rows and name not in new.diverged]
    result.missing += [text for before, now in pairs for text in missing_of(before, now, arguments.only)]
    result.unknown = [name for name in new.rows if name not in old.rows]
    result.notes = [f"{name}: {old.versions.get(name)} / {new.versions.get(name)}" for name in new.versions
                    if old.versions.get(name) != new.versions[name]]
    here = old.machine == new.machine
    margins = {"convergence": arguments.margin, "norm": arguments.norm_margin}
    tests = len(pairs) * len(margins)
    for before, now in pairs:
        if "bytes" in arguments.only:
            result.findings += [*exact_of(before, now), *skips_of(before, now)]
        if "hash" in arguments.only and here:
            result.findings += hashes_of(before, now)
        for kind, margin in margins.items():
            if kind in arguments.only:
                result.findings += spread_of(before, now, kind, margin, tests)
    if "times" in arguments.only:
        result.findings += times_of(pairs, arguments.threshold)
    if not result.findings:
        raise Problem(f"nothing was compared: these rows have none of {', '.join(arguments.only)}")
    return result
