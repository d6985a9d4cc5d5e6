"""Judges the planner's times: `zpp_plan time` against published throughputs, a published log, and our own traces.

    zpp-validate planner --program build/bin/zpp_plan [--output planner.md]

Prints every row, misses too; --output writes them to a file as well. --fit fits the constants again and writes them
into the cluster files; which rows and traces they are fitted on is in planner_published.py and planner_own.py. Exit
code 1 when a mean or a worst error is above PROMISES below.
"""

import json
import pathlib
import statistics
import sys

from zpp_validate import command_line
from zpp_validate.planner import planner_own, planner_published, planner_run
from zpp_validate.tables import markdown_table

ROOT = pathlib.Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "validation" / "published" / "zeropp.json"

# Mean and worst error of rows that were not fitted on. An error above the aim is a miss, which the table explains.
OWN = (0.05, 0.10)
AIMS = {"published": (0.05, 0.12), "one GPU": OWN, "one node of 2": OWN, "one node of 4": OWN, "one node of 8": OWN,
        "emulated nodes of 1": OWN,
        "emulated nodes of 2": OWN, "offload to the host": OWN}
# Errors that were reached, rounded up: a larger error is a regression.
PROMISES = {"published": (0.05, 0.12), "one GPU": (0.02, 0.05), "one node of 2": (0.04, 0.10),
            "one node of 4": (0.03, 0.12),
            "one node of 8": (0.04, 0.10), "emulated nodes of 1": (0.10, 0.23), "emulated nodes of 2": (0.06, 0.18),
            "offload to the host": (0.04, 0.07)}


OWN_KINDS = [what for what in AIMS if what != "published"]


def percent(value, digits=1):
    return f"{100 * value:.{digits}f} %"


def published_table(rows):
    header = ["model", "tokens per GPU", "links", "run", "published TFLOPS", "predicted", "error beyond 0.5", "use"]
    cells = [[f"{row.model} B", str(row.tokens), str(row.links), row.engine, f"{row.published:g}",
              f"{row.predicted:.1f}",
              percent(row.error), "fitted on" if row.fitted else "predicted"] for row in rows]
    return markdown_table.aligned(header, cells, ["run", "use"])


def signed(predicted, measured):
    return f"{100 * (predicted / measured - 1):+.1f} %"


def milliseconds(seconds):
    return f"{seconds * 1e3:,.1f}"


def own_table(traces):
    header = ["trace", "cluster file", "measured ms", "predicted ms", "error", "use", "steps"]
    cells = [[trace.name, trace.cluster, milliseconds(trace.measured), milliseconds(trace.predicted),
              signed(trace.predicted, trace.measured), "fitted on" if trace.fitted else "predicted",
              "noisy" if trace.noisy else ""]
             for trace in traces]
    return markdown_table.aligned(header, cells, ["trace", "cluster file", "use", "steps"])


def noise_table(traces):
    """Table of errors, all and beyond the runs' own noise."""
    cells = []
    for kind in OWN_KINDS:
        rows = [trace for trace in traces if trace.kind == kind and not trace.fitted]
        for which, errors in [("all", [trace.error for trace in rows]),
                              ("all, beyond their interval", [trace.error_beyond for trace in rows]),
                              ("steady", [trace.error for trace in rows if not trace.noisy])]:
            cells.append([kind, which, str(len(errors)), *([percent(statistics.mean(errors)), percent(max(errors))]
                                                           if errors else ["", ""])])
    return markdown_table.aligned(["rows not fitted on", "which", "rows", "mean error", "worst"], cells,
                                  ["rows not fitted on", "which"])


def offload_table(traces):
    by_name = {trace.name: trace for trace in traces}
    cells = []
    for trace in traces:
        base = by_name.get(trace.without_offload) if trace.offloads else None
        if base:
            more = trace.measured - base.measured, trace.predicted - base.predicted
            cells.append([trace.name, *map(milliseconds, more), signed(more[1], more[0])])
    return markdown_table.aligned(["more than without offload", "measured ms", "predicted ms", "error"], cells,
                                  ["more than without offload"])


def tutorial_table(rows):
    cells = [[engine, phase, f"{log:,.0f}", f"{predicted:,.0f}", f"{100 * (predicted / log - 1):+.0f} %"]
             for engine, phase, log, predicted in rows]
    return markdown_table.aligned(["run", "phase", "log ms", "predicted ms", "error"], cells, ["run", "phase"])


def unexplained_table(rows):
    cells = [[what, f"{step:.2f}", f"{products:.2f}", f"{links:.2f}", f"{left:.0f}"]
             for what, step, products, links, left in rows]
    return markdown_table.aligned(["ZeRO++, one link", "step s", "products s", "links s", "left, ps a parameter"],
                                  cells, ["ZeRO++, one link"])


def constants_table(planner, cluster, constants):
    description = planner.description(cluster)
    cells = [[path, f"{planner_run.value_at(description, path):.4g}", f"{least:g} to {most:g}", meaning]
             for path, meaning, least, most in constants]
    return markdown_table.aligned(["constant", "value", "plausible", "what it is"], cells,
                                  ["constant", "plausible", "what it is"])


