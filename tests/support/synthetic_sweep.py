"""Sweeps made without the program, for tests of their readers: the JSON of zpp_sweep, and the JSON of nccl-tests.

A row's time is a latency, the wire bytes over a link, and codec work over the uncompressed bytes; its samples spread
around it. The numbers describe 8 GPUs on a link of 300 GB/s, so that codecs pay from some size on.
"""

import numpy as np

LINK, CODEC = 300e3, 4000e3  # bytes a microsecond
RATIO = {"none": 1.0, "int8:256": (256 + 2) / 512, "int4:128": (64 + 2) / 256}  # of wire bytes to bytes in bf16
LATENCY = {"none": 12.0, "int8:256": 26.0, "int4:128": 30.0}  # microseconds
ALGORITHMS = {"all_gather": ("flat", "two-level"), "reduce_scatter": ("flat", "2-hop"), "all_reduce": ("flat",),
              "all_to_all": ("native",)}
STEPS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 1}
SLOWDOWN = {"flat": 1.0, "native": 1.0, "two-level": 1.1, "2-hop": 1.15}
PLACES = ("out_of_place", "in_place")


def microseconds(collective, codec, algorithm, size, ranks):
    """Median time that the model gives."""
    moved = STEPS[collective] * size * (ranks - 1) / ranks
    work = 0 if codec == "none" else 2 * size / CODEC
    return LATENCY[codec] + SLOWDOWN[algorithm] * (moved * RATIO[codec] / LINK + work)


def cell(time, samples, collective, codec, size, ranks):
    """Columns of a result with `samples` around `time`, as zpp_sweep reports them."""
    median, factor = float(np.median(samples)), STEPS[collective] * (ranks - 1) / ranks
    bandwidth = size / time / 1e3
    return {"time": float(np.mean(samples)), "alg_bw": bandwidth, "bus_bw": bandwidth * factor, "nwrong": 0,
            "wire_bus_bw": bandwidth * factor * RATIO[codec], "wire_bytes": int(size * factor * RATIO[codec]),
            "ratio": 1.0,
            "max_error": 0.0, "samples": samples.tolist(), "p50": median, "p95": float(np.quantile(samples, 0.95)),
            "cv": float(np.std(samples) / np.mean(samples)), "ci95": [median, median], "verdict": "VALID"}


def sweep(seed=1, collectives=("all_gather",), codecs=tuple(RATIO), sizes=tuple(1 << k for k in range(10, 33, 2)),
          cycles=20,
          cv=0.02, ranks=8, factor=lambda *row: 1.0, gpu="NVIDIA H200"):
    """JSON of a sweep. `factor(collective, codec, algorithm, size, place)`: by what a row is slower than the model."""
    random = np.random.default_rng(seed)
    results = []
    for collective in collectives:
        for codec in codecs:
            for algorithm in ALGORITHMS[collective]:
                for size in sizes:
                    row = {"collective": collective, "codec": codec, "algorithm": algorithm, "group": "world",
                           "transport": "nccl", "size": size, "count": size // 2, "type": "bfloat16",
                           "redop": "none", "root": -1}
                    for place in PLACES:
                        time = microseconds(collective, codec, algorithm, size, ranks)
                        time *= factor(collective, codec, algorithm, size, place)
                        samples = time * (1 + cv * random.standard_normal(cycles))
                        row[place] = cell(time, samples, collective, codec, size, ranks)
                    results.append(row)
    devices = [{"rank": rank, "group": 0, "pid": 100 + rank, "hostname": "host", "device": rank,
                "device_hex": f"0000:{rank:02x}:00", "device_info": gpu} for rank in range(ranks)]
    return {"schema": "zeropp-sweep", "schema_version": "1.0", "version": "0.1.0", "start_time": "2026-01-01 00:00:00",
            "end_time": "2026-01-01 00:01:00", "config": {"minimum_bytes": min(sizes), "maximum_bytes": max(sizes),
                                                          "iterations": cycles, "node_size": 0, "devices": devices},
            "units": {"time": "us", "alg_bw": "GB/s"}, "results": results, "out_of_bounds": {"count": 0, "okay": True},
            "average_bus_bandwidth": {"bandwidth": 1.0, "okay": "unchecked"}, "errors": [], "verdict": "VALID"}


def nccl_tests(seed=1, cycles=1, slower=1.0, ranks=8, sizes=(1 << 20, 1 << 25, 1 << 30),
               program="./build/all_gather_perf"):
    """JSON as all_gather_perf -J writes it with -N `cycles`: rows again for each cycle, numbers and booleans as texts
    where it has them so, no name of the collective but its own."""
    random = np.random.default_rng(seed)
    results = []
    for _ in range(cycles):
        for size in sizes:
            row = {"size": size, "count": size // 4, "type": "float", "redop": "none", "root": "    -1"}
            for place in PLACES:
                time = slower * microseconds("all_gather", "none", "flat", size,
                                             ranks) * (1 + 0.02 * random.standard_normal())
                bandwidth = size / time / 1e3
                row[place] = {"time": round(time, 6), "alg_bw": bandwidth, "bus_bw": bandwidth * (ranks - 1) / ranks,
                              "nwrong": 0.0}
            results.append(row | {"actual_iterations": 20, "experiment_name": ""})
    devices = [{"rank": rank, "group": 0, "pid": 1, "hostname": "host", "device": rank, "device_hex": "0000:1b:00",
                "device_info": "NVIDIA H200"} for rank in range(ranks)]
    return {"version": 1, "start_time": "2026-01-01 00:00:00", "args": [program, "-J", "x.json"], "env": ["A=b"],
            "nccl_version": 22803, "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": min(sizes),
                                              "maximum_bytes": max(sizes),
                                              "step_factor": 2, "warmup_iters": 1, "iterations": 20,
                                              "devices": devices},
            "results": results, "out_of_bounds": {"count": 0, "okay": "true"},
            "average_bus_bandwidth": {"bandwidth": 300.0, "okay": "unchecked"}, "errors": [],
            "end_time": "2026-01-01 00:01:00"}
