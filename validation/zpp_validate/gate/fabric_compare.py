"""Compares two surveys of zpp_fabric: which links became slower?

A file has one time of each link, so the spread is that of the links of a class: how their ratios, after over before,
differ from the median of the ratios. A link became slower where its ratio is beyond 1 + threshold, beyond five robust
standard deviations of the class, and its time is longer by 0.1 us. A class became slower where the median of its ratios
is beyond 1 + threshold: this finds the cable that slows all links between two nodes, which no survey alone can see.

Links are paired by the names of their hosts, and ranks of a host by their order: a batch system may give the same hosts
in another order, or some others. Surveys without a common host are paired rank by rank where the user asks for it.
"""

import collections
import math
import statistics
from dataclasses import dataclass

from zpp_validate.problem import Problem
from zpp_validate.tables import markdown_table

DEVIATIONS, NORMAL = 5, 1.4826  # NORMAL times the median deviation is the standard deviation of a normal distribution
FLOOR = 0.1  # us: what a timer tells apart
MOST_NAMES = 8  # in one line: --json has all
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
    if a.pairs != b.pairs:
        raise Problem(f"{pair} measured pairs by other tests, {a.pairs} / {b.pairs}: measure again with --fabric-pairs "
                      f"{a.pairs}")
    if a.message_bytes != b.message_bytes:
        raise Problem(f"{pair} sent other messages, {a.message_bytes} / {b.message_bytes} bytes: measure again "
                          f"with --fabric-bytes {a.message_bytes}")
    ours, theirs = hosts_of(a), hosts_of(b)
    common = [host for host in ours if host in theirs]
    if not common and not across_machines:
        raise Problem(f"{pair} are of other hosts, {listed(ours)} / {listed(theirs)}: measure those of A again, or "
                      f"give --across-machines to compare rank by rank")
    if not common and list(ours.values()) != list(theirs.values()):
        raise Problem(f"{pair} are of other ranks or nodes, {len(a.ranks)} / {len(b.ranks)} ranks: measure again "
                      f"with those of A")
    for host in common:
        if ours[host] != theirs[host]:
            raise Problem(f"{pair} are of other ranks or nodes, {len(ours[host])} / {len(theirs[host])} ranks on "
                          f"{host}: measure again with those of A")
        gpus = [{rank.gpu for rank in side.ranks if rank.host == host} for side in (a, b)]
        if gpus[0] != gpus[1] and not across_machines:
            raise Problem(f"{pair} are of other machines, {host} has {listed(gpus[0])} / {listed(gpus[1])}: "
                          f"measure again there, or give --across-machines")


def listed(names):
    """At most MOST_NAMES of them, and how many others there are."""
    names = [name or "no GPU" for name in sorted(names)]
    others = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return "; ".join(names[:MOST_NAMES] + others)


def hosts_of(survey):
    """The nodes of each host's ranks, counted from its first node: 0 unless nodes are emulated."""
    nodes = collections.defaultdict(list)
    for rank in survey.ranks:
        nodes[rank.host].append(rank.node)
    return {host: [node - own[0] for node in own] for host, own in nodes.items()}


@dataclass
class Comparison:
    """`rows`: by class and metric; `only_a`, `only_b`: hosts, and links between hosts of both, that one side has;
    `notes`: what was not compared."""

    rows: list
    only_a: list
    only_b: list
    notes: list


def named_times(survey, by_name):
    """(class, link, metric) -> microseconds. `by_name`: the hosts whose links are named by host; empty: by rank."""
    name = [str(rank) if by_name else f"rank {place}" for place, rank in enumerate(survey.ranks)]
    return {(kind, " -> ".join(name[end] for end in ends), metric): time
            for (kind, ends, metric), time in survey.times.items()
            if not by_name or all(survey.ranks[end].host in by_name for end in ends)}


def compare(a, b, threshold):
    """The Comparison of two surveys that require_comparable() accepts."""
    hosts = [set(hosts_of(side)) for side in (a, b)]
    common = hosts[0] & hosts[1]
    times = [named_times(side, common) for side in (a, b)]
    notes = []
    if common and hosts[0] != hosts[1]:
        times = [{key: time for key, time in side.items() if key[0] != "rail"} for side in times]
        notes.append("rails are not compared: their ranks are on other hosts")
    groups = {}
    for (kind, link, metric), before in times[0].items():
        if (kind, link, metric) in times[1]:
            groups.setdefault((kind, metric), {})[link] = before, times[1][kind, link, metric]
    only = [[f"host {host}" for host in sorted(hosts[one] - common) if common]
            + [" ".join(key) for key in times[one] if key not in times[1 - one]] for one in (0, 1)]
    return Comparison([judge(*key, links, threshold) for key, links in groups.items()], *only, notes)


def text_of(compared, threshold):
    rows = compared.rows
    cells = [[row.kind, row.metric, len(row.before), f"{statistics.median(row.before):,.2f}",
              f"{statistics.median(row.after):,.2f}",
              f"{row.ratio:.4f}", f"{row.limit:.4f}", row.found] for row in rows]
    lines = [markdown_table.aligned(COLUMNS, [list(map(str, line)) for line in cells], TEXT_COLUMNS), ""]
    for row in rows:
        lines += [f"slower: {row.kind} {link}: {row.metric} was {before:.2f} us, is {after:.2f} us, "
                  f"{after / before:.2f} times"
                  for link, before, after in row.slower]
    lines += [f"only in A: {name}" for name in compared.only_a] + [f"only in B: {name}" for name in compared.only_b]
    lines += compared.notes
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


def failures_of(compared, partial):
    """Why the comparison fails, as texts."""
    found = [f"{row.kind} {row.metric}: " + (f"the class is slower, {row.ratio:.2f} times" if row.beyond else
                                             f"{len(row.slower)} of {len(row.before)} links are slower")
             for row in compared.rows if row.verdict == SLOWER]
    if compared.only_a and not partial:
        found.append(f"missing in B: {listed(compared.only_a)}: run it again, or give --partial")
    return found
