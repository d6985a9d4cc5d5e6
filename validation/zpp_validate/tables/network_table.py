"""Tables of a study over emulated networks.

usage: zpp-validate network-table SUMMARIES.json [--again SUMMARIES.json] [--output FILE]

SUMMARIES.json is what jobscripts/local/netns_study.py leaves; --again names that of a second pass over the same study,
or a part of it: the table then says how far medians moved, and whether the losses are the same bits. Prints Markdown;
--output writes it to FILE as well. Predicted times are those of network_model.py. Exits with 1 when a run is missing,
not VALID, counted other bytes than predicted, when an interface sent fewer bytes than were counted or over 3 % more, or
when losses differ; with 2 when a file is no such summary.
"""

import sys
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.forms import network_model
from zpp_validate.problem import reading
from zpp_validate.stats import sample_statistics
from zpp_validate.tables import markdown_table, network_summary

NOISY = 0.05  # coefficient of variation
AGREE = 0.03  # of the bytes of the interfaces and those counted
BUSY = 0.1  # of the cores, by others
FEW = 20
UNSHAPED = "unshaped"
BASELINE = ("flat", "off", "two-level")  # values of the axis `feature`; the first that the study has

COLUMNS = ("rate", "step (ms)", "95 % interval", "CV", "model (ms)", "measured / model", "speed-up", "by the model",
           "MB across", "interfaces", "payload", "sent again", "others", "notes")
TEXT_COLUMNS = {"rate", "run", "notes", "losses"}
LEGEND = """
All hosts are emulated, and share the cores of one machine. step: the median of the timed steps, the largest over \
ranks of
each, with its 95 % interval by order statistics; CV: the coefficient of variation. model: the step without shaping + \
the
bytes that each host sends / rate (validation/zpp_validate/forms/network_model.py). speed-up: over {baseline} at the \
same rate and hosts,
measured and by the model. MB across: sent between hosts a step, counted over all ranks (10^6 bytes). interfaces: what \
the
interfaces sent in the whole run, headers, launch and control messages included, beyond what was counted; payload: the
same without 66 bytes of headers a packet. sent again: TCP segments. others: the share of the cores that other programs
took; above {busy} a run is disturbed, and no model and no speed-up is derived from it.
"""


class Row:
    def __init__(self, entry, warmup):
        self.entry = entry
        self.hosts, self.rate, self.values = entry["hosts"], entry["rate"], entry["values"]
        self.samples = entry["step_seconds"][warmup:]
        self.times = sample_statistics.summarize(self.samples)
        self.counted = entry["bytes_across_a_step"]
        self.model = self.speedup = self.model_speedup = None
        self.disturbed = entry["others_cpu_share"] > BUSY
        self.problems = []
        if entry["verdict"] != "VALID":
            self.problems.append(entry["verdict"])
        if self.counted != entry["bytes_predicted_a_step"]:
            self.problems.append("counted other bytes than predicted")
        self.excess, self.payload = (entry[name] / entry["bytes_across"] - 1
                                     for name in ("sent_bytes", "payload_bytes"))
        if not entry["bytes_are_modelled"] and not 0 <= self.payload <= self.excess <= AGREE:
            self.problems.append(f"interfaces sent {self.excess:+.1%}")

    @property
    def who(self):
        """Its values on the axes other than the rate and the hosts."""
        return ", ".join(value if axis == "feature" else f"{axis} {value}" for axis, value in self.values.items()
                         if axis not in ("rate", "hosts"))

    @property
    def notes(self):
        entry, notes = self.entry, list(self.problems)
        if entry["bytes_are_modelled"]:
            notes.append("bytes are modelled")
        if self.times.variation > NOISY:
            notes.append(f"CV above {NOISY:.0%}")
        if self.times.count < FEW:
            notes.append(f"{self.times.count} samples")
        if self.disturbed:
            notes.append("disturbed")
        if entry["dropped_packets"]:
            notes.append(f"{entry['dropped_packets']} packets dropped")
        return "; ".join(notes).replace("|", "/")


def relate(rows, baseline):
    """Fills in the model and the speed-ups: against the same run unshaped, and against the baseline at the same rate.
    Nothing is derived from a run that was disturbed."""
    find = {(row.hosts, row.rate, tuple(sorted(row.values.items() - {("rate", row.rate)}))): row for row in rows
            if not row.disturbed}
    for row in rows:
        same = tuple(sorted(row.values.items() - {("rate", row.rate)}))
        base = tuple(sorted({**dict(same), "feature": baseline}.items()))
        unshaped = find.get((row.hosts, UNSHAPED, same))
        if unshaped:
            row.model = network_model.step_seconds(unshaped.times.median, row.counted, row.hosts,
                                                   row.entry["bits_per_second"])
        reference = find.get((row.hosts, row.rate, base))
        if reference:
            if not row.disturbed:
                row.speedup = reference.times.median / row.times.median
            free = find.get((row.hosts, UNSHAPED, base))
            if row.model and free:
                row.model_speedup = network_model.step_seconds(
                    free.times.median, reference.counted, row.hosts, row.entry["bits_per_second"]) / row.model