def contradictions(rows):
    by_key = {(row.key, row.engine): row for row in rows}
    cells = []
    for a, b in planner_published.CONTRADICTING:
        for engine in planner_published.FEATURES:
            one, other = by_key[a, engine], by_key[b, engine]
            cells.append([f"{a[1]} tokens, {a[2]} link(s), {engine}", f"{a[0]} B: {one.published:g}",
                          f"{b[0]} B: {other.published:g}",
                          f"{one.predicted:.1f}", f"{other.predicted:.1f}"])
    return markdown_table.aligned(["same tokens and links", "published", "published", "predicted", "predicted"], cells,
                                  ["same tokens and links"])


NOISE = f"""Beyond their interval: errors counted from the nearer end of the 95 % interval of the median of a run's \
own steps. Steady: runs whose steps
vary by at most {percent(planner_own.NOISY, 0)} (coefficient of variation), the others being flagged as noisy, as in \
every table of a training study. Verdicts are of all rows."""


class Verdicts:
    def __init__(self):
        self.rows, self.failed = [], []

    def add(self, what, errors):
        mean, worst = statistics.mean(errors), max(errors)
        met = mean <= AIMS[what][0] and worst <= AIMS[what][1]
        self.rows.append([what, str(len(errors)), percent(mean), percent(worst),
                          f"{percent(AIMS[what][0], 0)} and {percent(AIMS[what][1], 0)}", "met" if met else "missed"])
        if mean > PROMISES[what][0] or worst > PROMISES[what][1]:
            self.failed.append(f"{what}: mean {percent(mean)}, worst {percent(worst)}; "
                               f"at most {percent(PROMISES[what][0])} and "
                               f"{percent(PROMISES[what][1])} are promised")

    def table(self):
        return markdown_table.aligned(["rows not fitted on", "rows", "mean error", "worst", "aim", "verdict"],
                                      self.rows,
                                      ["rows not fitted on", "verdict"])


def write_constants(planner, cluster, constants):
    file = planner.clusters / f"{cluster}.json"
    file.write_text(json.dumps(planner_run.changed(planner.description(cluster), constants), indent=2) + "\n")


def fit(planner, published, traces):
    found = planner_published.fit(planner, published)
    write_constants(planner, planner_published.CLUSTER, planner_published.linked(found))
    found = planner_own.fit(planner, traces, planner_own.CALIBRATED_ON, planner_own.CONSTANTS)
    for cluster in planner_own.CLUSTERS:
        write_constants(planner, cluster, found)
    write_constants(planner, planner_own.ALONE, planner_own.fit(planner, traces, planner_own.CALIBRATED_ALONE_ON,
                                                                [planner_own.ALONE_CONSTANT]))
    found = planner_own.fit(planner, traces, [planner_own.CALIBRATED_RAILS_ON], [planner_own.RAIL_CONSTANT])
    write_constants(planner, planner_own.CALIBRATED_RAILS, planner_own.linked(found))


def main(words):
    parser = command_line.parser("planner", __doc__)
    parser.add_argument("--program", default=ROOT / "build" / "bin" / "zpp_plan", type=pathlib.Path)
    parser.add_argument("--clusters", default=ROOT / "inputs" / "clusters", type=command_line.InputFolder)
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="write there as well")
    parser.add_argument("--fit", action="store_true", help="fit the constants again, into the cluster files")
    asked = parser.parse_args(words)
    planner = planner_run.Planner(asked.program, asked.clusters)
    published = json.loads(PUBLISHED.read_text())
    traces = planner_own.read_traces(ROOT / "results")
    if asked.fit:
        fit(planner, published, traces)

    rows = planner_published.predict(planner, published)
    tutorial = planner_published.predict_tutorial(planner, published)
    planner_own.predict(planner, traces)
    verdicts = Verdicts()
    verdicts.add("published", [row.error for row in rows if not row.fitted])
    for what in OWN_KINDS:
        verdicts.add(what, [trace.error for trace in traces if trace.kind == what and not trace.fitted])

    text = "\n\n".join([
        "# Planner: times predicted and known", verdicts.table(),
        "## Published throughputs", "Constants, fitted on the rows marked so:",
        constants_table(planner, planner_published.CLUSTER, planner_published.CONSTANTS), published_table(rows),
        "Rows that contradict each other: same tokens and links, another model. None is left out above.",
        contradictions(rows),
        "## Tutorial log",
        "4 nodes of 16 V100; how many links a node has is not said: one is assumed. Nothing is fitted on it.",
        tutorial_table(tutorial),
        "The rest of each step, where nothing is hidden and products and links take the time of their constants. One "
        "engine cannot have both.",
        unexplained_table(planner_published.unexplained(planner, published)), "## Own traces",
        "Constants, fitted on the traces marked so:",
        constants_table(planner, "h200-4x-node", planner_own.CONSTANTS),
        constants_table(planner, planner_own.ALONE, [planner_own.ALONE_CONSTANT]),
        constants_table(planner, planner_own.CALIBRATED_RAILS, [planner_own.RAIL_CONSTANT, planner_own.RING]),
        own_table([trace for trace in traces if not trace.offloads]),
        "### Offload to the host", "Nothing is fitted on these: rates of the link and the host's memory were "
        "measured apart.",
        own_table([trace for trace in traces if trace.offloads]), offload_table(traces),
        "### Noise", NOISE, noise_table(traces)]) + "\n"
    print(text, end="")
    if asked.output:
        asked.output.write_text(text)
    for line in verdicts.failed:
        print(f"zpp-validate planner: error: {line}", file=sys.stderr)
    return 1 if verdicts.failed else 0
