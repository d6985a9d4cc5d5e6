"""Compares two surveys of zpp_fabric: which links became slower?

A file has one time of each link, so the spread is that of the links of a class: how their ratios, after over before,
differ from the median of the ratios. A link became slower where its ratio is beyond 1 + threshold, beyond five robust
standard deviations of the class, and its time is longer by 0.1 us. A class became slower where the median of its ratios
is beyond 1 + threshold: this finds the cable that slows all links between two nodes, which no survey alone can see.
"""

import math
import statistics
from dataclasses import dataclass

from zpp_validate.problem import Problem
from zpp_validate.tables import markdown_table

DEVIATIONS, NORMAL = 5, 1.4826  # NORMAL times the median deviation is the standard deviation of a normal distribution
FLOOR = 0.1  # us: what a timer tells apart
COLUMNS = ("class", "metric", "links", "A (us)", "B (us)", "B / A", "limit of a link", "verdict")
SAME, SLOWER = "same", "slower"
TEXT_COLUMNS = {"class", "metric", "verdict"}


@dataclass
class ClassRow:
    """One class of links and one metric. `limit`: the ratio beyond which a link became slower; `slower`: (link, before,
    after) of each that did; `beyond`: the class did."""

    kind: str
    metric: str
    before: list
    after: list
    ratio: float
    limit: float
    slower: list
    beyond: bool

    @property
    def verdict(self):
        return SLOWER if self.beyond or self.slower else SAME

    @property
    def found(self):
        """The verdict, and what became slower: "slower: the class, 2 of 12 links"."""
        links = [f"{len(self.slower)} of {len(self.before)} links"] if self.slower else []
        what = (["the class"] if self.beyond else []) + links
        return f"{self.verdict}: {', '.join(what)}" if what else self.verdict


def judge(kind, metric, links, threshold):
    """`links`: link -> (before, after)."""
    changes = {link: math.log(after / before) for link, (before, after) in links.items()}
    middle = statistics.median(changes.values())
    spread = NORMAL * statistics.median(abs(change - middle) for change in changes.values())
    limit = max(math.log1p(threshold), DEVIATIONS * spread)
    slower = [(link, *links[link]) for link, change in changes.items() if change > limit and links[link][1]
              - links[link][0] > FLOOR]
    before, after = ([pair[side] for pair in links.values()] for side in (0, 1))
    beyond = middle > math.log1p(threshold) and statistics.median(after) - statistics.median(before) > FLOOR
    return ClassRow(kind, metric, before, after, math.exp(middle), math.exp(limit), slower, beyond)


def threshold_of(a, b):
    """The larger threshold of the two surveys. Raises Problem where it allows twice the time or more."""
    loosest = max((a, b), key=lambda survey: survey.threshold)
    if loosest.threshold >= 1:
        raise Problem(f"{loosest.path} was judged with the threshold {loosest.threshold:g}, which a comparison with it "
                      f"would allow each link to become slower by: give --threshold SHARE, as 0.5 for half as long "
                      f"again")
    return loosest.threshold


def require_comparable(a, b, across_machines, partial):
    """Raises Problem."""
    pair = f"{a.path} and {b.path}"
    if a.unmeasured and not partial:
        raise Problem(f"{a.path} is no baseline: {len(a.unmeasured)} pairs of ranks were not measured: measure again "
                      f"with a longer --fabric-seconds, or give --partial to compare the others")
    if a.message_bytes != b.message_bytes:
        raise Problem(f"{pair} sent other messages, {a.message_bytes} / {b.message_bytes} bytes: measure again "
                          f"with --fabric-bytes {a.message_bytes}")
    if [node for node, _ in a.ranks] != [node for node, _ in b.ranks]:
        raise Problem(f"{pair} are of other ranks or nodes, {len(a.ranks)} / {len(b.ranks)} ranks: measure again "
                          f"with those of A")
    if a.ranks != b.ranks and not across_machines:
        raise Problem(f"{pair} are of other machines: measure again there, or give --across-machines")


def compare(a, b, threshold):
    """(rows by class and metric, links that only A has, links that only B has)."""
    groups = {}
    for (kind, link, metric), before in a.times.items():
        if (kind, link, metric) in b.times:
            groups.setdefault((kind, metric), {})[link] = before, b.times[kind, link, metric]
    only = [[" ".join(key) for key in one.times if key not in other.times] for one, other in ((a, b), (b, a))]
    return [judge(*key, links, threshold) for key, links in groups.items()], *only


def text_of(rows, only_a, only_b, threshold):
    cells = [[row.kind, row.metric, len(row.before), f"{statistics.median(row.before):,.2f}",
              f"{statistics.median(row.after):,.2f}",
              f"{row.ratio:.4f}", f"{row.limit:.4f}", row.found] for row in rows]
    lines = [markdown_table.aligned(COLUMNS, [list(map(str, line)) for line in cells], TEXT_COLUMNS), ""]
    for row in rows:
        lines += [f"slower: {row.kind} {link}: {row.metric} was {before:.2f} us, is {after:.2f} us, "
                  f"{after / before:.2f} times"
                  for link, before, after in row.slower]
    lines += [f"only in A: {name}" for name in only_a] + [f"only in B: {name}" for name in only_b]
    links = sum(len(row.slower) for row in rows)
    lines.append(f"{sum(len(row.before) for row in rows)} times compared, threshold {threshold:.1%}; slower links: "
                 f"{links}, slower classes: {sum(row.beyond for row in rows)}")
    return "\n".join(lines)


def rows_of(rows):
    """The rows of --json: one for each class and metric, in the form of the comparison of samples."""
    return [{"row": f"{row.kind} {row.metric}", "median_a": statistics.median(row.before),
             "median_b": statistics.median(row.after),
             "samples_a": len(row.before), "samples_b": len(row.after), "ratio": row.ratio, "interval": None, "p": None,
             "verdict": row.verdict, "beyond": row.verdict == SLOWER,
             "notes": [f"{link} {after / before:.2f} times" for link, before, after in row.slower]} for row in rows]


def failures_of(rows, only_a, partial):
    """Why the comparison fails, as texts."""
    found = [f"{row.kind} {row.metric}: " + (f"the class is slower, {row.ratio:.2f} times" if row.beyond else
                                             f"{len(row.slower)} of {len(row.before)} links are slower") for row in rows
             if row.verdict == SLOWER]
    if only_a and not partial:
        found.append(f"missing in B: {'; '.join(only_a)}: run it again, or give --partial")
    return found
