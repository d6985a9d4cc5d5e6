"""Summary of the runs of a study over emulated networks: one JSON file, small enough to be kept beside its table. It is
made from the traces (lib/trace/README.md) and the counters of the interfaces (jobscripts/local/netns.py);
network_table.py reads it.

All steps are kept, with those of warm-up; `warmup` says how many these are.
"""

import json
import statistics
from pathlib import Path

import h5py

from zpp_validate.problem import Unfit, reading

SCHEMA, VERSION = "zeropp-network-study", "1.0"


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def summarize(study, run, trace_path, counters_path):
    """Summary of one complete run."""
    counters = json.loads(Path(counters_path).read_text())
    with h5py.File(trace_path, "r") as trace:
        steps = {name: trace[f"steps/{name}"][()].tolist()
                 for name in ("time", "loss", "bytes_inter_node", "bytes_predicted_inter_node")}
        sent = trace["collectives/wire_bytes_inter"][()].tolist()
        modelled = [bool(flag) and across > 0 for flag, across in zip(trace["collectives/modelled"][()].tolist(), sent)]
        attributes = {name: text(trace.attrs[name]) for name in
                      ("verdict", "parameters_hash", "git_commit", "started_at", "config_hash")}
        emulated = bool(trace.attrs["emulated"])
        parameters = sum(trace["tensors/elements"][()].tolist())
    timed = slice(study.warmup, None)
    return {"run": run.name, "values": run.values, "hosts": run.nodes, "ranks_per_host": run.ranks_per_node,
            "emulated": emulated, "parameters": parameters, **attributes,
            "step_seconds": steps["time"], "losses": steps["loss"],
            "bytes_across_a_step": statistics.median_low(steps["bytes_inter_node"][timed]),
            "bytes_predicted_a_step": statistics.median_low(steps["bytes_predicted_inter_node"][timed]),
            "bytes_across": sum(sent), "bytes_are_modelled": any(modelled),
            **{name: counters[name] for name in ("rate", "bits_per_second", "payload_bytes", "others_cpu_share",
                                                 "seconds",
                                                 "cores")},
            "tcp_flags": counters.get("tcp_flags"), **counters["total"]}


def write(path, study, summaries):
    value = {"schema": SCHEMA, "schema_version": VERSION, "study": study.name, "description": study.description,
             "axes": study.axes, "warmup": study.warmup, "runs_of_the_study": [run.name for run in study.runs],
             "runs": summaries}
    path.parent.mkdir(parents=True, exist_ok=True)
    # A line a number would be long: a run is a line.
    head = json.dumps({**value, "runs": []}, indent=1).rstrip("}\n").rstrip().removesuffix("[]")
    lines = ",\n".join("  " + json.dumps(summary) for summary in summaries)
    path.write_text(f"{head}[\n{lines}\n ]\n}}\n", encoding="utf-8")


def read(path):
    """Raises Problem where it is no such file."""
    with reading(path, "summary of a study over networks", "name a summaries.json"):
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        if value["schema"] != SCHEMA:
            raise Unfit(f"its schema is {json.dumps(value['schema'])}")
    return value
