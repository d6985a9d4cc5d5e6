"""Looks at traces of any program of the suite: what ran, is it whole, what was sent, what came out.

usage: zpp-validate summarize TRACE... [--plot DIR]

For each TRACE: program, machine, date and command; the judgement of check_trace.py (schema, names and units against
trace_format.py, completeness, bytes, and what else follows); its groups with their numbers of rows; volumes; and the
few numbers that the program was run for. With --plot, a picture each in DIR, PNG and SVG. A file that is no trace is
INVALID, and the others are looked at.

Exit codes: 0 all are VALID, 1 some are not, 2 usage, 5 a file cannot be opened: none is looked at then.
"""

from pathlib import Path

from zpp_validate import command_line
from zpp_validate.checkers import check_trace
from zpp_validate.readers import measurement
from zpp_validate.readers.trace_file import Trace
from zpp_validate.reports import trace_summary


def identity(trace):
    a = trace.attributes
    run = {**a, "ranks": trace.columns["ranks"]}
    return [f"zpp_{trace.app} {a['version']} ({a['git_commit'][:12]}), {a['started_at']}",
            f"{measurement.layout_of(run)}; {measurement.machine_text(measurement.machine_of(run))}; {a['backend']} "
            f"over {a['transport']}",
            a["command_line"]]


def stem_of(path):
    """Stem of a trace's picture: it has the folder's name, since all runs of a program have the same file name."""
    return f"{path.resolve().parent.name}-{path.stem}"


def look(path, folder):
    """(lines, whether it is VALID)."""
    reasons = check_trace.judge(path)
    lines = [str(path)]
    verdict = [f"INVALID: {reason}" for reason in reasons] or ["VALID"]
    trace = Trace(path)
    if trace.problems:  # too little of it to say more
        return lines + verdict, False
    lines += identity(trace)
    lines.append("rows: " + ", ".join(f"{group} {len(next(iter(columns.values())))}"
                                      for group, columns in trace.columns.items()))
    lines += trace_summary.lines_of(trace)
    if folder:
        from zpp_validate.plots import trace_plot  # matplotlib takes half a second to import

        trace_plot.draw(trace, folder / stem_of(path))
    return lines + verdict, not reasons


def main(words):
    parser = command_line.parser("summarize", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="HDF5 files that the programs wrote")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="a picture each there")
    arguments = parser.parse_args(words)
    if arguments.plot:
        if len(set(map(stem_of, arguments.traces))) < len(arguments.traces):
            parser.error("two TRACEs have the same folder and name, and so would their pictures: look at them one "
                         "after the other")
        arguments.plot.mkdir(parents=True, exist_ok=True)
    code = 0
    for path in arguments.traces:
        lines, valid = look(path, arguments.plot)
        print("\n".join(lines) + "\n")
        code = code if valid else 1
    return code
