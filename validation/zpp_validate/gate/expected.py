"""Says how much of the bus bandwidth that the links allow each row of a sweep reached.

usage: zpp-validate expected SWEEP.json --cluster FILE [--least SHARE]

SWEEP.json is the JSON of zpp_sweep, and FILE a cluster file as inputs/clusters has them, whose rates were measured or
are of data sheets. The expected time of a row is the latency of the links that it uses and its transfers: the counted
bytes inside nodes over the rate of all GPUs, or the bytes between nodes over the rate of all links, whichever takes
longer. An algorithm of several hops, or one that other work delays, takes longer than that.

Rows without a codec, over all ranks, of collectives in which every rank sends as much (not broadcast) are compared. A
row whose transfers are expected to take less time than its latency is below the latency knee, and is not judged: its
bandwidth says nothing about the links.

Exits with 1 when a judged row has less than --least of the expected bandwidth, with 2 when the files do not fit
together or no row can be judged.
"""

import json
import math
import sys
from dataclasses import dataclass

import numpy as np

from zpp_validate import command_line
from zpp_validate.problem import Problem, Unfit, reading
from zpp_validate.readers import run_file, sweep_file
from zpp_validate.tables import markdown_table

COLUMNS = ("row", "time (us)", "busbw (GB/s)", "expected", "share", "verdict")
TEXT_COLUMNS = {"row", "verdict"}
OKAY, BELOW, LATENCY = "ok", "below", "latency"
MICRO_OF_GIGA = 1e3  # bytes over GB/s are nanoseconds


@dataclass
class Row:
    """`expected`: of the bus bandwidth, GB/s; `judged`: its transfers take at least as long as its latency."""

    key: sweep_file.Key
    time: float
    bus_bw: float
    share: float
    judged: bool

    @property
    def expected(self):
        return self.bus_bw / self.share

    def verdict(self, least):
        return LATENCY if not self.judged else BELOW if self.share < least else OKAY


class Links:
    """The links of a cluster file as a sweep with `lanes` communicators over rails uses them."""

    def __init__(self, cluster, lanes, ranks, nodes):
        self.ranks, self.nodes = ranks, nodes
        self.node_links, self.rails = cluster["node_links"], cluster["rails"]
        self.lane = next((lane for lane in self.rails["lanes"] if lane["lanes"] == lanes), self.rails["lanes"][0])

    def rail_rate(self, size):
        """GB/s of a link between nodes where each rank sends `size` bytes."""
        sizes = sorted((each["mib"], each["gb_per_s"]) for each in self.lane.get("sizes", []))
        if not sizes or size / 2**20 >= sizes[-1][0]:
            return self.lane["gb_per_s"]
        mib, rates = zip(*sizes)
        return float(np.interp(math.log(max(size / 2**20, mib[0])), np.log(mib), rates))

    def times(self, intra, inter, ring):
        """(latency, transfers) in us. Bytes are sums over ranks; `ring`: one ring of the vendor's crosses nodes."""
        latency, transfers = 0.0, 0.0
        if intra:
            latency = self.node_links["latency_us"]
            transfers = intra / self.ranks / self.node_links["gb_per_s"] / MICRO_OF_GIGA
        if inter:
            latency = max(latency, self.lane["latency_us"])
            rate = self.rails["links_per_node"] * self.rail_rate(inter / self.ranks)
            if ring:
                rate = min(rate, self.rails.get("ring_gb_per_s", rate))
            transfers = max(transfers, inter / self.nodes / rate / MICRO_OF_GIGA)
        return latency, transfers


def read_cluster(path):
    with reading(path, "cluster file", "name one as inputs/clusters has them"):
        cluster = json.loads(path.read_text())
        Links(cluster, 0, 1, 1).times(1, 1, True)
        return cluster


def read_rows(path, cluster):
    """The rows that a cluster file has an expectation of. Raises Problem."""
    run = run_file.read(path)
    with reading(path, "sweep with counted bytes", "give the JSON of zpp_sweep"):
        if run.get("schema") != sweep_file.SCHEMA:
            raise Unfit("its schema is another")
        ranks, nodes = (run["provenance"][name] for name in ("world_size", "node_count"))
        links = Links(cluster, run["config"].get("rail_lanes", 0), ranks, nodes)
        return [row for result in run["results"]
                if (result["codec"], result["group"]) == ("none", "world") and result["collective"] != "broadcast"
                for row in rows_of(result, links)]


def rows_of(result, links):
    for place, text in sweep_file.PLACES.items():
        measured = result.get(place)
        if not measured or "cpu_time" in measured:
            continue
        latency, transfers = links.times(measured["wire_bytes_intra"], measured["wire_bytes_inter"],
                                         result["algorithm"].startswith("native"))
        if measured["time"] > 0 and transfers > 0:
            key = sweep_file.Key(*(result[name] for name in sweep_file.Key._fields[:-1]), text)
            yield Row(key, measured["time"], measured["bus_bw"], (latency + transfers) / measured["time"],
                      transfers >= latency)


def text_of(rows, least):
    cells = [[str(row.key), f"{row.time:,.1f}", f"{row.bus_bw:.2f}", f"{row.expected:.2f}", f"{row.share:.2f}",
              row.verdict(least)] for row in rows]
    count = [sum(row.verdict(least) == verdict for row in rows) for verdict in (OKAY, BELOW, LATENCY)]
    return "\n".join([markdown_table.aligned(COLUMNS, cells, TEXT_COLUMNS), "",
                      f"{len(rows)} rows: {count[0]} at {least:g} of the expected bandwidth or more, {count[1]} below, "
                      f"{count[2]} below the latency knee and not judged"])


def main(words):
    parser = command_line.parser("expected", __doc__)
    parser.add_argument("sweep", type=command_line.InputFile, metavar="SWEEP.json", help="JSON of zpp_sweep (-J)")
    parser.add_argument("--cluster", type=command_line.InputFile, required=True, metavar="FILE",
                        help="as inputs/clusters has them")
    parser.add_argument("--least", type=command_line.share, default=0.5, metavar="SHARE",
                        help="of the expected bandwidth, that a row has to reach [0.5]")
    arguments = parser.parse_args(words)
    rows = read_rows(arguments.sweep, read_cluster(arguments.cluster))
    if not any(row.judged for row in rows):
        raise Problem(f"{arguments.sweep} has no row to judge, without a codec and above the latency knee of "
                      f"{arguments.cluster}: measure larger sizes (-e of zpp_sweep)")
    print(text_of(rows, arguments.least))
    below = [str(row.key) for row in rows if row.verdict(arguments.least) == BELOW]
    if below:
        print(f"zpp-validate expected: error: below {arguments.least:g} of what the links allow: {'; '.join(below)}: "
              f"survey the links with zpp_fabric", file=sys.stderr)
    return 1 if below else 0
