"""Traces made without the program, for tests of what reads them. make() gives a whole trace, which a test may spoil
before write() puts it into a file: sizes and bytes from synthetic_replay.py, the configuration from
synthetic_config.py, the columns from synthetic_groups.py."""

import hashlib
import json

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t

from synthetic_cases import CASES, DEFAULTS, DYNAMIC, FEATURES
from synthetic_config import config_of
from synthetic_groups import groups_of
from synthetic_replay import Replay, shape_of
from zpp_validate.readers import trace_format

__all__ = ["CASES", "DYNAMIC", "FEATURES", "columns_of", "configure", "make", "rewrite", "write"]

TEXT = ("version git_commit build_type cxx_compiler mpi_library hdf5_version kokkos_version blas_library "
        "cuda_versions backend transport kernels run_id started_at command_line").split()
VERSION = "1.7"


def make(case):
    """A whole trace as root attributes and {group: {column: values}}."""
    c = DEFAULTS | case
    shape = shape_of(c)
    attributes = attributes_of(c, shape)
    return attributes, groups_of(c, shape, Replay(c, shape).run())


def attributes_of(c, shape):
    attributes = {name: "x" for name in TEXT}
    attributes.update(schema="zeropp-trace", schema_version=VERSION, app="train", verdict="VALID",
                      interrupted=c["interrupted"], first_step=c["first"], parameters_hash="0a" * 32,
                      # 6 (3 * 12 * 10^2 + 64 * 10) + 12 * 3 * 8 * 10; again (3 - 1) (16 * 10^2 + 4 * 8 * 10)
                      flops_per_token=28320.0, hardware_flops_per_token=32160.0 if c["recompute"] else 28320.0,
                      complete=1, git_dirty=0, world_size=shape.ranks, node_count=c["nodes"],
                      ranks_per_node=c["local"], emulated=0, seed=7, deterministic=0)
    configure(attributes, config_of(c))
    if c["cuda"]:
        attributes["backend"] = "cuda"
    return attributes


def configure(attributes, config):
    """Puts `config` into a run's attributes."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    attributes.update(config_json=text, config_hash=hashlib.sha256(text.encode()).hexdigest())


def columns_of(app, group):
    """Kinds and units of columns, {column: "KIND UNIT"}, as validation/zpp_validate/readers/trace_format.py describes
    it."""
    return {**trace_format.ERROR_COLUMNS, **trace_format.COLUMNS_OF[app], **trace_format.GPU_COLUMNS}[group]


def write(path, attributes, groups):
    """Into a file as the programs write it: columns in chunks with checksums, units and descriptions beside them."""
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        for name, value in attributes.items():
            file.attrs[name] = stored(value, np.uint64)
        file.create_group("env")
        app = attributes.get("app", "train")
        if app == "train":
            data = file.create_group("data")
            for name in trace_format.DATA_ATTRIBUTES:
                data.attrs[name] = 64 if name == "vocab_size" else 1
        for group, columns in groups.items():
            write_group(file, app, group, columns)


def stored(value, number=np.float64):
    """A scalar as an attribute has it; whole numbers as `number`."""
    if isinstance(value, str):
        return np.bytes_(value)
    return np.float64(value) if isinstance(value, float) else number(value)


def write_group(file, app, name, columns):
    """Columns, and what begins with @ as attributes of the group."""
    described = columns_of(app, name) if any(not column.startswith("@") for column in columns) else {}
    group = file.require_group(name) if columns else None
    for column, values in columns.items():
        if column.startswith("@"):
            group.attrs[column[1:]] = stored(values)
        else:
            kind, _, unit = described[column].partition(" ")
            write_column(group.id, column, array_of(kind, values), unit)


def rewrite(path, before, after):
    """Turns the file of the trace `before` into the file of the trace `after`: writes only the differences."""
    (old_attributes, old_groups), (attributes, groups) = before, after
    with h5py.File(path, "r+", libver=("v108", "latest")) as file:
        for name in old_attributes.keys() - attributes.keys():
            del file.attrs[name]
        for name, value in attributes.items():
            if repr(value) != repr(old_attributes.get(name)):
                file.attrs[name] = stored(value, np.uint64)
        for name in old_groups.keys() - groups.keys():
            del file[name]
        for name, columns in groups.items():
            old = old_groups.get(name, {})
            for column in old.keys() - columns.keys():
                remove(file[name], column)
            changed = {column: values for column, values in columns.items() if repr(values) != repr(old.get(column))}
            for column in changed.keys() & old.keys():
                remove(file[name], column)
            write_group(file, attributes.get("app", "train"), name, changed)


def remove(group, column):
    if column.startswith("@"):
        del group.attrs[column[1:]]
    else:
        del group[column]


def array_of(kind, values):
    """The array of a column of this kind, by the names of trace_format.py."""
    if kind != "S":
        return np.array(values, dtype=f"{kind}8")
    return np.array([value.encode() for value in values], dtype=f"S{max(1, *map(len, values), 1)}")


def write_column(group, name, values, unit):
    """Writes a column by HDF5's own calls: tests write hundreds of traces, and the calls of h5py take three times as
    long. `group`: an h5py GroupID."""
    count = len(values)
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk((max(1, min(count, 64)),))
    properties.set_fletcher32()
    properties.set_fill_time(h5d.FILL_TIME_ALLOC)
    properties.set_obj_track_times(False)
    extent = h5s.create_simple((count,), (max(1, count),))
    dataset = h5d.create(group, name.encode(), h5t.py_create(values.dtype), extent, properties)
    if count:
        dataset.write(h5s.ALL, h5s.ALL, values)
    for attribute, text in (("units", unit), ("description", "text")):
        value = np.array(np.bytes_(text))
        kind = h5t.py_create(value.dtype) if text else h5t.py_create(np.dtype("S1"))
        h5a.create(dataset, attribute.encode(), kind, h5s.create(h5s.SCALAR)).write(value)
