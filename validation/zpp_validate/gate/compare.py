"""Compares two measurements: which rows became slower, which faster, and by how much at least?

usage: zpp-validate compare A B [--threshold SHARE] [--collective NAME,...] [--partial] [--across-machines] [--warmup
       STEPS]
                      [--json FILE]

A is the measurement before, B the one after. Each is a trace (HDF5) or the JSON of zpp_train, zpp_sweep or zpp_kernels,
the JSON of nccl-tests (-J), or a folder of zpp_train's traces, as a study leaves it: each trace in it is then a row, by
its folder.

Two surveys of zpp_fabric are compared link by link, by the names of hosts, with the larger of their own thresholds
unless --threshold is given: a link became slower beyond the threshold and five robust deviations of its class; a class
did where its median is beyond the threshold. Surveys with a threshold of 1 or more need --threshold.

A row of zpp_kernels is a kernel, variant, dtype and shape; a row of a sweep is a collective, codec, algorithm, group,
transport, size, type, operation, root and place; of a training run, the step time, without the first --warmup steps and
the skipped ones. The ratio of the medians, B / A, is compared: above 1 is slower.

  verdict   slower or faster: the samples of A and B differ (rank-sum test) in a way that --level (0.01) allows only so
            often in any row of all (Holm's correction), and the interval of the ratio lies on that side of 1. same: no
            such difference was shown. undecided: too few samples for a verdict at that level among so many rows.
  interval  of the ratio, from --resamples (4000) bootstrap resamples: each end alone holds with --confidence (0.95).
  beyond    a slower row whose whole interval lies above 1 + --threshold (0.03). The correction for many rows is in the
            verdict, not in this bound: it is rows that did not change that are many.

Notes: "A drifts" (or B): its samples resemble the one before, so they say less than so many independent ones: verdicts
of such rows come too easily. One row of 100 has the note by chance. "3.0% not excluded": the interval reaches beyond
the threshold.

The interval knows how times spread inside a run, not how runs differ: compare two runs of the same program first, and
choose a threshold above that. Bytes do not spread: a training run of the same configuration that sends other bytes a
step fails as well.

Exits with 1 when a row is slower beyond the threshold, sends other bytes, or is missing in B (--partial: may be
missing), with 2 when the files cannot be compared: unreadable, not VALID, with a time that is not finite and above 0,
other collectives (--collective), another machine or number of ranks (--across-machines), no row in common, or a wrong
command line; with 4, and the table printed, when nothing is known to be worse and a row is undecided. --json is written
after 2 as well, with the error instead of rows, so that its reader sees that there is no comparison.
"""

import argparse
import contextlib
import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.gate import fabric_compare
from zpp_validate.readers import fabric_file, measurement, run_file
from zpp_validate.problem import Problem
from zpp_validate.stats import bootstrap, rank_test
from zpp_validate.tables import markdown_table

SLOWER, FASTER, SAME, UNDECIDED = "slower", "faster", "same", "undecided"
NOT_EXCLUDED = "not excluded"
THRESHOLD = 0.03  # what times may be longer by unless the user says otherwise, of the gate too
TOO_FEW_SAMPLES = 4  # exit code: apart from 2, so that a script can measure again where that helps
COLUMNS = ("row", "A (us)", "B (us)", "B / A", "interval", "p", "samples", "verdict", "notes")
TEXT_COLUMNS = {"row", "verdict", "notes"}


@dataclass
class Comparison:
    """One row on both sides. `p` is adjusted for all rows; None and no interval where undecided."""

    name: str
    before: list
    after: list
    p: float | None = None
    interval: tuple | None = None
    verdict: str = UNDECIDED
    beyond: bool = False
    notes: list = field(default_factory=list)

    @property
    def ratio(self):
        return statistics.median(self.after) / statistics.median(self.before)


