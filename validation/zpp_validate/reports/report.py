"""One table and one picture from the traces of several training runs.

usage: zpp-validate report --output DIR [--wide] [--link DIR --link-counters FILE] TRACE.h5 [TRACE.h5 ...]

Prints a table, a row per run, folded to the terminal's width or 120 columns (--wide: in one), and writes it to
DIR/table.md in one; draws the losses and the bytes across nodes to DIR/demo.png. Where several runs have one name, the
folders of their traces distinguish them. Reads the traces only (lib/trace/README.md). The baseline, ZeRO-3 in 16 bits,
is not taken from a run but derived from the tensors in the trace, once with flat rings and once with two-level
collectives. With --link the table has the step times of the same configurations between hosts that a slow link joins:
they are from the traces in folders of DIR, and the rate is in the FILE of counters that jobscripts/local/netns.py
wrote. Exits with 1 when a run counted other bytes than it predicted, with 2 when a file is no trace of a training run.
"""

import collections
import json
import math
import statistics
import sys
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.forms import closed_forms
from zpp_validate.problem import Unfit, reading
from zpp_validate.readers import run_file
from zpp_validate.stats import bound
from zpp_validate.tables import markdown_table

COLUMNS = ("configuration", "weights", "gradients", "loss", "bits/byte", "bytes/step", "predicted", "vs flat",
           "vs two-level", "ms/step", "products", "bound by")
TEXT_COLUMNS = {"configuration", "weights", "gradients", "bound by"}


WARM_UP = 3  # steps of a run over a link that are not counted


class Link:
    """Seconds of a step over a slow link, by configuration."""

    def __init__(self, folder, counters):
        bits = json.loads(counters.read_text())["bits_per_second"]
        self.rate = f"{bits / 1e9:g} Gb/s" if bits >= 1e9 else f"{bits / 1e6:g} Mb/s"
        self.seconds = {}
        for path in sorted(folder.glob("*/train.h5")):
            with run_file.open_trace(path) as trace:
                name = label(json.loads(trace.attrs["config_json"]))
                self.seconds[name] = statistics.median(trace["steps"]["time"][()].tolist()[WARM_UP:])

    @property
    def columns(self):
        return f"ms at {self.rate}", "speed-up"

    def cells(self, run, first):
        """The time of a run, and how many times as fast as the first run it is."""
        if run.label not in self.seconds:
            raise Unfit(f"the folder of --link has no run of {run.label}")
        seconds = self.seconds[run.label]
        return f"{seconds * 1e3:.1f}", f"{self.seconds[first.label] / seconds:.2f}x"


class Run:
    """Data of one trace for the report."""

    def __init__(self, path):
        self.folder = path.resolve().parent.name
        with run_file.open_trace(path) as trace:
            attributes = trace.attrs
            config = json.loads(attributes["config_json"])
            self.ranks = int(attributes["world_size"])
            self.nodes = int(attributes["node_count"])
            self.emulated = bool(attributes["emulated"])
            self.label = label(config)
            self.text = config["zeropp"].get("data", {})
            steps = trace["steps"]
            self.counted = [int(value) for value in steps["bytes_inter_node"]]
            self.predicted = [int(value) for value in steps["bytes_predicted_inter_node"]]
            self.seconds = statistics.median(steps["time"][()].tolist())
            self.bound = bound.bound_by({name: column[()].tolist() for name, column in steps.items()})
            self.products = share_of_products(trace["timers"])
            self.gather = algorithms(trace["collectives"], "all_gather")
            self.reduce = algorithms(trace["collectives"], "reduce_scatter")
            evaluations = trace["evaluations"]
            self.evaluated_at = evaluations["step"][()].tolist()
            self.losses = evaluations["loss"][()].tolist()
            self.bits_per_byte = float(evaluations["bits_per_byte"][-1]) if self.losses else math.nan
            self.unigram_nats = float(trace["data"].attrs["unigram_entropy_bits"]) * math.log(2)
            self.baseline_flat = zero3_bytes_across_nodes(trace, config, "flat", "flat")
            self.baseline_two_level = zero3_bytes_across_nodes(trace, config, "two-level", "2-hop")

    @property
    def bytes_a_step(self):
        """An ordinary step: one before which no evaluation gathered weights."""
        return int(statistics.median_low(self.counted))

    @property
    def predicted_a_step(self):
        return int(statistics.median_low(self.predicted))


