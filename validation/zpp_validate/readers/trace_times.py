"""The rows of samples in a trace of zpp_sweep or zpp_kernels, under the keys that its JSON has as well."""

from zpp_validate.readers import sweep_file


def sweep_rows(run):
    """By sweep_file.Key; a sample is the largest over ranks of one cycle. `run`: of run_file.read()."""
    results, samples = run["results"], run["samples"]
    cycles = {}
    for result, cycle, _, seconds in zip(*(samples[name] for name in ("result", "cycle", "rank", "time"))):
        own = cycles.setdefault(result, {})
        own[cycle] = max(own.get(cycle, 0.0), 1e6 * seconds)
    rows = {}
    for index, row in enumerate(dict(zip(results, values)) for values in zip(*results.values())):
        key = sweep_file.Key(*(row[name] for name in ("collective", "codec", "algorithm", "group")), run["transport"],
                             int(row["size"]),
                             row["type"], row["redop"], int(row["root"] or -1), "in-place" if row["in_place"]
                             else "out-of-place")
        rows[key] = sweep_file.Row([own for _, own in sorted(cycles[index].items())], row["time"], row["bus_bw"],
                                   row["wire_bus_bw"],
                                   row["wire_bytes_intra"] + row["wire_bytes_inter"])
    return rows


def kernel_rows(run):
    """By name, microseconds."""
    results, taken = run["results"], {}
    for result, seconds in zip(run["samples"]["result"], run["samples"]["time"]):
        taken.setdefault(result, []).append(1e6 * seconds)
    names = zip(*(results[name] for name in ("kernel", "variant", "dtype", "shape")))
    return {"/".join(name): sweep_file.Row(taken[index], results["time"][index]) for index, name in enumerate(names)
            if index in taken}
