"""Checks that all programs' traces share: a trace is complete and of this schema, and its ranks fit together."""

import hashlib
import math

from zpp_validate.forms.wire import Topology
from zpp_validate.readers import trace_format as fmt


class Invalid(Exception):
    """A reason after which the rest cannot be judged."""


class TraceChecker:
    """`trace`: a trace_file.Trace that could be read. `problems` collects reasons; check_ranks() sets `topology`."""

    def __init__(self, trace):
        self.trace = trace
        self.problems = []
        self.attributes = trace.attributes

    def require(self, condition, reason):
        if not condition:
            self.problems.append(reason)
        return bool(condition)

    def check_schema(self):
        a = self.attributes
        self.require(a["complete"] == 1, "not complete")
        self.require(a["schema"] == fmt.SCHEMA, f"schema {a['schema']!r}")
        self.require(a["schema_version"] == fmt.SCHEMA_VERSION,
                     f"schema version {a['schema_version']!r}")
        self.require(a["verdict"] == "VALID", f"the run itself says {a['verdict']}")
        self.require(hashlib.sha256(a["config_json"].encode()).hexdigest() == a["config_hash"],
                     "config_hash is not the hash of config_json")

    def check_ranks(self):
        a, ranks = self.attributes, self.trace.columns["ranks"]
        nodes = ranks["node"]
        self.require(len(nodes) == a["world_size"], "/ranks has not world_size rows")
        self.require(nodes == sorted(nodes) and len(set(nodes)) == a["node_count"],
                     "/ranks/node does not fit node_count")
        self.topology = Topology(tuple(nodes))
        self.require((self.topology.ranks_per_node or 0) == a["ranks_per_node"],
                     "/ranks/node does not fit ranks_per_node")
        first = {node: nodes.index(node) for node in nodes}
        self.require(ranks["local_rank"] == [r - first[n] for r, n in enumerate(nodes)],
                     "/ranks/local_rank does not count inside nodes")
        processes = list(zip(ranks["host"], ranks["pid"]))
        expected = 1 if a["transport"] == "memory" else len(processes)  # virtual ranks are one process
        self.require(all(pid > 0 for pid in ranks["pid"]) and len(set(processes)) == expected,
                     "/ranks/pid is not one process a rank")

    def check_gpus(self, period):
        """On the back end cuda: readings of every rank that could have them, in order, each a possible one. `period`:
        the configuration's, in seconds."""
        if "gpus" not in self.trace.columns:
            return
        gpus, rows = self.trace.gpus, self.trace.rows("gpus")
        self.require(gpus["period"] == period, f"/gpus: period is not the configuration's {period}")
        self.require(period > 0 or not rows and not gpus["absent"], "/gpus has readings that nobody asked for")
        times = {}
        for row in rows:
            times.setdefault(row["rank"], []).append(row["time"])
        ranks = set(range(self.attributes["world_size"]))
        self.require(set(times) <= ranks, "/gpus/rank is no rank")
        self.require(period == 0 or gpus["absent"] or set(times) == ranks,
                     "/gpus has not the readings of every rank, and does not say why")
        for rank, own in times.items():
            self.require(own[0] >= 0 and own == sorted(own), f"/gpus/time of rank {rank} does not go forward")
        for row in rows:
            where = f"/gpus: reading of rank {row['rank']} at {row['time']:g} s"
            for name in ("sm_clock", "memory_clock", "power", "temperature"):
                self.require(math.isnan(row[name]) or 0 <= row[name] < math.inf, f"{where}: {name} is {row[name]}")
            for name in ("utilization", "memory_utilization"):
                self.require(math.isnan(row[name]) or 0 <= row[name] <= 100, f"{where}: {name} is {row[name]} %")
            reasons = set(row["reasons"].split(",")) - {""}
            self.require(reasons <= fmt.CLOCK_REASONS or reasons == {"unknown"}, f"{where}: reasons {row['reasons']!r}")
        limited = any(set(row["reasons"].split(",")) & fmt.CLOCK_LIMITS for row in rows)
        self.require(limited == bool(gpus["throttled"]), "/gpus: throttled does not fit the readings' reasons")