def judge(rows, level, confidence, threshold, resampling):
    """Fills in what two samples of each of `rows` say. `resampling`: a Bootstrap."""
    needed = rank_test.samples_needed(level / len(rows))
    decided = []
    for row in rows:
        if rank_test.smallest_p(len(row.before), len(row.after)) <= level / len(rows):
            decided.append(row)
        else:
            row.notes.append(f"{needed} samples needed")
        row.notes += [f"{side} drifts" for side, samples in (("A", row.before), ("B", row.after))
                      if rank_test.serial(samples)]
    for row, p in zip(decided, rank_test.holm([rank_test.p_value(row.before, row.after) for row in decided])):
        row.p, row.interval = p, resampling.ratio(row.before, row.after, confidence)
        low, high = row.interval
        differs = p <= level
        row.verdict = SLOWER if differs and low > 1 else FASTER if differs and high < 1 else SAME
        row.beyond = row.verdict == SLOWER and low > 1 + threshold
        if row.beyond:
            row.notes.append(f"beyond {threshold:.1%}")
        elif row.verdict != FASTER and high > 1 + threshold:
            row.notes.append(f"{threshold:.1%} {NOT_EXCLUDED}")


@dataclass
class Result:
    """`places`: where A and B ran; `wrong`: which bytes differ that must not; `program`: whose files are compared."""

    rows: list = field(default_factory=list)
    only_a: list = field(default_factory=list)
    only_b: list = field(default_factory=list)
    places: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    program: str = ""

    @property
    def failed(self):
        return [row for row in self.rows if row.beyond]


def pair_up(a, b, collectives, across_machines):
    """The rows that both sides have, not yet judged, and what only one has. Raises Problem."""
    result = Result(program=next(iter(a.values())).program)
    for name in sorted({*a, *b}):
        sides = a.get(name), b.get(name)
        for measured in filter(None, sides):
            measurement.select(measured, collectives)
        label = lambda key: f"{name}: {key}" if name else str(key)
        if None in sides:
            only, measured = (result.only_a, sides[0]) if sides[0] else (result.only_b, sides[1])
            only += map(label, measured.rows)
            continue
        before, after = sides
        measurement.require_comparable(before, after, across_machines)
        result.rows += [Comparison(label(key), row.samples, after.rows[key].samples)
                        for key, row in before.rows.items() if key in after.rows]
        result.only_a += [label(key) for key in before.rows if key not in after.rows]
        result.only_b += [label(key) for key in after.rows if key not in before.rows]
        other = measurement.differences(before, after)
        result.notes += [f"{label('configurations differ, A / B')}: {'; '.join(other)}"] if other else []
        result.wrong += [label(text) for text in measurement.other_bytes(before, after)]
        for side, measured in zip("AB", sides):
            result.places.append(f"{side}: {measurement.place(measured)}")
    result.places = sorted(set(result.places))
    return result


def cells(row):
    interval = f"{row.interval[0]:.4f} to {row.interval[1]:.4f}" if row.interval else "none"
    return [row.name, f"{statistics.median(row.before):,.2f}", f"{statistics.median(row.after):,.2f}",
            f"{row.ratio:.4f}",
            interval, "-" if row.p is None else f"{row.p:.2g}", f"{len(row.before)} / {len(row.after)}", row.verdict,
            "; ".join(row.notes)]


def text_of(result, arguments):
    count = {verdict: sum(row.verdict == verdict for row in result.rows)
             for verdict in (SLOWER, FASTER, SAME, UNDECIDED)}
    blind = sum(any(note.endswith(NOT_EXCLUDED) for note in row.notes) for row in result.rows)
    lines = [*result.places, "", markdown_table.aligned(COLUMNS, [cells(row) for row in result.rows], TEXT_COLUMNS), ""]
    for side, names in (("A", result.only_a), ("B", result.only_b)):
        lines += [f"only in {side}: {name}" for name in names]
    lines += result.notes + result.wrong
    lines.append(f"{len(result.rows)} rows: " + ", ".join(f"{number} {verdict}" for verdict, number in count.items())
                 + f"; {len(result.failed)} slower beyond {arguments.threshold:.1%}, of {blind} it is not excluded")
    lines.append(f"verdicts: rank-sum test, Holm over all rows, level {arguments.level:g}; interval: bootstrap, "
                 f"{arguments.resamples} resamples, seed {arguments.seed}, each end holds with "
                 f"{arguments.confidence:.0%}")
    return "\n".join(lines)


