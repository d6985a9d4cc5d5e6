"""A gate: did this version, or this machine, make anything worse than its baseline?

usage: zpp-validate gate TRACE... --record NAME [--replace]
       zpp-validate gate TRACE... --baseline NAME [--json FILE] [--only LIST] [--partial] [--across-machines]

TRACE is a trace of zpp_train, zpp_converge, zpp_sweep or zpp_kernels, or a folder of such, as a study leaves it. Runs
that differ in their seed alone are one row. NAME is a file, or the name of one in validation/baselines/MACHINE/;
--record makes it, with machine, versions, date and commands. A run that zpp-validate check does not accept is neither
recorded nor compared: it fails.

  bytes        of all steps, and of sweeps; steps, secondary gathers: equal to the last digit, of runs that skipped as
               many steps; skipped steps: as of that seed; of another seed, where the baseline's vary, what lies outside
               is undecided
  hash         of the parameters, where a deterministic run has a seed of the baseline: equal
  convergence  equivalence of the final held-out loss to the baseline's seeds (two one-sided tests at 5 %) within
               --margin
  norm         the same of the gradient norm, as a ratio, within --norm-margin: a factor shows here though AdamW hides
               it from the loss
  times        ratio of the medians with its interval, as zpp-validate compare: slower by more than --threshold (0.03,
               as there)

Where the baseline's seeds spread too much to show equivalence within the margin of runs that are equivalent, the margin
is the one that such runs pass in all but 1 of 1000 gates; where times spread too much to exclude a slowdown of
--threshold, the least one that shows is larger: the report says `blunt` and names either. More seeds and steps make the
gate sharper.

Exit codes: 0 nothing moved; 1 something did, a run is INVALID, or a row, seed or time of the baseline is missing
(--partial: may be missing, as where runs have other seeds); 2 cannot be compared: another machine
(--across-machines compares all but hashes), another configuration; 4 nothing moved, but a verdict is blunt, or
undecided because there are too few runs or times; 5 a trace or the baseline is not there.
"""

import argparse
import dataclasses
import json
import shlex
import sys
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.gate import baseline, compare, gate_judge
from zpp_validate.problem import IO, Problem

SCHEMA, SCHEMA_VERSION = "zeropp-gate", "1.1"
REMEDIES = {"convergence": "record more seeds", "norm": "record more seeds", "times": "measure more steps or runs"}


def kinds(text):
    chosen = text.split(",")
    unknown = set(chosen) - set(gate_judge.KINDS)
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(gate_judge.KINDS)}")
    return chosen


def parse(words):
    parser = command_line.parser("gate", __doc__)
    parser.add_argument("traces", type=command_line.Input, nargs="+", metavar="TRACE",
                        help="traces, or folders of them")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--record", metavar="NAME", help="keep these runs as a baseline")
    what.add_argument("--baseline", metavar="NAME", help="compare with it")
    parser.add_argument("--replace", action="store_true", help="of --record: a baseline that is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--only", type=kinds, default=list(gate_judge.KINDS), metavar="LIST",
                        help=f"of {','.join(gate_judge.KINDS)} [all]")
    parser.add_argument("--partial", action="store_true", help="rows, seeds and times of the baseline may be missing")
    parser.add_argument("--across-machines", action="store_true", help="compare though machine or ranks differ")
    parser.add_argument("--margin", type=command_line.share, default=0.02, metavar="NATS",
                        help="of the held-out loss [0.02]")
    parser.add_argument("--norm-margin", type=command_line.share, default=0.02, metavar="SHARE",
                        help="of the gradient norm [0.02]")
    parser.add_argument("--threshold", type=compare.share_of_time, default=compare.THRESHOLD, metavar="SHARE",
                        help=f"what times may be longer by, as of zpp-validate compare [{compare.THRESHOLD}]")
    parser.add_argument("--warmup", type=command_line.natural, default=1, metavar="STEPS",
                        help="of a training run, not timed [1]")
    return parser.parse_args(words)


def path_of(name, machine):
    path = Path(name)
    return path if path.suffix == ".json" or len(path.parts) > 1 else baseline.default_path(name, machine)


def record(arguments, words):
    invalid = baseline.invalid(arguments.traces)
    if invalid:
        path, reason = next(iter(invalid.items()))
        print(f"zpp-validate gate: error: {path} is INVALID: {reason}: a baseline is of valid runs", file=sys.stderr)
        return 1
    runs = baseline.read(arguments.traces, arguments.warmup)
    path = path_of(arguments.record, runs.machine)
    if path.exists() and not arguments.replace:
        raise Problem(f"{path} is there: give --replace, or another name")
    baseline.write(path, runs, shlex.join(["validation/zpp-validate", "gate", *words]))
    seeds = sorted({len(row.losses) for row in runs.rows.values() if row.losses})
    print(f"{path}: {len(runs.rows)} rows" + (f", {' to '.join(map(str, seeds))} seeds" if seeds else ""))
    return 0


def require_comparable(old, new, path, across):
    if across or (old.layout, old.machine) == (new.layout, new.machine):
        return
    where = [f"{side.layout} of {baseline.folder_name(side.machine)}" for side in (old, new)]
    raise Problem(f"{path} is of another machine: {where[0]} / {where[1]}: record one here, or give "
                      f"--across-machines")


def line_of(each):
    change = f", {each.change}" if each.change else ""
    return (f"{each.verdict}: {each.row}: {each.quantity} was {each.before}, is {each.now}{change}; allowed: "
            f"{each.allowed}")


def text_of(result):
    lines = [f"INVALID: {path}: {reason}" for path, reason in result.invalid.items()]
    lines += [line_of(each) for each in result.findings if each.verdict != gate_judge.SAME]
    lines += [f"blunt: {each.row}: {each.quantity}: only a change beyond {each.blunt} shows: {REMEDIES[each.kind]}"
              for each in result.findings if each.blunt]
    lines += [f"{'not run' if result.partial else 'missing'}: {name}" for name in result.missing]
    lines += [f"not in the baseline: {name}" for name in result.unknown]
    lines += [f"versions differ: {note}" for note in result.notes]
    rows = len({each.row for each in result.findings})
    lines.append(f"{len(result.findings)} quantities of {rows} rows compared with {result.baseline or 'nothing'}: "
                 f"{len(result.moved)} moved")
    return "\n".join(lines)


def document_of(result, arguments):
    return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "baseline": str(result.baseline), "code": result.code,
            "settings": {name: getattr(arguments, name) for name in ("only", "margin", "norm_margin", "threshold",
                                                                     "warmup", "partial",
                                                                     "across_machines")},
            "invalid": result.invalid, "missing": result.missing, "unknown": result.unknown, "versions": result.notes,
            "findings": [dataclasses.asdict(each) for each in result.findings]}


def check(arguments):
    invalid = baseline.invalid(arguments.traces)
    valid = [path for path in baseline.traces(arguments.traces) if path not in invalid]
    result = gate_judge.Result(invalid={str(path): reason for path, reason in invalid.items()})
    if valid:
        new = baseline.read(valid, arguments.warmup)
        path = path_of(arguments.baseline, new.machine)
        if not path.exists():
            raise Problem(f"no baseline {path}: record one with --record {arguments.baseline}", IO)
        old = baseline.load(path)
        require_comparable(old, new, path, arguments.across_machines)
        result = gate_judge.judge(old, new, arguments, result)
        result.baseline = path
    print(text_of(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(document_of(result, arguments), indent=1) + "\n")
    return result.code


def main(words):
    arguments = parse(words)
    return record(arguments, words) if arguments.record else check(arguments)
