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
import re
from pathlib import Path

import prometheus_client

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


def add_metrics(path, gauges):
    """Raises Problem."""
    with reading(path, "JSON of a program that has metrics", "give that of zpp_sweep, zpp_fabric, gate or compare"):
        document, when = json.loads(path.read_text()), path.stat().st_mtime
        if document["schema"] not in prometheus_metrics.MADE_BY:
            raise Unfit(f"its schema is {json.dumps(document['schema'])}")
        made = prometheus_metrics.MADE_BY[document["schema"]]
    if made is prometheus_metrics.comparison and "program" not in document:
        raise Problem(f"{path} is of an older zpp-validate compare, schema {document.get('schema_version')}, and "
                      "does not say what was compared: compare the two files again with --json")
    with reading(path, "whole JSON of its program", "measure again"):
        made(document, when, gauges.add)


def main(words):
    arguments = parse(words)
    gauges = prometheus_metrics.Gauges(dict(arguments.label))
    for path in arguments.files:
        add_metrics(path, gauges)
    registry = prometheus_client.CollectorRegistry()
    registry.register(gauges)
    if arguments.output:
        prometheus_client.write_to_textfile(str(arguments.output), registry)
    else:
        print(prometheus_client.generate_latest(registry).decode(), end="")
    return 0
