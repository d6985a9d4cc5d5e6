"""Files of the runs of a study: a folder per run, RESULTS/runs/NAME/, with its trace, run.json (the command, how it
ended), output.log and environment.txt. Says which runs are complete, for which it needs h5py.
"""

import contextlib
import json
import os
import shlex
import sys
from pathlib import Path

from study_file import ROOT

sys.path.insert(0, str(ROOT / "validation"))


def default_results(study):
    return Path("out") / "studies" / study.name


def folder(results, run):
    return Path(results) / "runs" / run.name


def trace_path(study, results, run):
    return folder(results, run) / f"{study.app.removeprefix('zpp_')}.h5"


def checkpoints_path(results, run):
    return folder(results, run) / "checkpoints"


def record_path(results, run):
    return folder(results, run) / "run.json"


def read_record(results, run):
    """The record of the run's last start; {} where there is none that can be read."""
    try:
        record = json.loads(record_path(results, run).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


@contextlib.contextmanager
def replaced(path):
    """A name to write to; what is there becomes `path` at the end, so that no reader finds half of it and a full disk
    leaves what was there before."""
    partial = path.with_name(f".partial.{path.name}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        # One of a write names no file.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(path, text):
    with replaced(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_record(results, run, record):
    write_text(record_path(results, run), json.dumps(record, indent=2) + "\n")


def why_missing(study, results, run):
    """Why the run has to be started (again), as text; None where it is complete: its record is of this run as the
    study has it now, and its trace is one that zpp-validate check accepts, of the command in that record, of all
    steps, on these nodes."""
    record = read_record(results, run)
    path = trace_path(study, results, run)
    if not record:
        return "not started"
    if record.get("run") != run.identity():
        return "the study has changed since it ran"
    if not path.is_file():
        code = record.get("exit")
        return "started, and has not ended" if code is None else f"no trace, exit code {code}"
    from zpp_validate.checkers import check_trace
    import h5py

    problems = check_trace.judge(path)
    if problems:
        return f"INVALID: {problems[0]}"
    with h5py.File(path, "r") as trace:
        if trace.attrs.get("interrupted", b""):
            return "interrupted"
        if not is_of_command(trace.attrs["command_line"], record.get("command")):
            return "the trace is of another command"
        found = tuple(int(trace.attrs[name]) for name in ("node_count", "world_size"))
    if found != (run.nodes, run.ranks):
        return f"ran on {found[0]} nodes with {found[1]} ranks in all, not on {run.nodes} with {run.ranks}"
    return None


def is_of_command(command_line, command):
    """Whether a trace's command line, quoted for a shell, is the end of `command`, which begins with a launcher."""
    try:
        words = shlex.split(os.fsdecode(command_line))
    except ValueError:
        return False
    return isinstance(command, list) and 0 < len(words) and command[-len(words):] == words
