"""The rows of a sweep over collectives, from the JSON of zpp_sweep or of nccl-tests (option -J).

zpp_sweep has nccl-tests' keys and its own beside them. Files of nccl-tests lack the keys of values that are always the
same there: codec `none`, algorithm `native`, group `world`. Their collective is the name of the program. They hold no
samples, but a row for each of the -N cycles: rows of one key are its samples, as are `samples` of a row.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zpp_validate.problem import Unfit

SCHEMA = "zeropp-sweep"
PLACES = {"out_of_place": "out-of-place", "in_place": "in-place"}
PROGRAMS = {"alltoall": "all_to_all", "sendrecv": "send_recv"}  # nccl-tests' names where ours are others


class Key(NamedTuple):
    """Two rows with the same key are the same measurement. `size` in bytes, `root` -1 where there is none."""

    collective: str
    codec: str
    algorithm: str
    group: str
    transport: str
    size: int
    type: str
    redop: str
    root: int
    place: str

    def __str__(self):
        words = [self.collective, self.codec, self.algorithm, self.group, self.transport, bytes_text(self.size),
                 self.type, self.place]
        words += [self.redop] if self.redop not in ("none", "") else []
        return " ".join(words + ([f"root {self.root}"] if self.root >= 0 else []))


@dataclass
class Row:
    """`samples`: microseconds, maximum over ranks; a file without samples has one time. Bandwidths are in GB/s and
    follow from `time`; the bytes of one run are summed over all ranks. Both are None where the file has none. Where the
    file has several cells of a key, both are from the last."""

    samples: list = field(default_factory=list)
    time: float = math.nan
    bus_bw: float | None = None
    wire_bus_bw: float | None = None
    wire_bytes: int | None = None


@dataclass
class Sweep:
    """`layout`: ranks and nodes, `machine`: what they ran on, `verdict`: VALID or why not, `config`: what was asked
    for."""

    rows: dict
    layout: str
    machine: tuple
    verdict: str
    config: dict


def bytes_text(size):
    """As "1.5 MiB"."""
    unit = min(int(math.log2(size)) // 10, 4) if size >= 1 else 0
    return f"{size / 1024**unit:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def counted(number, noun):
    return f"{number} {noun}{'s' if number != 1 else ''}"


def is_sweep(document):
    return document.get("schema") == SCHEMA or isinstance(document.get("results"), list)


def collective_of(document):
    """nccl-tests: args are its command line; .../all_gather_perf is all_gather."""
    name = Path(document["args"][0]).name.split("_perf")[0]
    return PROGRAMS.get(name, name)


def number(value):
    """nccl-tests writes "nan" where a time is none."""
    result = float("nan") if value is None else float(value)
    return result if math.isfinite(result) else None


def add(row, measured):
    """A cell of the file to the row of its key."""
    time = number(measured["time"])
    if time is None:
        return
    samples = measured.get("samples") or [time]
    if any(not 0 < value < math.inf for value in samples):
        raise Unfit("a time is not above 0")
    row.samples += samples
    row.time, row.bus_bw, row.wire_bus_bw = time, number(measured.get("bus_bw")), number(measured.get("wire_bus_bw"))
    row.wire_bytes = measured.get("wire_bytes")


def read_rows(document):
    """Rows by key. Raises KeyError, TypeError or ValueError."""
    own = document.get("schema") == SCHEMA
    rows = {}
    for result in document["results"]:
        if own:
            names = tuple(result[name] for name in ("collective", "codec", "algorithm", "group", "transport"))
        else:
            names = (collective_of(document), "none", "native", "world", "nccl")
        for place, text in PLACES.items():
            # -C: the time to enqueue is none of the collective.
            if not result.get(place) or "cpu_time" in result[place]:
                continue
            key = Key(*names, int(result["size"]), result["type"], str(result["redop"]), int(result["root"]), text)
            add(rows.setdefault(key, Row()), result[place])
    return {key: row for key, row in rows.items() if row.samples}


def read_sweep(document):
    """Raises KeyError, TypeError, IndexError or ValueError for a document that is no sweep."""
    config = dict(document.get("config", {}))
    devices = config.pop("devices", None) or document.get("devices") or []  # nccl-tests: inside of config
    ranks_a_device = int(config.get("nthreads", 1)) * int(config.get("ngpus", 1))  # lists the first of a process only
    names = sorted(device.get("device_info") or device.get("hostname", "") for device in devices)
    bounds = document.get("out_of_bounds", {})
    okay = str(bounds.get("okay", True)).lower() == "true"  # nccl-tests: a text
    verdict = document.get("verdict", "VALID") if okay else f"INVALID: {bounds.get('count')} wrong values"
    nodes = len({(device.get("hostname", ""), device.get("node", 0)) for device in devices})  # nccl-tests: a host each
    emulated = ", emulated" if document.get("provenance", {}).get("emulated") else ""
    layout = f"{counted(len(devices) * ranks_a_device, 'rank')} on {counted(nodes, 'node')}{emulated}"
    return Sweep(read_rows(document), layout, tuple(names), verdict, config)
