"""A picture of a trace, whichever program wrote it. PNG and SVG."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from zpp_validate import pictures
from zpp_validate.convergence import converge_plot
from zpp_validate.plots import plan_plot
from zpp_validate.readers.converge_file import Study
from zpp_validate.readers.sweep_file import bytes_text
from zpp_validate.readers.trace_format import TOKEN_LEVELS


def train(trace, figure):
    steps = trace.columns["steps"]
    losses, times, volumes = figure.subplots(1, 3)
    losses.plot(steps["loss"], label="training")
    losses.plot(*(trace.columns["evaluations"][name] for name in ("step", "loss")), marker="o", markersize=3,
                linestyle="none",
                label="held-out")
    losses.set(title="Loss", ylabel="nats per token")
    losses.legend(frameon=False)
    times.plot(1e3 * np.array(steps["time"]), label="step")
    for name, label in (("time_forward", "forward"), ("time_backward", "backward"),
                        ("time_communication_exposed", "exposed communication")):
        times.plot(1e3 * np.array(steps[name]), label=label, linewidth=0.8)
    times.set(title="Time, largest over ranks", ylabel="ms", ylim=(0, None))
    times.legend(frameon=False)
    for link, name in (("intra", "inside nodes"), ("inter", "between nodes")):
        volumes.plot(1e-6 * np.array(steps[f"bytes_{link}_node"]), label=name)
        volumes.plot(1e-6 * np.array(steps[f"bytes_predicted_{link}_node"]), color="black", linestyle=":",
                     linewidth=0.8)
    volumes.set(title="Sent, over all ranks (dotted: predicted)", ylabel="MB (10\u2076 bytes)", ylim=(0, None))
    volumes.legend(frameon=False)
    for axes in (losses, times, volumes):
        axes.set_xlabel("optimizer step")


def sweep(trace, figure):
    rows = [row for row in trace.rows("results") if not row["in_place"]]
    collectives = list(dict.fromkeys((row["collective"], row["group"], row["type"]) for row in rows))
    for axes, which in zip(np.atleast_1d(figure.subplots(1, len(collectives))), collectives):
        own = [row for row in rows if (row["collective"], row["group"], row["type"]) == which]
        for way in dict.fromkeys((row["codec"], row["algorithm"]) for row in own):
            points = sorted((row["size"], row["bus_bw"]) for row in own if (row["codec"], row["algorithm"]) == way
                            and row["size"])
            axes.plot(*zip(*points), marker="o", markersize=3, label=" ".join(way))
        axes.set(title=" ".join(which), xlabel="size", ylabel="bus bandwidth (GB/s)")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda size, _: bytes_text(size))
        axes.legend(frameon=False, fontsize="small")


def fabric(trace, figure):
    ranks = trace.attributes["world_size"]
    for axes, (name, unit) in zip(figure.subplots(1, 2), (("latency", "us"), ("bandwidth", "GB/s"))):
        image = axes.imshow(np.array(trace.columns["fabric"][name]).reshape(ranks, ranks))
        axes.set(title=f"{name} ({unit})", xlabel="receiver", ylabel="sender")
        axes.grid(False)
        figure.colorbar(image, ax=axes, shrink=0.8)


def kernels(trace, figure):
    rows = trace.rows("results")
    figure.set_size_inches(9, 1.5 + 0.2 * len(rows))
    axes = figure.subplots()
    axes.barh(range(len(rows)), [row["of_limit"] for row in rows], color="#0072b2")
    axes.set_yticks(range(len(rows)), ["/".join(row[part] for part in ("kernel", "variant", "dtype", "shape"))
                                       for row in rows], fontsize=6)
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.invert_yaxis()
    axes.set(title="Share of the ceiling that limits each kernel")


def converge(trace, figure):
    study = Study(trace)
    levels = [level for level in TOKEN_LEVELS if any(setting.level == level for setting in study.settings)]
    for axes, level in zip(np.atleast_1d(figure.subplots(1, max(1, len(levels)))), levels):
        for setting in (s for s in study.settings if s.level == level and not s.diverged):
            steps, curves = converge_plot.curves_of(setting)
            axes.plot(steps, np.mean(curves, axis=0), label=setting.name)
        axes.set(title=f"{level}: held-out loss, mean over seeds", xlabel="optimizer step", ylabel="nats per token")
        axes.legend(frameon=False, fontsize=6)


def plan(trace, figure):
    traffic, memory = figure.subplots(1, 2)
    phases = [row for row in trace.rows("traffic") if row["phase"] in ("forward", "backward", "update", "step")]
    for offset, (link, name) in enumerate((("intra", "inside nodes"), ("inter", "between nodes"))):
        traffic.bar([index + 0.4 * offset for index, _ in enumerate(phases)],
                    [1e-9 * row[f"bytes_{link}_node"] for row in phases], 0.4, label=name)
    traffic.set_xticks([index + 0.2 for index, _ in enumerate(phases)], [row["phase"] for row in phases])
    traffic.set(title="Sent in a step, over all ranks", ylabel="GB (10\u2079 bytes)")
    traffic.legend(frameon=False)
    parts = [row for row in trace.rows("memory") if row["bytes"]]
    memory.barh([row["name"] for row in parts], [row["bytes"] / 2**30 for row in parts])
    memory.invert_yaxis()
    memory.set(title="Memory of a rank", xlabel="GiB")


def plan_search(trace, figure):
    axes, rows = figure.subplots(), trace.rows("candidates")
    timed = not any(np.isnan(row["seconds"]) for row in rows)
    for nodes in sorted({row["nodes"] for row in rows}):
        own = [row for row in rows if row["nodes"] == nodes]
        axes.plot([row["memory"] / 2**30 for row in own],
                  [row["seconds"] if timed else 1e-9 * row["bytes_inter_node"] / nodes for row in own],
                  marker="o", markersize=3, linestyle="none", label=f"{nodes} nodes")
    axes.set(title="Configurations that no other beats", xlabel="GiB of a rank", ylabel="s a step" if timed
             else "GB out of a node in a step")
    axes.legend(frameon=False)


def plan_time(trace, figure):
    plan_plot.draw_lanes(figure.subplots(), plan_plot.lanes_of(trace.columns))


def break_even(trace, figure):
    axes, rows = figure.subplots(), [row for row in trace.rows("break_even") if row["gpu_rate"] > 0]
    axes.barh([row["feature"] for row in rows], [8e-9 * row["gpu_rate"] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda rate, _: f"{rate:g}")
    axes.xaxis.set_minor_formatter(lambda rate, _: "")
    axes.set(title="Bandwidth a GPU between nodes, below which each part pays", xlabel="Gbit/s")


def comparison(trace, figure):
    bars, rows = figure.subplots(1, 2), trace.rows("comparison")
    timed = not any(np.isnan(row["step_seconds"]) for row in rows)
    second = [1e3 * row["step_seconds"] if timed else row["memory"] / 2**30 for row in rows]
    for axes, values, title, unit in ((bars[0], [1e-9 * row["bytes_out_of_node"] for row in rows],
                                       "Out of a node in a step", "GB (10\u2079 bytes)"),
                                      (bars[1], second, *(("Step", "ms") if timed else ("Memory of a rank", "GiB")))):
        axes.barh([row["feature"] for row in rows], values)
        axes.invert_yaxis()
        axes.set(title=title, xlabel=unit)


PICTURES = {"train": train, "sweep": sweep, "fabric": fabric, "kernels": kernels, "converge": converge, "plan": plan,
            "plan search": plan_search, "plan time": plan_time, "plan breakeven": break_even,
            "plan compare": comparison}


def figure_of(trace):
    """Figure of a trace without problems of schema; in the caller's rc_context."""
    figure = plt.figure(figsize=(13, 4.2), layout="constrained")
    PICTURES[trace.app](trace, figure)
    figure.suptitle(f"zpp_{trace.app}, {trace.attributes['started_at']}", fontweight="bold")
    return figure


def draw(trace, stem):
    """Writes STEM.png and STEM.svg of a trace without problems of schema."""
    with matplotlib.rc_context(pictures.STYLE):
        pictures.save(figure_of(trace), stem)
