"""The few numbers that each program was run for, as lines of text, from its trace."""

import math
import statistics
from collections import Counter

from zpp_validate.checkers.plan_checker import FASTEST_LINK
from zpp_validate.readers.converge_file import Study
from zpp_validate.readers.sweep_file import bytes_text
from zpp_validate.stats import sample_statistics

LINKS = ("intra", "inter")


def volume(counted, predicted):
    text = "counted as predicted" if counted == predicted else f"predicted {predicted}"
    return f"{counted} bytes, {text}"


def train(trace):
    steps = trace.columns["steps"]
    taken = [time for time, skipped in zip(steps["time"], steps["skipped"]) if not skipped]
    lines = [f"{len(steps['loss'])} steps, {sum(steps['skipped'])} skipped; loss {steps['loss'][0]:.4f} to "
             f"{steps['loss'][-1]:.4f}"]
    if taken:
        times = sample_statistics.summarize(taken)
        lines.append(f"step: {1e3 * times.median:.3f} ms ({1e3 * times.low:.3f} to {1e3 * times.high:.3f}), "
                     f"{statistics.median(steps['tokens_per_second']):.4g} tokens/s")
    for step, loss in zip(*(trace.columns["evaluations"][name][-1:] for name in ("step", "loss"))):
        lines.append(f"held-out after step {step}: {loss:.4f} nats, perplexity {math.exp(min(loss, 700)):.3f}")
    for link, name in zip(LINKS, ("inside nodes", "between nodes")):
        lines.append(f"sent {name}: "
                     + volume(*(sum(steps[f"bytes{kind}_{link}_node"]) for kind in ("", "_predicted"))))
    counters = trace.rows("counters")
    if counters:
        lines.append("counted: " + ", ".join(f"{row['name']} {row['value']}" for row in counters))
    return lines


def sweep(trace):
    rows = trace.rows("results")
    lines = []
    for collective in dict.fromkeys(row["collective"] for row in rows):
        own = [row for row in rows if row["collective"] == collective]
        best = max(own, key=lambda row: row["bus_bw"])
        lines.append(f"{collective}: {len(own)} rows, {bytes_text(min(row['size'] for row in own))} to "
                     f"{bytes_text(max(row['size'] for row in own))}; largest bus bandwidth {best['bus_bw']:.4g} GB/s "
                     f"({best['codec']}, {best['algorithm']}, {bytes_text(best['size'])})")
    sent = sum(row["wire_bytes_intra"] + row["wire_bytes_inter"] for row in rows)
    wrong = sum(row["wrong"] for row in rows)
    return lines + [f"sent by one run of each row: {sent} bytes; {wrong} wrong values"]


def fabric(trace):
    rows = trace.rows("fabric_typical")
    return [f"{row['class']} {row['metric']}: median {row['median']:.4g} of {row['count']}, typical "
            f"{row['typical']:.4g}, worst "
            f"{row['worst']:.4g}, limit {row['limit']:.4g}"
            for row in rows] + [f"{len(trace.rows('fabric_faults'))} faults"]


def kernels(trace):
    ceilings = [f"{row['name']} {row['rate']:.4g} {row['unit']}" for row in trace.rows("ceilings")]
    rows = sorted(trace.rows("results"), key=lambda row: row["of_limit"])
    name = lambda row: f"{row['kernel']}/{row['variant']}/{row['dtype']} {row['of_limit']:.0%}"
    return [f"ceilings: {', '.join(ceilings)}", f"{len(rows)} kernels; of their limit: least {name(rows[0])}, most "
            f"{name(rows[-1])}"]


def converge(trace):
    study = Study(trace)
    lines = []
    for level, count in Counter(setting.level for setting in study.settings).items():
        runs = [run for run in study.runs if study.setting_of(run).level == level]
        trained = {(run.seed, run.parameters_hash, run.seconds) for run in runs}  # equal trainings share their run
        lines.append(f"{level}: {count} settings, {len(runs)} runs, {len({run.seed for run in runs})} seeds, "
                     f"{sum(seconds for *_, seconds in trained):.0f} s")
    counted, predicted = (sum(getattr(run, name) for run in study.runs)
                          for name in ("bytes_inter_node", "bytes_predicted_inter_node"))
    checks = trace.columns["checks"]["passed"]
    return lines + [f"sent between nodes, a step of each run: {volume(counted, predicted)}",
                    f"{sum(checks)} of {len(checks)} contracts hold"]


def plan(trace):
    job, step = trace.plan["job"], next(row for row in trace.rows("traffic") if row["phase"] == "step")
    return [f"{job['node_count']} nodes x {job['ranks_per_node']} ranks, {job['parameters']:.4g} parameters, "
            f"{job['tokens_per_step']:.0f} tokens per step",
            *(f"sent {name} in a step: {step[f'bytes_{link}_node']} bytes, {step[f'messages_{link}_node']} messages"
              for link, name in zip(LINKS, ("inside nodes", "between nodes"))),
            f"memory of a rank: {bytes_text(job['memory_bytes'])}"]


def plan_search(trace):
    return [f"{row['nodes']} nodes x {row['ranks_per_node']} ranks: {row['considered']} combinations, "
            f"{row['possible']} possible, "
            f"{row['fitting']} within the limits"
            for row in trace.rows("searches")] + [f"{len(trace.rows('candidates'))} that no other beats"]


def plan_time(trace):
    time = trace.plan["time"]
    return [f"step on {time['cluster']}: {1e3 * time['step_seconds']:.3f} ms, {time['tokens_per_second']:.4g} "
            f"tokens/s, {time['mfu']:.1%} of the peak",
            f"exposed: {1e3 * time['exposed_seconds']:.3f} ms; bound by {time['bound']}"]


def break_even(trace):
    shown = lambda row: {0: "never", FASTEST_LINK: "always"}.get(row["link_rate"],
                                                                 f"below {8e-9 * row['gpu_rate']:.4g} Gbit/s a GPU")
    return [f"{row['feature']} pays {shown(row)}; here {row['speedup']:.3g} times as fast"
            for row in trace.rows("break_even")[1:]]


def comparison(trace):
    return [f"{row['feature']}: {row['reduction']:.4g} times fewer bytes out of a node, {bytes_text(row['memory'])} a "
            f"rank"
            + ("" if math.isnan(row["speedup"]) else f", {row['speedup']:.3g} times as fast")
            for row in trace.rows("comparison")[1:]]


SUMMARIES = {"train": train, "sweep": sweep, "fabric": fabric, "kernels": kernels, "converge": converge, "plan": plan,
             "plan search": plan_search, "plan time": plan_time, "plan breakeven": break_even,
             "plan compare": comparison}


def lines_of(trace):
    """Lines that sum up a trace without problems of schema."""
    return SUMMARIES[trace.app](trace)
