"""Traces of all programs as pandas frames. Needs h5py and pandas."""

import collections.abc
import os


class Trace(collections.abc.Mapping):
    """A frame for each group of columns of equal length, by its path: trace["steps"], trace["collectives"]. `attributes` are those
    of the file: versions, configuration, verdict. A frame's attrs["units"] and attrs["description"] are by column."""

    def __init__(self, attributes, frames):
        self.attributes, self._frames = attributes, frames

    def __getitem__(self, group):
        return self._frames[group]

    def __iter__(self):
        return iter(self._frames)

    def __len__(self):
        return len(self._frames)

    def __repr__(self):
        rows = ", ".join(f"{name} ({len(frame)})" for name, frame in self._frames.items())
        return f"Trace of {self.attributes.get('app')}, {self.attributes.get('verdict')}: {rows}"


def plain(value):
    """Python's text or number for HDF5's."""
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value


def read(path):
    """The trace that a program wrote, "out/train.h5" for example. Raises OSError for a file that is no trace, and ModuleNotFoundError without h5py or
    pandas."""
    try:
        import h5py
        import pandas
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"zeropp.read() needs {missing.name}: pip install {missing.name}", name=missing.name) from None

    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        raise OSError(f"{path} is no whole HDF5 file: {error}: name the .h5 that a program wrote") from None
    frames = {}
    with file:
        attributes = {name: plain(value) for name, value in file.attrs.items()}
        if attributes.get("schema") != "zeropp-trace":
            raise OSError(f"{path} is an HDF5 file, but no trace of zeropp: name the .h5 that a program wrote")

        def visit(name, group):
            if not isinstance(group, h5py.Group):
                return
            columns = {each: item for each, item in group.items() if isinstance(item, h5py.Dataset) and item.ndim == 1}
            if not columns:
                return
            frame = pandas.DataFrame({each: item.asstr()[:] if item.dtype.kind in "SO" else item[:]
                                      for each, item in columns.items()})
            for attribute in ("units", "description"):
                frame.attrs[attribute] = {each: plain(item.attrs.get(attribute, b"")) for each, item in columns.items()}
            frames[name] = frame

        file.visititems(visit)
    return Trace(attributes, frames)