def label(config):
    """The name of a configuration, from what is switched on in it."""
    zero = config["zero_optimization"]
    parts = []
    if zero["zero_quantized_weights"]:
        parts.append("qwZ")
    if zero["zero_hpz_partition_size"] > 1:
        parts.append("hpZ")
    if zero["zero_quantized_gradients"]:
        parts.append("qgZ")
    parts = ["ZeRO++ (all three)"] if len(parts) == 3 else [f"ZeRO-{zero['stage']}", *parts]
    model = config["zeropp"].get("model", {})
    parts += [text for key, text in (("recompute_activations", "recompute"), ("cpu_checkpointing", "cpu checkpointing"))
              if model.get(key)]
    return " + ".join(parts)


def tell_apart(runs):
    """Runs of one label get the folders of their traces: they differ in what no label says, such as the codec."""
    labels = collections.Counter(run.label for run in runs)
    for run in runs:
        if labels[run.label] > 1:
            run.label += f" ({run.folder})"


def differences(runs):
    """Why losses and bytes of these runs do not compare, in words; empty: they do."""
    kinds = {"numbers of steps": {len(run.counted) for run in runs},
             "data": {json.dumps(run.text, sort_keys=True) for run in runs},
             "numbers of ranks and nodes": {(run.ranks, run.nodes) for run in runs}}
    return " and of ".join(name for name, seen in kinds.items() if len(seen) > 1)


def algorithms(collectives, operation):
    """Which algorithm and codec ran across nodes, as "two-level int8:256"."""
    text = lambda name: collectives[name].asstr()[()]
    seen = {
        f"{algorithm} {codec}"
        for kind, algorithm, codec, across in zip(
            text("operation"), text("algorithm"), text("codec"), collectives["wire_bytes_inter"][()]
        )
        if kind == operation and across > 0
    }
    return ", ".join(sorted(seen)) or "none"


def share_of_products(timers):
    """Matrix products, as a share of the time in which ranks did not wait for each other."""
    busy = products = 0.0
    for category, seconds in zip(timers["category"].asstr()[()], timers["seconds"][()]):
        busy += 0.0 if category == "communication" else seconds
        products += seconds if category == "matmul" else 0.0
    return products / busy


def zero3_bytes_across_nodes(trace, config, all_gather, reduce_scatter):
    """Bytes that ZeRO-3 without compression sends across nodes in one step, over all ranks."""
    topology = closed_forms.Topology(tuple(trace["ranks/node"][()].tolist()))
    settings = closed_forms.Settings.of(config).without_compression(all_gather, reduce_scatter)
    tensors = [[] for _ in trace["units/name"]]
    for unit, elements in zip(trace["tensors/unit"][()].tolist(), trace["tensors/elements"][()].tolist()):
        tensors[unit].append(elements)
    layers = [[int(unit) for unit in units.split(",")] for units in trace["layers/units"].asstr()[()]]
    return closed_forms.Run(settings, topology, tensors, layers).replay([False], []).steps[0].inter


def table(runs, link):
    """The rows as aligned Markdown."""
    return markdown_table.aligned((*COLUMNS, *(link.columns if link else ())), [[
        run.label, run.gather, run.reduce, f"{run.losses[-1]:.4f}" if run.losses else "-",
        "-" if math.isnan(run.bits_per_byte) else f"{run.bits_per_byte:.4f}",
        f"{run.bytes_a_step:,}", f"{run.predicted_a_step:,}",
        times(run.baseline_flat, run.bytes_a_step), times(run.baseline_two_level, run.bytes_a_step),
        f"{run.seconds * 1e3:.1f}", f"{run.products:.0%}", run.bound, *(link.cells(run, runs[0]) if link else ()),
    ] for run in runs], TEXT_COLUMNS)


LEGEND = """
loss: final validation loss, nat a token. weights, gradients: what crossed nodes, and how.
bytes/step: counted across nodes in an ordinary step, over all ranks; predicted: from the closed form.
vs flat, vs two-level: how many times less than ZeRO-3 without compression, with flat rings or two-level
collectives. ms/step: the median step, with all ranks on this machine. products: matrix products, as a
share of the time in which ranks do not wait for each other.
""" + bound.LEGEND


LINK_LEGEND = """ms at {rate}: the median step of another, short training, of one sequence a rank, between two \
emulated hosts that
such a link joins; it sends the same bytes. speed-up: how many times as fast as the first row there.
"""


def times(baseline, counted):
    return f"{baseline / counted:.2f}x" if counted else "nothing sent"