def cells(row):
    milliseconds = lambda seconds: f"{seconds * 1e3:,.1f}"
    times, shown = row.times, lambda value, form: "-" if value is None else format(value, form)
    return [row.rate, milliseconds(times.median), f"{milliseconds(times.low)} to {milliseconds(times.high)}",
            f"{times.variation:.1%}", "-" if row.model is None else milliseconds(row.model),
            "-" if row.model is None else f"{times.median / row.model:.2f}", shown(row.speedup, ".2f"),
            shown(row.model_speedup, ".2f"), f"{row.counted / 1e6:,.3f}", f"{row.excess:+.2%}", f"{row.payload:+.2%}",
            f"{row.entry['retransmitted_segments']}", f"{row.entry['others_cpu_share']:.0%}", row.notes]


def tables(study, rows, baseline):
    """A table for each number of hosts, and in it the rates of each feature."""
    text = f"# {study['study']} (hosts emulated)\n\n{study['description']}\n"
    for hosts in dict.fromkeys(row.hosts for row in rows):
        here = [row for row in rows if row.hosts == hosts]
        ranks = here[0].entry["ranks_per_host"]
        text += f"\n## {hosts} emulated hosts x {ranks} ranks\n\n"
        text += markdown_table.aligned(("run", *COLUMNS),
                                       [[who, *cells(row)] for who in dict.fromkeys(r.who for r in here)
                                        for row in here if row.who == who], TEXT_COLUMNS) + "\n"
    return text + LEGEND.replace("{baseline}", baseline).replace("{busy}", f"{BUSY:.0%}")


def compare(study, again):
    """How far the medians of a second pass moved; returns (text, problems)."""
    first = {entry["run"]: entry for entry in study["runs"]}
    rows, moves, problems = [], [], []
    for entry in again["runs"]:
        if entry["run"] not in first:
            continue
        before, after = Row(first[entry["run"]], study["warmup"]), Row(entry, again["warmup"])
        move = after.times.median / before.times.median - 1
        overlap = after.times.low <= before.times.high and before.times.low <= after.times.high
        same = all(before.entry[name] == entry[name] for name in ("losses", "parameters_hash"))
        if not same:
            problems.append(f"{entry['run']}: the losses of the second pass differ")
        moves.append(abs(move))
        rows.append([entry["run"], f"{before.times.median * 1e3:,.1f}", f"{after.times.median * 1e3:,.1f}",
                     f"{move:+.1%}",
                     "yes" if overlap else "no", "same bits" if same else "differ",
                     "; ".join(filter(None, (before.notes, after.notes)))])
    if not rows:
        return "", ["no run of the second pass is in the first"]
    spread = sample_statistics.summarize(moves)
    table = markdown_table.aligned(("run", "first (ms)", "second (ms)", "moved", "intervals meet", "losses", "notes"),
                                   rows,
                                   TEXT_COLUMNS)
    return (f"\n## A second pass\n\nMedians moved by {spread.median:.1%} in the median over {spread.count} runs, by "
            f"{max(moves):.1%} at most.\n\n{table}\n", problems)


def main(words):
    parser = command_line.parser("network-table", __doc__)
    parser.add_argument("summaries", type=command_line.InputFile, metavar="SUMMARIES.json")
    parser.add_argument("--again", type=command_line.InputFile, metavar="SUMMARIES.json",
                        help="of a second pass")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there as well")
    arguments = parser.parse_args(words)
    study = network_summary.read(arguments.summaries)
    again = network_summary.read(arguments.again) if arguments.again else None
    with reading(arguments.summaries, "whole summary of a study", "make it again"):
        rows = [Row(entry, study["warmup"]) for entry in study["runs"]]
    baseline = next((name for name in BASELINE if name in study["axes"].get("feature", ())), BASELINE[0])
    relate(rows, baseline)
    ran = {row.entry["run"] for row in rows}
    problems = [f"{name} is missing" for name in study["runs_of_the_study"] if name not in ran]
    problems += [f"{row.entry['run']}: {problem}" for row in rows for problem in row.problems]
    text = tables(study, rows, baseline) if rows else ""
    if again:
        compared, differ = compare(study, again)
        text, problems = text + compared, problems + differ
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    for problem in problems:
        print(f"zpp-validate network-table: error: {problem}", file=sys.stderr)
    return int(bool(problems))
