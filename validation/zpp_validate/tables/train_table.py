"""One table from a study of training times: zpp_train beside its peers.

usage: zpp-validate train-table STUDY [--output FILE] [--peak-tflops T]

STUDY is a folder as jobscripts/local/measured.sh writes it: runs.tsv, and in runs/ a summary (STEM.json, of zpp_train
--json or zpp-validate peer-fsdp2 --json, alone or with the plug-in zeropp.torch) and the output (STEM.log) of each
command. Prints a Markdown table for each shape and layout of each session; --output writes it to FILE as well.
Statistics and MFU are computed here from the raw step times, in the same way for either side. A run that failed is a
row with its reason. Exits with 1 when a run failed, is INVALID or sent other bytes than predicted; with 2 when STUDY
is no study.
"""

import csv
import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.forms import model_flops, model_options
from zpp_validate.forms.transformer import Shape
from zpp_validate.problem import Problem, Unfit, reading
from zpp_validate.stats import bound, sample_statistics
from zpp_validate.tables import markdown_table

NOISY = 0.02  # coefficient of variation, or difference between runs of the same peer
UNSTEADY = 0.05  # coefficient of variation of a run that no ratio is taken over while there is another
LONG_STEP, FEW, FEW_LONG = 5.0, 20, 5  # seconds; the fewest samples, and where a step takes longer
TIME_LIMIT = {124, 137}  # exit codes of timeout(1)

COLUMNS = ("run", "step (ms)", "95 % interval", "p95", "CV", "tokens/s/GPU", "MFU", "HFU", "exposed (ms)",
           "bound by", "GB across nodes", "predicted", "GB on lo", "GiB per GPU", "vs FSDP2", "vs hybrid", "notes")
TEXT_COLUMNS = {"run", "bound by", "notes"}

LEGEND = """step: the median of the timed steps, the largest over ranks of each; 95 % interval: of that median, by \
order statistics.
exposed: time in which compute waited for communication. GB across nodes: sent between nodes per step, counted over all
ranks (10^9 bytes); predicted: the closed form. GB on lo: sent by the loopback interface per step, where emulated nodes
meet, or by the interfaces of emulated hosts; of zpp_train and of such hosts over the whole run, its start included.
GiB per GPU: peak (zpp_train: of its buffers on rank 0).
vs FSDP2, vs hybrid: speed-up over the fastest run of FSDP2 (on one GPU of PyTorch) that is not hybrid, and over the
fastest with hybrid sharding, of all variants in the same table. A run with a CV above {unsteady:.0%} is unsteady: it
counts only where all of them are.
MFU: 6 W + 12 L T Q FLOP a token, of {peak} TFLOP/s, with the W weights of blocks and head that a token is multiplied
with, and Q rows of queries. HFU: the forward more of each block that runs again in backward, but for its last product:
of no block, or with recompute of L of a peer and L - 1 of zpp_train.
""" + bound.LEGEND


@dataclass
class Row:
    """A command of the study. `kind`: zeropp, peer, or plugin (a peer with zeropp.torch). `seconds`: timed steps; empty
    where it failed. `problems` make the study fail, `notes` do not."""

    name: str
    kind: str
    seconds: list = field(default_factory=list)
    tokens: int = 0  # a GPU and step
    shape: Shape | None = None
    recomputed: int = 0  # blocks
    exposed: float | None = None
    bound: str = bound.UNKNOWN
    counted: float | None = None
    predicted: float | None = None
    loopback: float | None = None
    memory: float | None = None
    place: str = ""
    problems: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    @property
    def is_peer(self):
        return self.kind == "peer"

    @property
    def times(self):
        return sample_statistics.summarize(self.seconds) if self.seconds else None


def last_line(path):
    """The message of a failed command: its error line, else its last line."""
    try:
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "no output"
    return next((line for line in lines if ": error: " in line), lines[-1] if lines else "no output")


