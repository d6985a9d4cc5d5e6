"""The JSON of zpp_fabric on 2 nodes of 4 ranks, as the program writes it, with times that spread by 1 %."""

import statistics

import numpy as np

RANKS, PER_NODE, MESSAGE = 8, 4, 1 << 20
TYPICAL = {"self": (0.1, 1000.0), "intra-node": (2.0, 300.0), "inter-node": (5.0, 40.0)}  # us, GB/s


def class_of(sender, receiver):
    if sender == receiver:
        return "self"
    return "intra-node" if sender // PER_NODE == receiver // PER_NODE else "inter-node"


def make(seed, slowed=lambda sender, receiver: 1.0, hosts=("node0", "node1")):
    """A map of the fabric. `slowed`: how many times as long the transfers of a link take; `hosts`: by node."""
    noise = np.random.default_rng(seed)
    jitter = lambda: float(1 + 0.01 * noise.standard_normal())
    kinds = [[class_of(sender, receiver) for receiver in range(RANKS)] for sender in range(RANKS)]
    latency = [[TYPICAL[kind][0] * jitter() for kind in row] for row in kinds]
    bandwidth = [[TYPICAL[kind][1] / slowed(sender, receiver) * jitter() for receiver, kind in enumerate(row)]
                 for sender, row in enumerate(kinds)]
    typical = []
    for name in TYPICAL:
        for metric, values, worst in (("latency", latency, max), ("bandwidth", bandwidth, min)):
            links = [values[sender][receiver] for sender in range(RANKS) for receiver in range(RANKS)
                     if kinds[sender][receiver] == name]
            typical.append({"class": name, "metric": metric, "count": len(links), "median": statistics.median(links),
                            "typical": TYPICAL[name][metric == "bandwidth"], "worst": worst(links), "limit": None})
    hosts = [hosts[rank // PER_NODE] for rank in range(RANKS)]
    return {"schema": "zeropp-fabric", "schema_version": "2.0", "software_version": "0.1.0",
            "start_time": "2026-01-02T03:04:05Z",
            "provenance": {"app": "fabric", "git_commit": "0123abc", "world_size": RANKS,
                           "node_count": RANKS // PER_NODE,
                           "ranks": {"node": [rank // PER_NODE for rank in range(RANKS)], "gpu": ["GPU"] * RANKS,
                                     "host": hosts}},
            "pairs": "exchange", "message_bytes": MESSAGE, "rail_bytes": MESSAGE, "threshold": 0.25, "latency": latency,
            "bandwidth": bandwidth,
            "rails": [{"rank": rank, "rail": rank % PER_NODE, "latency": 6.0 * jitter(), "bandwidth": 20.0 * jitter()}
                      for rank in range(RANKS)],
            "typical": typical, "faults": [], "placement": [{"host": host} for host in hosts], "mistakes": [],
            "verdict": "VALID"}
