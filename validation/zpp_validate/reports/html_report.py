"""One HTML page about any set of traces of the suite: tables, pictures, verdicts, provenance. It needs no other file
and no network.

usage: zpp-validate html TRACE... --output DIR [--title TEXT]

Writes DIR/report.html. Each TRACE (HDF5) is judged as `check` judges it, summed up as `summarize` does, and shown with
its tables, its picture, and where it comes from; training runs are laid side by side, and the differences between the
configurations of runs of one program are listed. The same traces give the same page. The content of files is shown as
text, whatever it is.

Exit codes: 0 all are VALID, 1 some are not (the page says which, and why), 2 usage, 3 a Python module is missing, 5
a trace cannot be opened, or the page cannot be written.
"""

import hashlib
import json
import math
import os
import unicodedata
from pathlib import Path

import jinja2
import markupsafe

from zpp_validate import command_line, problem
from zpp_validate.checkers import check_trace
from zpp_validate.readers import measurement
from zpp_validate.readers.sweep_file import counted
from zpp_validate.readers.trace_file import Trace
from zpp_validate.reports import html_figures, html_tables, summarize, trace_summary
from zpp_validate.reports.html_tables import Table

# Name and command of the program that the user called, where another program runs this one.
CALLED = os.environ.get("ZEROPP_PROGRAM", "zpp-validate html")
LONGEST = 160  # characters of a value where configurations differ
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


class Entry:
    """One trace, as the page shows it. `name`: unique in the page; `tables` and `picture`: None where numbers of an
    INVALID trace do not fit each other."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.reasons = check_trace.judge(path)
        self.trace = Trace(path)
        self.identity = self.shown(summarize.identity) or ["unreadable", "-", ""]
        self.lines = self.shown(trace_summary.lines_of) or []
        self.tables = self.shown(html_tables.tables_of)
        self.picture = self.shown(html_figures.of_trace)
        try:
            self.config = json.dumps(json.loads(self.trace.attributes["config_json"]), indent=2)
        except problem.MALFORMED:
            self.config = ""

    def shown(self, make):
        """Result of `make`; None where an INVALID trace makes it impossible."""
        if not self.reasons:
            return make(self.trace)
        try:
            return None if self.trace.problems else make(self.trace)
        except problem.MALFORMED:
            return None

    def provenance(self):
        a = self.trace.attributes
        rows = [["file", str(self.path)], ["SHA-256 of the file", digest(self.path)]]
        rows += [[label, str(a[name])] for label, name in PROVENANCE if name in a and a[name] != ""]
        places = self.trace.columns.get("ranks", {})
        for label, column in (("hosts", "host"), ("GPUs", "gpu")):
            found = sorted(set(places.get(column, ())) - {""})
            rows += [[label, ", ".join(found)]] if found else []
        return Table("Provenance", ["what", "value"], rows)


def digest(path):
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def names_of(paths):
    """The shortest ends of the paths that tell them apart, without their suffix."""
    for count in range(2, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.with_suffix("").parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def differences(entries):
    """For each program, a table of the keys whose values differ between the configurations of its traces."""
    for app in dict.fromkeys(entry.trace.app for entry in entries):
        own = [entry for entry in entries if entry.trace.app == app and entry.config]
        configs = [dict(measurement.flat(json.loads(entry.config))) for entry in own]
        names = [name for name in sorted(set().union(*configs))
                 if len({json.dumps(config.get(name)) for config in configs}) > 1]
        if len(own) > 1:
            yield Table(f"zpp_{app}", ["key", *(entry.name for entry in own)],
                        [[name, *(short(config.get(name, "-")) for config in configs)] for name in names])


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


def written(value):
    """A value as the page shows it. Characters that HTML forbids, and invisible ones that turn the direction of text,
    become U+FFFD."""
    if isinstance(value, markupsafe.Markup):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u2009")
    if value is None or isinstance(value, float):
        return "-" if value is None or not math.isfinite(value) else f"{value:.5g}"
    return "".join("\ufffd" if unicodedata.category(char)[0] == "C" and char not in "\t\n" else char
                   for char in str(value))


def page(**shown):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
                                     undefined=jinja2.StrictUndefined, finalize=written, trim_blocks=True)
    return environment.get_template("report.html.jinja").render(shown) + "\n"


def report(paths, title):
    """(HTML, [what is wrong with a trace: its name, and the first reason])."""
    entries = [Entry(path, name) for path, name in zip(paths, names_of(paths))]
    wrong = [f"{entry.path}: INVALID: {entry.reasons[0]}" for entry in entries if entry.reasons]
    runs = [(entry.name, entry.trace) for entry in entries if not entry.reasons and entry.trace.app == "train"
            and entry.trace.columns["steps"]["loss"]]
    return page(title=title, entries=entries, differences=list(differences(entries)),
                count=f"{counted(len(entries), 'trace')}, " + (f"{len(wrong)} INVALID" if wrong else "all VALID"),
                compared=html_figures.runs_compared(runs) if len(runs) > 1 else ""), wrong


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