def read_zpp(row, summary, entry):
    """A summary of zpp_train --json (lib/trace/README.md)."""
    steps, model, memory = summary["steps"], summary["config"]["zeropp"]["model"], summary["memory"]
    warmup = int(entry["warmup"])
    timed = {name: values[warmup:] for name, values in steps.items()}
    row.seconds = timed["time"]
    ranks, nodes = summary["world_size"], summary["node_count"]
    row.tokens = summary["config"]["train_batch_size"] * model["seq_length"] // ranks
    row.shape = Shape.of(model, summary.get("data", {}).get("vocab_size", 0))
    row.recomputed = (model_flops.blocks_recomputed(row.shape.layers, model.get("recompute_interval", 1))
                      if model.get("recompute_activations") else 0)
    if "time_communication_exposed" in timed:
        row.exposed = statistics.median(timed["time_communication_exposed"])
    row.bound = bound.bound_by(timed)
    row.counted = statistics.median_low(timed["bytes_inter_node"])
    row.predicted = statistics.median_low(timed["bytes_predicted_inter_node"])
    if entry["loopback_after"]:
        row.loopback = (int(entry["loopback_after"]) - int(entry["loopback_before"])) / len(steps["time"])
    held = dict(zip(memory["name"], memory["bytes_actual"]))
    row.memory = held.get("buffers_peak")
    row.place = f"{nodes} x {ranks // nodes}{', emulated' if summary['emulated'] else ''}"
    if summary["verdict"] != "VALID":
        row.problems.append(summary["verdict"])
    for link in ("intra", "inter"):
        if steps[f"bytes_{link}_node"] != steps[f"bytes_predicted_{link}_node"]:
            row.problems.append(f"{link}-node bytes differ from the prediction")
    if any(timed["skipped"]):
        row.notes.append(f"{sum(timed['skipped'])} steps skipped")
    sent = summary["collectives"]
    if any(modelled and across for modelled, across in zip(sent["modelled"], sent["wire_bytes_inter"])):
        row.notes.append("bytes of the vendor's ring are modelled")
    elif summary["transport"] == "nccl" and summary["emulated"] and (row.loopback or row.counted) < 0.98 * row.counted:
        row.notes.append("lo sent less than was counted")


def read_peer(row, summary, _):
    """A summary of zpp-validate peer-fsdp2 --json."""
    options, ranks = summary["options"], summary["world_size"]
    row.seconds = summary["step_seconds"]
    row.tokens = options["micro_batch_size"] * options["seq_length"]
    row.shape = model_options.shape(options)
    row.recomputed = row.shape.layers if options.get("recompute") else 0
    row.loopback, row.memory = summary["loopback_bytes_per_step"], summary["peak_memory_bytes"]
    size = summary["node_size"] or ranks
    row.place = f"{ranks // size} x {size}{', emulated' if summary['emulated'] else ''}"


def read_interfaces(row, counters, entry):
    """Adds the counters of emulated hosts that netns.py --counters wrote beside the summary."""
    steps = int(entry["warmup"]) + len(row.seconds)
    row.loopback = counters["total"]["sent_bytes"] / steps
    row.place = f"{counters['hosts']} x {counters['ranks_per_host']}, emulated hosts, {counters['rate']}"


def read_row(study, entry):
    row = Row(entry["name"], entry["kind"])
    code = int(entry["exit"])
    if code in TIME_LIMIT:
        row.problems.append(f"failed: ended by the time limit after {entry['seconds']} s")
        return row
    path = study / "runs" / f"{entry['stem']}.json"
    try:
        with reading(path, "summary of a run", "run it again"):
            (read_zpp if row.kind == "zeropp" else read_peer)(row, json.loads(path.read_text()), entry)
            interfaces = path.with_name(path.name + ".counters")
            if interfaces.exists():
                read_interfaces(row, json.loads(interfaces.read_text()), entry)
            row.times  # raises where no step is left
    except Problem as problem:
        row = Row(entry["name"], row.kind)
        if code == 0:
            row.problems.append(f"failed: {problem}")
    if code != 0 and not any(problem.startswith("INVALID") for problem in row.problems):
        row.problems.append(f"failed: exit code {code}: {last_line(study / 'runs' / (entry['stem'] + '.log'))}")
        row.seconds = []
    if not row.seconds and not row.problems:
        row.problems.append("failed: no timed step")
    return row


def ran(rows, hybrid):
    """The peers that ran, flat or hybrid."""
    return [row for row in rows if row.is_peer and row.seconds and row.name.startswith("hybrid") == hybrid]


def baseline(rows):
    """The fastest steady run of several; where none is steady the fastest; None of none."""
    steady = [row for row in rows if row.times.variation <= UNSTEADY]
    return min(steady or rows, key=lambda row: row.times.median, default=None)