def draw(runs, path):
    import matplotlib.pyplot as plt

    from zpp_validate.pictures import COLORS, STYLE

    plt.rcParams.update(STYLE | {"font.size": 10})
    figure = plt.figure(figsize=(12, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[2.2, 1], width_ratios=[1.15, 1])
    losses = figure.add_subplot(grid[0, 0])
    differences = figure.add_subplot(grid[1, 0], sharex=losses)
    volume = figure.add_subplot(grid[:, 1])
    colors = [COLORS[index % len(COLORS)] for index in range(len(runs))]

    losses.axhline(runs[0].unigram_nats, color="#999999", linestyle=":", label="unigram entropy")
    for run, color in zip(runs, colors):
        losses.plot(run.evaluated_at, run.losses, color=color, marker="o", markersize=3, label=run.label)
        if run.evaluated_at == runs[0].evaluated_at:
            differences.plot(run.evaluated_at, [a - b for a, b in zip(run.losses, runs[0].losses)],
                             color=color, marker="o", markersize=3)
    losses.set(title="Validation loss", ylabel="loss (nat a token)")
    losses.legend(frameon=False)
    losses.tick_params(labelbottom=False)
    differences.xaxis.get_major_locator().set_params(integer=True)
    differences.set(xlabel="optimizer step", ylabel=f"minus {runs[0].label}\n(nat)")

    positions = range(len(runs))
    bars = volume.barh(positions, [run.bytes_a_step / 1e6 for run in runs], color=colors, height=0.6,
                       label="counted")
    volume.plot([run.predicted_a_step / 1e6 for run in runs], positions, linestyle="none", marker="|",
                markersize=22, color="black", label="predicted")
    baselines = (("flat rings", runs[0].baseline_flat, "--"), ("two-level", runs[0].baseline_two_level, ":"))
    for name, value, style in baselines:
        volume.axvline(value / 1e6, color="#444444", linestyle=style, linewidth=1,
                       label=f"ZeRO-3, {name}: closed form")
    volume.bar_label(bars, [times(run.baseline_flat, run.bytes_a_step) for run in runs],
                     padding=6, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}, zorder=3)
    volume.set_yticks(positions, [run.label for run in runs])
    volume.invert_yaxis()
    volume.margins(x=0.12)
    volume.grid(axis="y", visible=False)
    volume.set(title="Sent between nodes a step, and how many times\nless than ZeRO-3 with flat rings",
               xlabel="MB (10$^6$ bytes)")
    volume.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)

    figure.suptitle(f"zeropp: ZeRO-3 and ZeRO++ on {layout(runs[0])}", fontweight="bold")
    figure.savefig(path, dpi=120)


def layout(run):
    emulated = ", emulated" if run.emulated else ""
    return f"{run.ranks} ranks ({run.nodes} nodes x {run.ranks // run.nodes}{emulated})"


def main(words):
    parser = command_line.parser("report", __doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--wide", action="store_true", help="print the table in one, however wide it is")
    parser.add_argument("--link", type=command_line.InputFolder, metavar="DIR",
                        help="DIR/*/train.h5: the same configurations over a slow link")
    parser.add_argument("--link-counters", type=command_line.InputFile, metavar="FILE",
                        help="what jobscripts/local/netns.py counted there")
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE.h5")
    arguments = parser.parse_args(words)
    if (arguments.link is None) != (arguments.link_counters is None):
        parser.error("--link and --link-counters need each other")
    runs = []
    for path in arguments.traces:
        with reading(path, "trace of a training run", "name the train.h5 of zpp_train"):
            runs.append(Run(path))
    with reading(arguments.link, "study over a link", "run the demo again"):
        link = Link(arguments.link, arguments.link_counters) if arguments.link else None
        if link is None:
            tell_apart(runs)
        rows = table(runs, link)
    if differ := differences(runs):
        print(f"zpp-validate report: warning: the runs are of other {differ}, so that their rows do not compare: train "
              "them alike", file=sys.stderr)
    arguments.output.mkdir(parents=True, exist_ok=True)
    legend = LEGEND + (LINK_LEGEND.format(rate=link.rate) if link else "")
    text = f"{layout(runs[0])}, {len(runs[0].counted)} steps\n\n{rows}\n{legend}"
    print(text if arguments.wide else markdown_table.fitted(text), end="")
    (arguments.output / "table.md").write_text(text)
    draw(runs, arguments.output / "demo.png")
    wrong = [run.label for run in runs if run.counted != run.predicted]
    if wrong:
        print(f"zpp-validate report: error: counted bytes differ from predicted bytes: {', '.join(wrong)}",
              file=sys.stderr)
    return 1 if wrong else 0
