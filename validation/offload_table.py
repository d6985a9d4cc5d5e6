#!/usr/bin/env python3
"""What offload gives and costs, from the runs of jobscripts/local/offload_times.sh.

usage: offload_table.py STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: the largest model that trained within the device memory with and without offload (and
that one layer more is refused); the optimizer's step on the host beside a copy of the host's memory; each timed step beside its
floors: the bytes that go over the link at the link's rate, each direction by itself, and the same step without offload. Targets that
are missed are told; exits with 1 where a run failed or is missing."""

import statistics
import sys

import markdown_table
import session_runs

COLUMNS = ("what", "value", "target", "met")
LARGER, OF_COPY, OF_FLOOR = 3, 0.6, 1.5
LARGEST, BEYOND, STEP = "largest-", "beyond-", "step-"
HOST_MEMORY, LINK = "host-memory", "link"


def judged(what, value, target="", met=None):
    return (what, value, target, "" if met is None else "yes" if met else "NO")


def parameters_of(run):
    return sum(run["parameter_units"]["elements"])


def device_bytes(run):
    """Of the closed form, and the most that a GPU's buffers really held; the host's are not counted apart."""
    memory = dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))
    planned = sum(size for name, size in memory.items() if not name.startswith("offloaded_") and name not in ("buffers_peak", "gpu_used"))
    return planned, memory.get("buffers_peak")


def named(runs, begin):
    return {name.removeprefix(begin): run for name, run in runs.items() if name.startswith(begin)}


def largest_rows(runs):
    found = named(runs, LARGEST)
    rows = []
    for device, run in found.items():
        planned, peak = device_bytes(run)
        limit = run["config"]["zeropp"]["device_memory_limit"]
        text = (f"{run['config']['zeropp']['model']['num_layers']} layers, {parameters_of(run) / 1e9:.4f} B parameters, {planned / 1e9:.3f} GB of {limit / 1e9:.3f}"
                + (f", {peak / 1e9:.3f} at once" if peak is not None else ""))
        if BEYOND + device in runs:
            text += "; one layer more is refused"
        rows.append(judged(f"largest model, offload {device}", text))
    if "none" in found:
        for device, run in found.items():
            if device != "none":
                ratio = parameters_of(run) / parameters_of(found["none"])
                rows.append(judged(f"the same, {device} over none", f"{ratio:.2f}x", f">= {LARGER}x", ratio >= LARGER))
    return rows


def rates_of(run):
    return dict(zip((row["name"] for row in run["ceilings"]), (row["rate"] for row in run["ceilings"])))


def adamw_rate(run):
    """(bytes a second, bytes of an element) of the optimizer's step on the host."""
    (row,) = [row for row in run["rows"] if row["kernel"] == "adamw"]
    seconds = 1e-6 * row["time"]
    moved = row["read"] + row["written"]
    return moved / seconds, moved / int(row["shape"])


def host_rows(run):
    rate, _ = adamw_rate(run)
    rates = rates_of(run)
    copy = max(rates["copy"], rates["copy again"])
    return [judged("copy of the host's memory, read + written", f"{copy / 1e9:.1f} GB/s, {run['threads']} threads; the better of two"),
            judged("AdamW there", f"{rate / 1e9:.1f} GB/s: {100 * rate / copy:.0f} % of the copy", f">= {100 * OF_COPY:.0f} %", rate >= OF_COPY * copy)]


def link_of(runs):
    """(down, up) in bytes a second: of the GPU's link; of the host alone one place of memory to another, by one thread."""
    if LINK in runs:
        rates = rates_of(runs[LINK])
        return rates["to host"], rates["from host"]
    return (rates_of(runs[HOST_MEMORY])["memcpy"],) * 2


def over_link(run):
    """Bytes to and from the host in a step, of a rank: gradients in fp32 once, the weights that follow once, or, where they stay there, for
    every gather."""
    memory = dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))
    elements = memory.get("offloaded_master", 0) // 4
    width = 4 if run["config"].get("bf16", {}).get("enabled") is not True and run["config"].get("fp16", {}).get("enabled") is not True else 2
    if run["config"]["zero_optimization"]["offload_param"]["device"] == "none":
        return 4 * elements, width * elements
    units = run["parameter_units"]
    micro_steps = run["config"]["gradient_accumulation_steps"]
    gathers = sum((forward + backward) * shard for forward, backward, shard in zip(units["gathers_forward"], units["gathers_backward"], units["shard"]))
    return 4 * elements, width * micro_steps * gathers


def median_of(run, column):
    return statistics.median(run["steps"][column][run["warmup"]:])


def step_of(run):
    return median_of(run, "time")


def step_rows(runs):
    down, up = link_of(runs)
    _, element_bytes = adamw_rate(runs[HOST_MEMORY])
    rate, _ = adamw_rate(runs[HOST_MEMORY])
    rows = []
    steps = named(runs, STEP)
    for name, run in steps.items():
        device, micro_steps = name.rsplit("-", 1)
        label = f"step, offload {device}, {micro_steps} micro-steps"
        if device == "none":
            rows.append(judged(label, f"{1e3 * step_of(run):.1f} ms"))
            continue
        sent, received = over_link(run)
        transfer = max(sent / down, received / up)
        update = dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))["offloaded_master"] / 4 * element_bytes / rate
        text = (f"{1e3 * step_of(run):.1f} ms, {1e3 * median_of(run, 'time_offload_wait'):.1f} of them with the host's update; floors: link {1e3 * transfer:.1f} ({sent / 1e9:.2f} GB there, {received / 1e9:.2f} back), "
                f"AdamW on the host {1e3 * update:.1f}")
        base = steps.get(f"none-{micro_steps}")
        if base is None:
            rows.append(judged(label, text))
            continue
        floor = max(transfer, step_of(base))
        ratio = step_of(run) / floor
        to_memory = device.startswith("cpu")
        rows.append(judged(label, f"{text}, without offload {1e3 * step_of(base):.1f}: {ratio:.2f}x the larger of link and that",
                           f"<= {OF_FLOOR}x" if to_memory else "", ratio <= OF_FLOOR if to_memory else None))
    return rows


def table_of(runs):
    down, up = link_of(runs)
    link = judged("link to the host, and back", f"{down / 1e9:.1f} and {up / 1e9:.1f} GB/s" + ("" if LINK in runs else " (one memcpy: no GPU)"))
    rows = [*largest_rows(runs), *host_rows(runs[HOST_MEMORY]), link, *step_rows(runs)]
    return markdown_table.aligned(COLUMNS, rows, COLUMNS), True


if __name__ == "__main__":
    sys.exit(session_runs.main("offload_table", __doc__, (HOST_MEMORY,), table_of, partial=True))