def document_of(result, arguments, code):
    """The report of --json; `code`: the exit code."""
    return {
        "schema": "zeropp-comparison", "schema_version": "1.2", "program": result.program, "code": code,
        "a": str(arguments.a), "b": str(arguments.b),
        "units": {"median": "microseconds", "interval": "of ratio, B / A"},
        "statistics": {"test": "rank-sum", "correction": "Holm", "level": arguments.level,
                       "confidence": arguments.confidence,
                       "threshold": arguments.threshold, "resamples": arguments.resamples, "seed": arguments.seed},
        "rows": [{"row": row.name, "median_a": statistics.median(row.before), "median_b": statistics.median(row.after),
                  "samples_a": len(row.before), "samples_b": len(row.after), "ratio": row.ratio,
                  "interval": row.interval,
                  "p": row.p, "verdict": row.verdict, "beyond": row.beyond, "notes": row.notes} for row in result.rows],
        "only_a": result.only_a, "only_b": result.only_b, "places": result.places, "notes": result.notes,
        "other_bytes": result.wrong}


def share_of_time(text):
    """A threshold of times, which users take for a factor or for percent."""
    try:
        return command_line.share(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text} is not between 0 and 1: it is a share of the time, as 0.03 for 3 %, or 0.5 for half as long "
            "again; where runs of one day differ by more, measure on an idle machine, or compare bytes alone by "
            "zpp-validate gate --only bytes") from None


def parse(words):
    parser = command_line.parser("compare", __doc__)
    parser.add_argument("a", type=Path, metavar="A", help="before: a trace, a JSON, or a folder of traces")
    parser.add_argument("b", type=Path, metavar="B", help="after")
    parser.add_argument("--threshold", type=share_of_time, metavar="SHARE",
                        help=f"what a row may be slower by [{THRESHOLD}; of surveys, theirs]")
    parser.add_argument("--level", type=command_line.share, default=0.01,
                        help="how often any row of all may get a wrong verdict [0.01]")
    parser.add_argument("--confidence", type=command_line.share, default=0.95,
                        help="of each end of an interval [0.95]")
    parser.add_argument("--resamples", type=command_line.natural, default=4000, metavar="N",
                        help="of the bootstrap, 1000 or more [4000]")
    parser.add_argument("--seed", type=command_line.natural, default=1, metavar="N", help="of the bootstrap [1]")
    parser.add_argument("--warmup", type=command_line.natural, default=1, metavar="STEPS",
                        help="of a training run, not compared [1]")
    parser.add_argument("--collective", type=lambda text: set(text.split(",")), default=set(), metavar="NAME,...",
                        help="compare these rows only")
    parser.add_argument("--partial", action="store_true", help="rows of A may be missing in B")
    parser.add_argument("--across-machines", action="store_true", help="compare though machine or ranks differ")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison there")
    arguments = parser.parse_args(words)
    if arguments.resamples < 1000 or arguments.confidence <= 0.5:
        parser.error("--resamples must be 1000 or more, --confidence above 0.5: the ends of the interval "
                     "would be noise")
    return arguments


def failures_of(result, partial):
    """Why the comparison fails, as texts."""
    slower = [f"{row.name} (at least {row.interval[0] - 1:.1%})" for row in result.failed]
    found = [f"slower: {'; '.join(slower)}: measure these rows again on an idle machine; where two runs of one day "
             f"differ as much, give a larger "
             "--threshold"] if slower else []
    if result.wrong:
        found.append(f"other bytes: {'; '.join(result.wrong)}: find what changed in the program or its options")
    if result.only_a and not partial:
        found.append(f"missing in B: {'; '.join(result.only_a)}: run them again, or give --partial")
    return found


