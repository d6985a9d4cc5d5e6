"""The table of a study: a row per run, from its trace (lib/trace/README.md). Used by jobscripts/study.py collect.

Times leave out the first `warmup` steps; sample_statistics.py has the statistics. Bytes are of an ordinary step (the
median, a number that some step sent), over all ranks, by the class of the link.
"""

import json
import statistics
from dataclasses import dataclass, field

import h5py
from zpp_validate.readers import trace_file
from zpp_validate.stats import bound, sample_statistics
from zpp_validate.tables import markdown_table

NOISY = 0.02  # coefficient of variation
LINKS = ("intra", "inter")
TEXT_COLUMNS = {"run", "network", "nodes x ranks", "bound by", "verdict"}
COLUMNS = ("run", "nodes x ranks", "network", "step (ms)", "95 % interval", "p95", "CV", "MB inside", "predicted",
           "MB across", "predicted", "loss", "held-out", "bound by", "verdict")
LEGEND = """
step: the median of the timed steps, the largest over ranks of each, and its 95 % interval by order statistics; CV: the
coefficient of variation. MB inside, MB across: sent a step inside nodes and between them, counted over all ranks (10^6
bytes); predicted: the closed form. loss: of the last step; held-out: of the last evaluation, nat a token.
""" + bound.LEGEND


@dataclass
class Row:
    """A run; `why_missing` as jobscripts/study_results.py says it, None: it is complete. read() fills the rest."""

    index: int
    name: str
    values: dict
    nodes: int
    ranks_per_node: int
    environment: dict
    why_missing: str | None
    seconds: list = field(default_factory=list)
    counted: dict = field(default_factory=dict)  # link class -> bytes
    predicted: dict = field(default_factory=dict)
    loss: float | None = None
    held_out: float | None = None
    parameters_hash: str = ""
    emulated: bool = False
    bound: str = bound.UNKNOWN
    problems: list = field(default_factory=list)

    @property
    def times(self):
        return sample_statistics.summarize(self.seconds) if self.seconds else None

    @property
    def network(self):
        """As "rate=1gbit"."""
        return " ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}"
                        for key, value in self.environment.get("network", {}).items())

    @property
    def verdict(self):
        if self.why_missing is None:
            return "VALID"
        return self.why_missing if self.why_missing.startswith("INVALID") else f"missing: {self.why_missing}"

    def read(self, path, warmup):
        """A run that is not complete has no numbers: what it left may be of other steps, or of another run."""
        if self.why_missing is not None:
            self.problems.append(self.verdict)
            return
        with h5py.File(path, "r") as trace:
            steps = {name: column[()].tolist()[warmup:] for name, column in trace["steps"].items()}
            if not steps["time"]:
                self.problems.append(f"no step after the {warmup} of warm-up")
                return
            self.seconds = steps["time"]
            for link in LINKS:
                self.counted[link] = statistics.median_low(steps[f"bytes_{link}_node"])
                self.predicted[link] = statistics.median_low(steps[f"bytes_predicted_{link}_node"])
            self.loss = steps["loss"][-1]
            evaluated = trace["evaluations/loss"][()].tolist()
            self.held_out = evaluated[-1] if evaluated else None
            self.parameters_hash = trace_file.text(trace.attrs["parameters_hash"])
            # Nodes were declared, or several are on one host.
            hosts = set(trace["ranks/host"].asstr()[()])
            self.emulated = bool(trace.attrs["emulated"]) or len(hosts) < trace.attrs["node_count"]
            self.bound = bound.bound_by(steps)


def number(value, scale, digits):
    return "-" if value is None else f"{value * scale:,.{digits}f}"


def cells(row):
    times = row.times
    place = f"{row.nodes} x {row.ranks_per_node}{', emulated' if row.emulated else ''}"
    verdict = row.verdict.replace("|", "/")
    if times is None:
        return [row.name, place, row.network, *["-"] * (len(COLUMNS) - 4), verdict]
    bytes_sent = [number(kind[link], 1e-6, 3) for link in LINKS for kind in (row.counted, row.predicted)]
    return [row.name, place, row.network, number(times.median, 1e3, 2),
            f"{number(times.low, 1e3, 2)} to {number(times.high, 1e3, 2)}", number(times.p95, 1e3, 2),
            f"{times.variation:.1%}", *bytes_sent, number(row.loss, 1, 4), number(row.held_out, 1, 4),
            row.bound, verdict]


def markdown(name, description, axes, rows):
    """`axes` are in the names of the runs."""
    noisy = [row.name for row in rows if row.times and row.times.variation > NOISY]
    note = (f"\nCV above {NOISY:.0%}: {len(noisy)} of {len(rows)} runs; read differences of their times no finer.\n"
            if noisy else "")
    about = "".join(f"{line}\n\n" for line in (description, f"Axes: {', '.join(axes)}." if axes else "") if line)
    table = markdown_table.aligned(COLUMNS, [cells(row) for row in rows], TEXT_COLUMNS)
    return f"# {name}\n\n{about}{table}\n{note}{LEGEND}"


def tab_separated(axes, rows):
    """Plain numbers in SI units, a column an axis; empty where there is none."""
    header = ["index", "run", *axes, "nodes", "ranks_per_node", "emulated", "network", "steps", "step_median_s",
              "step_low_s", "step_high_s", "step_p95_s", "step_cv",
              *(f"bytes_{kind}{link}_node" for link in LINKS for kind in ("", "predicted_")),
              "loss", "held_out_loss", "parameters_hash", "verdict"]
    lines = [header]
    for row in rows:
        times = row.times
        measured = [times.count, times.median, times.low, times.high, times.p95, times.variation] if times else [""] * 6
        sent = [kind.get(link, "") for link in LINKS for kind in (row.counted, row.predicted)]
        lines.append([row.index, row.name, *(row.values[axis] for axis in axes), row.nodes, row.ranks_per_node,
                      int(row.emulated), json.dumps(row.environment.get("network", {})), *measured, *sent,
                      "" if row.loss is None else repr(row.loss), "" if row.held_out is None else repr(row.held_out),
                      row.parameters_hash, " ".join(row.verdict.split())])
    return "".join("\t".join(str(cell) for cell in line) + "\n" for line in lines)
