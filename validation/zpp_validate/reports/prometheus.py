"""Writes what programs measured as metrics for Prometheus, in the text format that node_exporter's textfile collector
reads.

usage: zpp-validate prometheus FILE... [--output FILE.prom] [--label NAME=VALUE]...

FILE is a JSON of zpp_sweep (-J), of zpp_fabric (-J), of zpp-validate gate (--json) or of zpp-validate compare (--json).
Without --output the metrics are printed. The output is written beside its name and then renamed, so that a collector
never reads half a file. Metrics have base units (seconds, bytes, bytes per second). zeropp_success is 1 where the
program ended with exit code 0, else 0: INVALID, worse, or undecided. zeropp_last_run_timestamp_seconds tells how old a
result is: alert on both.

Exits with 2, and leaves the output as it was, where a file cannot be read or two files have the same rows.
"""

import argparse
import json
import os
import re
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Problem, Unfit, reading
from zpp_validate.reports import prometheus_metrics

LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def label(text):
    name, equal, value = text.partition("=")
    if not equal or not LABEL.fullmatch(name) or name.startswith("__"):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE with a name of letters, digits and _")
    return name, value


def parse(words):
    parser = command_line.parser("prometheus", __doc__)
    parser.add_argument("files", type=command_line.InputFile, nargs="+", metavar="FILE",
                        help="JSON of zpp_sweep, zpp_fabric, gate or compare")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE.prom", help="write there [standard output]")
    parser.add_argument("--label", type=label, action="append", default=[], metavar="NAME=VALUE",
                        help="add to every metric")
    arguments = parser.parse_args(words)
    if arguments.output and arguments.output.suffix != ".prom":
        parser.error(f"--output {arguments.output}: node_exporter reads files whose name ends in .prom only")
    return arguments


def metrics_of(path):
    """Raises Problem."""
    with reading(path, "JSON of a program that has metrics", "give that of zpp_sweep, zpp_fabric, gate or compare"):
        document, when = json.loads(path.read_text()), path.stat().st_mtime
        if document["schema"] not in prometheus_metrics.MADE_BY:
            raise Unfit(f"its schema is {json.dumps(document['schema'])}")
        made = prometheus_metrics.MADE_BY[document["schema"]]
    if made is prometheus_metrics.comparison and "program" not in document:
        raise Problem(f"{path} is of an older zpp-validate compare, schema {document.get('schema_version')}, and "
                          f"does not say what was compared: "
                          "compare the two files again with --json")
    with reading(path, "whole JSON of its program", "measure again"):
        return made(document, when)


def escaped(value):
    return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def text_of(metrics, extra):
    """The metrics of several files, those of one name together, as the format asks. Raises Problem."""
    together = {}
    for metric in metrics:
        together.setdefault(metric.name, (metric.help, []))[1].extend(metric.samples)
    lines = []
    for name, (explained, samples) in together.items():
        if not samples:
            continue
        lines += [f"# HELP {name} {explained}", f"# TYPE {name} gauge"]
        seen = set()
        for labels, value in samples:
            words = ",".join(f'{key}="{escaped(text)}"' for key, text in (labels | extra).items())
            if words in seen:
                raise Problem(f"{name}{{{words}}} is there twice: give one file of each measurement")
            seen.add(words)
            lines.append(f"{name}{{{words}}} {float(value)!r}")
    return "\n".join(lines) + "\n"


def write(path, text):
    """Renames a whole file to `path`. Its temporary name does not end in .prom, so that no collector reads it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        partial.write_text(text)
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def main(words):
    arguments = parse(words)
    text = text_of([metric for path in arguments.files for metric in metrics_of(path)], dict(arguments.label))
    if arguments.output:
        write(arguments.output, text)
    else:
        print(text, end="")
    return 0
