"""What a program of the suite wrote about a run, from its trace (HDF5) or from its JSON: attributes and columns, alike.

A JSON is read as it is; a trace becomes the same: {attribute: value, "config": {...}, group: {column: [value, ...]}}.
"""

import json

import h5py

SCHEMA = "zeropp-trace"


class FileProblem(Exception):
    """One line: which file, what is wrong with it, and the remedy."""


def plain(value):
    """Text as str, numbers as Python's."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


def read_trace(path):
    with h5py.File(path, "r") as file:
        run = {name: plain(value) for name, value in file.attrs.items()}
        for name, group in file.items():
            run[name] = {column: [plain(value) for value in dataset[()]] for column, dataset in group.items()}
    if "config_json" in run:
        run["config"] = json.loads(run["config_json"])
    return run


def read(path):
    """Raises FileProblem."""
    try:
        run = read_trace(path) if h5py.is_hdf5(path) else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        raise FileProblem(f"{path} cannot be read: {' '.join(str(error).split())}: name a trace or a JSON of a "
                          f"run that "
                          "ended") from None
    if not isinstance(run, dict):
        raise FileProblem(f"{path} holds no object: name the JSON that a program wrote with --json or -J")
    return run
