"""Reads and writes files of the safetensors format with NumPy alone."""

import json

import numpy as np

from zpp_validate.problem import Unfit

STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read(path):
    """{name: values as fp32}, {name: F32, F16 or BF16}. Raises ValueError, KeyError or OSError for what is no such
    file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    values = data[8 + length:]
    tensors, dtypes, end = {}, {}, 0
    for name, entry in sorted(((name, entry) for name, entry in header.items() if name != "__metadata__"),
                              key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        if first != end:
            raise Unfit(f"{name} begins at byte {first}, and the one before it ends at {end}")
        stored = np.frombuffer(values[first:last], dtype=STORED[entry["dtype"]])
        if entry["dtype"] == "BF16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        tensors[name], dtypes[name], end = stored.astype(np.float32).reshape(entry["shape"]), entry["dtype"], last
    if end != len(values):
        raise Unfit(f"{len(values)} bytes of values, and the tensors have {end}")
    return tensors, dtypes


def write(path, tensors):
    """As F32."""
    header, end = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [end, end + 4 * values.size]}
        end += 4 * values.size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values.astype("<f4").tobytes()
                                                                       for values in tensors.values()))
