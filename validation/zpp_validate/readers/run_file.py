"""A run of a program of the suite, from its trace (HDF5) or from its JSON: attributes and columns, alike.

A JSON is read as it is; a trace becomes the same: {attribute: value, "config": {...}, group: {column: [value, ...]}}.
"""

import contextlib
import json

import h5py
from zpp_validate.problem import IO, MALFORMED, Problem, reading, unreadable
from zpp_validate.readers import trace_digest

SCHEMA = "zeropp-trace"


def plain(value):
    """Text as str, numbers as Python's."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


@contextlib.contextmanager
def open_trace(path):
    """The HDF5 file. Raises Problem where it is none, or damaged."""
    if not h5py.is_hdf5(path):
        raise Problem(f"{path} is no trace: name the HDF5 file of a run that ended")
    try:
        with h5py.File(path, "r") as file:
            file.visititems(lambda *_: None)  # opens all: items() gives None for what is damaged
            yield file
    except (OSError, *MALFORMED) as error:
        raise unreadable(error, path) or error from None


def read_trace(path):
    with open_trace(path) as file:
        changed = trace_digest.problem(file)
        if changed:
            raise Problem(f"{path}: {changed}", IO)
        run = {name: plain(value) for name, value in file.attrs.items()}
        for name, group in file.items():
            run[name] = {column: [plain(value) for value in dataset[()]] for column, dataset in group.items()}
    if "config_json" in run:
        run["config"] = json.loads(run["config_json"])
    return run


def read(path):
    """Raises Problem."""
    with reading(path, "trace or JSON", "name what a run that ended wrote"):
        run = read_trace(path) if h5py.is_hdf5(path) else json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(run, dict):
        raise Problem(f"{path} holds no object: name the JSON that a program wrote with --json or -J")
    return run
