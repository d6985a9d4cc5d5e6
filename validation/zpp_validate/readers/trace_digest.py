"""The digest of a trace's values, made again from the file (lib/trace/README.md)."""

import hashlib

import h5py
import numpy as np

from zpp_validate.problem import COPY_AGAIN, Unfit

NAME = "sha256"
ENDS = (NAME, "complete")  # attributes of the root that are written after all that the digest covers
STORED = {"f": "<f8", "u": "<u8"}
MOST_BYTES = 1 << 31  # of a column


def packed(value):
    """Values as the digest has them: their kind, their number, and their bytes."""
    values = np.asarray(value)
    kind = values.dtype.kind
    if kind in STORED:
        content = values.astype(STORED[kind]).tobytes()
    elif kind == "S":
        content = b"".join(each + b"\0" for each in values.ravel().tolist())
    else:  # no program of ours writes it: the digest will differ
        content = repr(values.tolist()).encode()
    return f"{kind}{values.size}".encode() + b"\0" + content


def parts(file):
    """(name, function that gives its values) of all attributes and columns."""
    for owner, attributes in [("", file.attrs), *((name, group.attrs) for name, group in file.items())]:
        for name in attributes:
            if owner or name not in ENDS:
                yield f"{owner}@{name}", lambda attributes=attributes, name=name: attributes[name]
    for group, columns in file.items():
        for name, dataset in columns.items() if isinstance(columns, h5py.Group) else ():
            # A small file may declare any number of chunks that are not stored.
            if dataset.size * dataset.dtype.itemsize > MOST_BYTES:
                raise Unfit(f"/{group}/{name} is larger than any trace's")
            yield f"{group}/{name}", lambda dataset=dataset: dataset[()]
            for attribute in dataset.attrs:
                yield f"{group}/{name}@{attribute}", lambda dataset=dataset, name=attribute: dataset.attrs[name]


def has_digest(file):
    return NAME in file.attrs


def problem(file):
    """Why the values of an open trace are not those that were written, or None. Traces of earlier versions have no
    digest."""
    if not has_digest(file):
        return None
    digest = hashlib.sha256()
    for name, values in sorted(((name.encode(), values) for name, values in parts(file)), key=lambda part: part[0]):
        digest.update(name + b"\0" + packed(values()))
    kept = file.attrs[NAME]
    if isinstance(kept, bytes) and kept.decode("ascii", "replace") == digest.hexdigest():
        return None
    return f"its values are not those that were written, it was damaged or changed: {COPY_AGAIN}"
