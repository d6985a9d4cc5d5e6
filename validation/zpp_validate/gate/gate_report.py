"""The report of gate.py: a short text of what moved, and all of it as JSON."""

import dataclasses

from zpp_validate.gate import gate_judge

SCHEMA, SCHEMA_VERSION = "zeropp-gate", "1.1"
REMEDIES = {"convergence": "record more seeds", "norm": "record more seeds", "times": "measure more steps or runs"}


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
