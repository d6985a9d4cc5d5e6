"""One HTML page about any set of traces of the suite: tables, pictures, verdicts, provenance. It needs no other file
and no network.

usage: zpp-validate html TRACE... --output DIR [--title TEXT]

Writes DIR/report.html. Each TRACE (HDF5) is judged as check_trace.py judges it, summed up as summarize.py does, and
shown with its tables, its picture, and where it comes from; training runs are laid side by side, and what differs
between the configurations of runs of one program is listed. The same traces give the same page. What files say is shown
as text, whatever it is.

Exit codes: 0 all are VALID, 1 some are not (the page says which, and why), 2 usage, 3 a Python module is missing, 5
a trace cannot be opened, or the page cannot be written.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from zpp_validate import command_line, problem

# Who was asked, where another program runs this one: its name, and the command.
CALLED = os.environ.get("ZEROPP_PROGRAM", "zpp-validate html")

try:
    from zpp_validate.checkers import check_trace
    from zpp_validate.readers import measurement
    from zpp_validate.readers.sweep_file import counted
    from zpp_validate.readers.trace_file import Trace
    from zpp_validate.reports import html_figures, html_sections, summarize, trace_summary
    from zpp_validate.reports.html_page import element, folded, page, table, verdict
except ImportError as error:
    print(f"{problem.program('html')}: error: {sys.executable} lacks a module: {error}: install python3-numpy "
          "python3-h5py python3-matplotlib python3-scipy, or name another Python in ZEROPP_PYTHON", file=sys.stderr)
    sys.exit(3)

REASONS_SHOWN, LONGEST = 20, 160
PROVENANCE = (("version", "version"), ("git commit", "git_commit"), ("uncommitted changes", "git_dirty"),
              ("build", "build_type"),
              ("compiler", "cxx_compiler"), ("MPI", "mpi_library"), ("HDF5", "hdf5_version"),
              ("Kokkos", "kokkos_version"), ("BLAS", "blas_library"),
              ("CUDA", "cuda_versions"), ("back end", "backend"), ("transport", "transport"),
              ("nodes are emulated", "emulated"), ("seed", "seed"),
              ("run", "run_id"), ("started", "started_at"), ("command line", "command_line"),
              ("configuration hash", "config_hash"),
              ("parameters hash", "parameters_hash"), ("schema", "schema_version"),
              ("program's own verdict", "verdict"))
ABOUT = """Verdicts are those of an independent checker, which derives bytes, times and statistics again from each \
file. Bytes were counted where
they were sent; predicted are those of a closed form."""


class Entry:
    """One trace. `name`: unique in the page; `anchor`: where it is."""

    def __init__(self, index, path, name):
        self.path, self.name, self.anchor = path, name, f"trace-{index}"
        self.reasons = check_trace.judge(path)
        self.trace = Trace(path)

    @property
    def is_valid(self):
        return not self.reasons

    def shown(self, make):
        """What `make` gives; of an INVALID trace it may not be possible."""
        if self.is_valid:
            return make(self.trace)
        if self.trace.problems:
            return None
        try:
            return make(self.trace)
        except problem.MALFORMED:  # of what is INVALID, numbers need not fit each other
            return None

    def config(self):
        try:
            return dict(measurement.flat(json.loads(self.trace.attributes["config_json"])))
        except problem.MALFORMED:
            return {}


def names_of(paths):
    """The shortest ends of the paths that tell them apart, without their suffix."""
    for count in range(2, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.with_suffix("").parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def overview(entries):
    rows = []
    for entry in entries:
        identity = entry.shown(summarize.identity) or ["unreadable", "-", ""]
        lines = entry.shown(trace_summary.lines_of) or ["-"]
        rows.append([element("a", entry.name, href=f"#{entry.anchor}"), verdict(entry.is_valid), lines[0], identity[1],
                     identity[0]])
    return table(("trace", "verdict", "=in short", "=ran on", "=program"), rows)


def differences(entries):
    """Of the configurations of traces of one program, keys that are not the same in all."""
    parts = []
    for app in dict.fromkeys(entry.trace.app for entry in entries):
        own = [entry for entry in entries if entry.trace.app == app and entry.config()]
        if len(own) < 2:
            continue
        configs = [entry.config() for entry in own]
        names = [name for name in sorted(set().union(*configs))
                 if len({json.dumps(config.get(name)) for config in configs}) > 1]
        rows = [[name, *(short(config.get(name, "-")) for config in configs)] for name in names]
        parts.append(element("h3", f"zpp_{app}"))
        parts.append(table(("key", *(f"={entry.name}" for entry in own)), rows) if rows else element("p", "The same."))
    return [element("h2", "Differences of configuration"), *parts] if parts else []


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


def compared(entries):
    runs = [(entry.name, entry.trace) for entry in entries if entry.is_valid and entry.trace.app == "train"
            and entry.trace.columns["steps"]["loss"]]
    return [element("h2", "Training runs side by side"), html_figures.runs_compared(runs)] if len(runs) > 1 else []


def provenance(entry):
    a = entry.trace.attributes
    rows = [["file", str(entry.path)], ["SHA-256 of the file", digest(entry.path)]]
    rows += [[label, str(a[name])] for label, name in PROVENANCE if name in a and a[name] != ""]
    places = entry.trace.columns.get("ranks", {})
    for label, column in (("hosts", "host"), ("GPUs", "gpu")):
        found = sorted(set(places.get(column, ())) - {""})
        rows += [[label, ", ".join(found)]] if found else []
    parts = [element("h3", "Provenance"), table(("what", "=value"), rows)]
    try:
        parts.append(folded("Effective configuration",
                            element("pre", json.dumps(json.loads(a["config_json"]), indent=2))))
    except problem.MALFORMED:
        pass
    return parts


def digest(path):
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def section(entry):
    parts = [element("h2", entry.name, " ", verdict(entry.is_valid), id=entry.anchor)]
    if entry.reasons:
        left = len(entry.reasons) - REASONS_SHOWN
        parts.append(element("ul", [element("li", reason) for reason in entry.reasons[:REASONS_SHOWN]],
                             element("li", f"{left} more") if left > 0 else [], class_="reasons"))
    app = entry.trace.app
    lines = entry.shown(trace_summary.lines_of)
    parts.append(element("ul", [element("li", line) for line in lines or ()]))
    parts.append(entry.shown(html_figures.of_trace) or [])
    if app == "train":
        drawn = entry.shown(html_figures.one_step)
        parts += [element("h3", "One step"), drawn,
                  element("p", "Lengths are recorded, each the largest over ranks; beginnings are not: forward is "
                          "drawn from "
                          "the step's begin, backward behind it.", class_="note")] if drawn else []
    tables = entry.shown(html_sections.SECTIONS[app]) if app in html_sections.SECTIONS else None
    parts.append(tables if tables is not None else element("p", "Its numbers cannot be shown."))
    return [*parts, provenance(entry)]


def report(paths, title):
    """(HTML, [what is wrong with a trace: its name, and the first reason])."""
    entries = [Entry(index, path, name) for index, (path, name) in enumerate(zip(paths, names_of(paths)))]
    wrong = [f"{entry.path}: INVALID: {entry.reasons[0]}" for entry in entries if not entry.is_valid]
    count = f"{counted(len(entries), 'trace')}, " + (f"{len(wrong)} INVALID" if wrong else "all VALID")
    body = [element("h1", title), element("p", f"{count}. {' '.join(ABOUT.split())}"), overview(entries),
            compared(entries), differences(entries),
            *map(section, entries)]
    return page(title, *body), wrong


def main(words):
    parser = command_line.parser("html", __doc__, usage=f"{CALLED} TRACE... --output DIR [--title TEXT]")
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="HDF5 files that the programs wrote")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="where report.html goes")
    parser.add_argument("--title", default="zeropp report", help="of the page [zeropp report]")
    arguments = parser.parse_args(words)
    text, wrong = report(arguments.traces, arguments.title)
    path = arguments.output / "report.html"
    arguments.output.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {counted(len(arguments.traces), 'trace')}, {'not all VALID' if wrong else 'all VALID'}")
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong else 0