def add_notes(row, flat):
    times = row.times
    if times is None:
        return
    if times.variation > UNSTEADY:
        row.notes.append("unsteady: run again")
    elif times.variation > NOISY:
        row.notes.append(f"CV above {NOISY:.0%}")
    if times.count < (FEW_LONG if times.median > LONG_STEP else FEW):
        row.notes.append(f"{times.count} samples only")
    if not row.is_peer:
        if flat is None:
            row.notes.append("no FSDP2 to compare with")
        elif times.median > flat.times.median:
            row.notes.append("slower than FSDP2")


def ratio(other, times):
    return f"{other.times.median / times.median:.2f}x" if other else "-"


def scaled(value, unit, digits):
    return "-" if value is None else f"{value / unit:,.{digits}f}"


def cells(row, flat, hybrid, peak):
    notes = "; ".join(row.problems + row.notes).replace("|", "/")
    times = row.times
    if times is None:
        return [row.name, *["-"] * (len(COLUMNS) - 2), notes]
    rate = row.tokens / times.median
    mfu = model_flops.utilization(rate, model_flops.flops_per_token(row.shape), peak)
    hfu = model_flops.utilization(rate, model_flops.hardware_flops_per_token(row.shape, row.recomputed), peak)
    ms = lambda seconds: f"{seconds * 1e3:,.1f}"
    return [row.name, ms(times.median), f"{ms(times.low)} to {ms(times.high)}", ms(times.p95), f"{times.variation:.1%}",
            f"{rate:,.0f}", f"{mfu:.1%}", f"{hfu:.1%}", scaled(row.exposed, 1e-3, 1), row.bound,
            scaled(row.counted, 1e9, 3), scaled(row.predicted, 1e9, 3), scaled(row.loopback, 1e9, 3),
            scaled(row.memory, 2**30, 1), ratio(flat, times), ratio(hybrid, times), notes]


def drift(rows):
    """A sentence for every peer that was not as fast after the runs as before them."""
    for name in dict.fromkeys(row.name for row in rows if row.is_peer and row.seconds):
        same = [row.times.median for row in rows if row.is_peer and row.seconds and row.name == name]
        change = max(same) / min(same) - 1
        if change > NOISY:
            yield f"{name} drifted by {change:.1%} between its runs: read ratios no finer than that."


def passed_over(rows, chosen):
    """A sentence for every unsteady run that was faster than the one that ratios are taken over."""
    for row in rows:
        if row.times.median < chosen.times.median:
            yield (f"{row.name} took {row.times.median * 1e3:,.1f} ms in an unsteady run, {chosen.name} "
                   f"{chosen.times.median * 1e3:,.1f} in the steady one that ratios are taken over: run again.")


def section(title, rows, peak):
    flat, hybrid = baseline(ran(rows, False)), baseline(ran(rows, True))
    for row in rows:
        add_notes(row, flat)
    places = dict.fromkeys(row.place for row in rows if row.place)
    lines = [f"## {title}" + (f": {' / '.join(places)}" if places else ""), "",
             markdown_table.aligned(COLUMNS, [cells(row, flat, hybrid, peak) for row in rows], TEXT_COLUMNS), ""]
    warnings = [*drift(rows), *passed_over(ran(rows, False), flat), *passed_over(ran(rows, True), hybrid)]
    return "\n".join(lines + warnings + ([""] if warnings else []))


def main(words):
    parser = command_line.parser("train-table", __doc__)
    parser.add_argument("study", type=command_line.InputFolder, metavar="STUDY", help="folder with runs.tsv")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there as well")
    parser.add_argument("--peak-tflops", type=command_line.positive_number, default=model_flops.PEAK_TFLOPS,
                        help=f"of one GPU in bf16 [{model_flops.PEAK_TFLOPS}: dense, H200]")
    arguments = parser.parse_args(words)
    groups = {}
    with reading(arguments.study, "study", "name a folder as jobscripts/local/measured.sh writes it"):
        with open(arguments.study / "runs.tsv", newline="") as stream:
            for entry in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
                key = entry["session"], entry["shape"], entry["layout"]
                groups.setdefault(key, []).append(read_row(arguments.study, entry))
        if not groups:
            raise Unfit("runs.tsv lists no run")
    parts = [section(f"{shape}, {layout}, session {session}", rows, arguments.peak_tflops)
             for (session, shape, layout), rows in groups.items()]
    text = "\n".join([*parts, LEGEND.format(peak=arguments.peak_tflops, unsteady=UNSTEADY)])
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text)
    failed = [f"{row.name} ({problem})" for rows in groups.values() for row in rows for problem in row.problems]
    if failed:
        print(f"zpp-validate train-table: error: {len(failed)} problems: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
