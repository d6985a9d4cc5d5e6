"""Times of links that zpp_fabric measured, from its JSON or its trace; raises Problem with one line."""

import collections
from dataclasses import dataclass
from pathlib import Path

import h5py

from zpp_validate.problem import Problem, Unfit, reading
from zpp_validate.readers import run_file

SCHEMA = "zeropp-fabric"
MICRO_OF_GIGA = 1e3  # bytes over GB/s are nanoseconds


@dataclass
class Rank:
    """`local`: counts the ranks of a host; `gpu`: model, empty on the host back end."""

    node: int
    host: str
    local: int
    gpu: str

    def __str__(self):
        return f"{self.host}:{self.local}"


@dataclass
class Fabric:
    """`times`: (class, ranks of the link or of the rail's load, metric) -> microseconds; `pairs`: by which test, which
    earlier versions do not say; `unmeasured`: the pairs of ranks that the survey did not measure."""

    path: Path
    times: dict
    threshold: float
    message_bytes: int
    pairs: str
    ranks: list
    unmeasured: set


def is_fabric(run):
    return run.get("schema") == SCHEMA or "fabric" in run


def class_of(nodes, sender, receiver):
    if sender == receiver:
        return "self"
    return "intra-node" if nodes[sender] == nodes[receiver] else "inter-node"


def of_matrices(run):
    """Sender, receiver, latency and bandwidth of each pair, of the JSON or of the trace."""
    if run.get("schema") != SCHEMA:
        columns = run["fabric"]
        yield from zip(columns["sender"], columns["receiver"], columns["latency"], columns["bandwidth"])
        return
    for sender, (latencies, bandwidths) in enumerate(zip(run["latency"], run["bandwidth"], strict=True)):
        for receiver, (latency, bandwidth) in enumerate(zip(latencies, bandwidths, strict=True)):
            yield sender, receiver, latency, bandwidth


def of_rails(run):
    """Rank, latency and bandwidth of each rank's rail."""
    if run.get("schema") == SCHEMA:
        yield from ((row["rank"], row["latency"], row["bandwidth"]) for row in run["rails"])
    else:
        columns = run.get("fabric_rails", {"rank": [], "latency": [], "bandwidth": []})
        yield from zip(columns["rank"], columns["latency"], columns["bandwidth"])


def attributes(path):
    """Attributes of the matrix of a trace: the test, the sizes of its messages and the threshold."""
    with h5py.File(path, "r") as file:
        return {name: run_file.plain(value) for group in ("fabric", "fabric_typical")
                for name, value in file[group].attrs.items()}


def read(path, run):
    """`run`: as run_file.read gives it."""
    with reading(path, "whole survey of zpp_fabric", "measure again"):
        is_json = run.get("schema") == SCHEMA
        if not is_json:
            run = {**run, **attributes(path)}
        place = (run["provenance"] if is_json else run)["ranks"]
        counts = collections.Counter()
        ranks = []
        for node, gpu, host in zip(place["node"], place["gpu"], place["host"], strict=True):
            ranks.append(Rank(node, host, counts[host], gpu))
            counts[host] += 1
        size, rail_size = run["message_bytes"], run["rail_bytes"]
        nodes, times, unmeasured = [rank.node for rank in ranks], {}, set()

        def add(kind, ends, latency, bandwidth, size):
            found = {metric: value for metric, value in (("latency", latency), ("transfer", bandwidth))
                     if value is not None and value > 0}
            if "transfer" in found:
                found["transfer"] = size / bandwidth / MICRO_OF_GIGA
            times.update({(kind, ends, metric): value for metric, value in found.items()})
            return len(found) == 2

        for sender, receiver, latency, bandwidth in of_matrices(run):
            if not add(class_of(nodes, sender, receiver), (sender, receiver), latency, bandwidth, size):
                unmeasured.add(tuple(sorted((sender, receiver))))
        for rank, latency, bandwidth in of_rails(run):
            add("rail", (rank,), latency, bandwidth, rail_size)
        if not run["threshold"] > 0:
            raise Unfit(f"its threshold is {run['threshold']}")
        fabric = Fabric(path, times, run["threshold"], size, run.get("pairs", "exchange"), ranks, unmeasured)
    if not times:
        raise Problem(f"{path} holds no link: run zpp_fabric again")
    return fabric