def write_json(path, document):
    path.write_text(json.dumps(document, indent=1) + "\n")


def surveys(arguments):
    """The two surveys of zpp_fabric, or None where neither file is one. Raises Problem."""
    paths = (arguments.a, arguments.b)
    if any(path.is_dir() for path in paths):
        return None
    runs = [run_file.read(path) for path in paths]
    are = [fabric_file.is_fabric(run) for run in runs]
    if are[0] != are[1]:
        raise Problem(f"{paths[0]} and {paths[1]}: one is of zpp_fabric, one is not: name two of the same kind")
    return [fabric_file.read(path, run) for path, run in zip(paths, runs)] if all(are) else None


def main_of_surveys(a, b, arguments):
    """Exit code. Raises Problem."""
    fabric_compare.require_comparable(a, b, arguments.across_machines, arguments.partial)
    arguments.threshold = arguments.threshold or fabric_compare.threshold_of(a, b)
    compared = fabric_compare.compare(a, b, arguments.threshold)
    if not compared.rows:
        raise Problem(f"{a.path} and {b.path} have no link in common: measure again")
    print(fabric_compare.text_of(compared, arguments.threshold))
    failures = fabric_compare.failures_of(compared, arguments.partial)
    code = 1 if failures else 0
    if arguments.json:
        result = Result(only_a=compared.only_a, only_b=compared.only_b, notes=compared.notes, program="zpp_fabric")
        write_json(arguments.json, document_of(result, arguments, code)
                   | {"rows": fabric_compare.rows_of(compared.rows)})
    if failures:
        print(f"zpp-validate compare: error: {'; '.join(failures)}", file=sys.stderr)
    return code


def report_problem(problem, arguments):
    """Writes a report that says that there is no comparison, where it can be written: the problem itself is told."""
    nothing = Result(program=measurement.program_of_files(arguments.a, arguments.b))
    with contextlib.suppress(OSError):
        write_json(arguments.json, document_of(nothing, arguments, problem.code) | {"error": str(problem)})


def outcome_of(result, arguments):
    """(exit code, why it is not 0)."""
    failures = failures_of(result, arguments.partial)
    if failures:
        return 1, "; ".join(failures)
    undecided = sum(row.verdict == UNDECIDED for row in result.rows)
    if not undecided:
        return 0, ""
    needed = rank_test.samples_needed(arguments.level / len(result.rows))
    return TOO_FEW_SAMPLES, (f"{undecided} of {len(result.rows)} rows are undecided: {needed} samples on either side "
                             f"are needed "
                             f"among so many: measure more cycles (-N {needed} of zpp_sweep and nccl-tests) or steps")


def main(words):
    arguments = parse(words)
    try:
        for path in (arguments.a, arguments.b):
            command_line.open_input(command_line.Input(path))
        fabrics = surveys(arguments)
        if fabrics:
            return main_of_surveys(*fabrics, arguments)
        arguments.threshold = arguments.threshold or THRESHOLD
        sides = [measurement.read_side(path, arguments.warmup) for path in (arguments.a, arguments.b)]
        result = pair_up(*sides, arguments.collective, arguments.across_machines)
        if not result.rows:
            raise Problem(f"{arguments.a} and {arguments.b} have no row in common: measure the same rows in both")
    except Problem as problem:
        if arguments.json:
            report_problem(problem, arguments)
        raise
    judge(result.rows, arguments.level, arguments.confidence, arguments.threshold,
          bootstrap.Bootstrap(arguments.resamples, arguments.seed))
    print(text_of(result, arguments))
    code, reason = outcome_of(result, arguments)
    if arguments.json:
        write_json(arguments.json, document_of(result, arguments, code))
    if reason:
        print(f"zpp-validate compare: error: {reason}", file=sys.stderr)
    return code
