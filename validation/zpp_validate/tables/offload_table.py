"""What offload gives and costs, from the runs of jobscripts/local/offload_times.sh.

usage: zpp-validate offload-table STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: the largest model that trained within the device memory with
and without offload (and that one layer more is refused); the rate of the optimizer's step on the host, in the timed
steps, beside a copy of the host's memory; each timed step beside its floors, which the note below the table explains.
Targets that are missed are told; exits with 1 where a run failed, or where steps were timed without the copy or the
link."""

import math
import statistics

from zpp_validate.readers import session_runs
from zpp_validate.tables import markdown_table

COLUMNS = ("what", "value", "target", "met")
LARGER, OF_COPY, OF_FLOOR = 3, 0.6, 1.5
LARGEST, BEYOND, STEP = "largest-", "beyond-", "step-"
COPY, LINK = "copy", "link"
NOTE = """The link's floor: the bytes of a step in each direction at the rate of that direction, the larger of the \
two. The floor of compute: the same
step without offload and then the host's update at the copy's rate, for the optimizer is compute too, and where the \
norm of all gradients clips it cannot
begin before the last of them is there; what the device's own optimizer took in the step without offload is not taken \
off. Rates of the host's
update: the bytes that it must move (gradient, master and states read, master and states written, weights of 16 bits \
written) over the median of
the time that the host had to do with it, waiting for the link included; what the link itself reads and writes in that \
memory is not counted."""


def judged(what, value, target="", met=None):
    return (what, value, target, "" if met is None else "yes" if met else "NO")


def parameters_of(run):
    return sum(run["parameter_units"]["elements"])


def memory_of(run):
    return dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))


def device_bytes(run):
    """Of the closed form, and the most that a GPU's buffers really held; the host's are not counted apart."""
    memory = memory_of(run)
    planned = sum(size for name, size in memory.items() if not name.startswith("offloaded_")
                  and name not in ("buffers_peak", "gpu_used"))
    return planned, memory.get("buffers_peak")


def named(runs, begin):
    return {name.removeprefix(begin): run for name, run in runs.items() if name.startswith(begin)}


def largest_rows(runs):
    found = named(runs, LARGEST)
    rows = []
    for device, run in found.items():
        planned, peak = device_bytes(run)
        limit = run["config"]["zeropp"]["device_memory_limit"]
        text = (f"{run['config']['zeropp']['model']['num_layers']} layers, {parameters_of(run) / 1e9:.4f} B "
                f"parameters, {planned / 1e9:.3f} GB of {limit / 1e9:.3f}"
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


def copy_of(runs):
    """Bytes a second, read + written, at best; None where it was not measured."""
    run = runs.get(COPY)
    return run and run["bytes"] / run["best"]


def link_of(runs):
    """(down, up) in bytes a second: of the GPU's link; of the host alone one place of memory to another, by one thread.
    None: not measured."""
    run = runs.get(LINK)
    if run is None:
        return None
    if "ceilings" in run:
        rates = rates_of(run)
        return rates["to host"], rates["from host"]
    return (run["bytes"] / 2 / run["best"],) * 2


def rate_rows(runs):
    copy, link = copy_of(runs), link_of(runs)
    text = "not measured"
    if copy:
        run = runs[COPY]
        text = (f"{copy / 1e9:.1f} GB/s at best, {run['bytes'] / run['median'] / 1e9:.1f} in the median; "
                f"{run['threads']} threads")
    rows = [judged("copy of the host's memory, read + written", text, met=None if copy else False)]
    text = "not measured"
    if link:
        text = f"{link[0] / 1e9:.1f} and {link[1] / 1e9:.1f} GB/s" + ("" if "ceilings" in runs[LINK]
                                                                      else " (a copy by one thread: no GPU)")
    return [*rows, judged("link to the host, and back", text, met=None if link else False)]


def offloaded_elements(run):
    """That the host updates, of a rank: of each unit's shard the ratio, in whole groups of 64."""
    ratio = run["config"]["zero_optimization"]["offload_optimizer"]["ratio"]
    return sum(min(shard, 64 * math.ceil(math.floor(ratio * shard) / 64)) for shard in run["parameter_units"]["shard"])


def narrow(run):
    """Whether weights have 16 bits."""
    return any(run["config"].get(kind, {}).get("enabled") is True for kind in ("bf16", "fp16"))


def states_of(steps):
    """Of the optimizer, which all runs share, from one whose states are in memory."""
    for run in steps.values():
        memory = memory_of(run)
        for place in ("", "offloaded_"):
            if memory.get(place + "master"):
                return memory[place + "moments"] / memory[place + "master"]
    return None


def update_bytes(run, states):
    """Of a parameter, that the host's update has to move: in fp32, and the weight of 16 bits that follows."""
    return 4 + 2 * 4 * (1 + states) + (2 if narrow(run) else 0)


def over_link(run):
    """Bytes to and from the host in a step, of a rank: gradients in fp32 once, the weights that follow once, or, where
    they stay there, for every gather."""
    elements, width = offloaded_elements(run), 2 if narrow(run) else 4
    if run["config"]["zero_optimization"]["offload_param"]["device"] == "none":
        return 4 * elements, width * elements
    units = run["parameter_units"]
    micro_steps = run["config"]["gradient_accumulation_steps"]
    gathers = sum((forward + backward) * shard for forward, backward, shard in zip(units["gathers_forward"],
                                                                                   units["gathers_backward"],
                                                                                   units["shard"]))
    return 4 * elements, width * micro_steps * gathers


def median_of(run, column):
    return statistics.median(run["steps"][column][run["warmup"]:])


def step_of(run):
    return median_of(run, "time")


def update_rows(label, run, states, copy):
    """Of the host's update where it works on memory alone."""
    each = update_bytes(run, states)
    seconds = median_of(run, "time_offload_wait")
    rate = offloaded_elements(run) * each / seconds
    text = f"{rate / 1e9:.1f} GB/s: {each:.0f} bytes a parameter in {1e3 * seconds:.1f} ms"
    what = f"{run['config']['optimizer']['type']} on the host, {label}"
    if not copy:
        return [judged(what, text)]
    return [judged(what, f"{text}; {100 * rate / copy:.0f} % of the copy", f">= {100 * OF_COPY:.0f} %",
                   rate >= OF_COPY * copy)]


def floor_rows(label, run, states, base, copy, link, judge):
    """The step beside those of its floors that are known."""
    floors, rows = [], []
    if link:
        sent, received = over_link(run)
        transfer = max(sent / link[0], received / link[1])
        floors.append(f"link {1e3 * transfer:.1f} ms ({sent / 1e9:.2f} GB there, {received / 1e9:.2f} back)")
    if base:
        floors.append(f"the step without offload {1e3 * step_of(base):.1f}")
    if copy and states is not None:
        update = offloaded_elements(run) * update_bytes(run, states) / copy
        floors.append(f"the host's update at the copy's rate {1e3 * update:.1f}")
    rows.append(judged(f"step, {label}", f"{1e3 * step_of(run):.1f} ms" + (f"; floors: {', '.join(floors)}"
                                                                           if floors else "")))
    if link and base:
        ratio = step_of(run) / max(transfer, step_of(base))
        rows.append(judged(f"step over the larger of link and step without offload, {label}", f"{ratio:.2f}x"))
        if copy and states is not None:
            ratio = step_of(run) / max(transfer, step_of(base) + update)
            rows.append(judged(f"step over the larger of link and (step without offload + host's update), {label}",
                               f"{ratio:.2f}x",
                               f"<= {OF_FLOOR}x" if judge else "", ratio <= OF_FLOOR if judge else None))
    return rows


def step_rows(runs):
    copy, link = copy_of(runs), link_of(runs)
    steps = named(runs, STEP)
    states = states_of(steps)
    rows = []
    for name, run in steps.items():
        device, micro_steps = name.rsplit("-", 1)
        label = f"offload {device}, {micro_steps} micro-steps"
        if device == "none":
            rows.append(judged(f"step, {label}", f"{1e3 * step_of(run):.1f} ms"))
            continue
        in_memory = device.startswith("cpu")
        rows += floor_rows(label, run, states, steps.get(f"none-{micro_steps}"), copy, link, in_memory)
        if in_memory:
            rows += update_rows(label, run, states, copy)
    return rows


def table_of(runs):
    steps = step_rows(runs)
    rows = [*largest_rows(runs), *(rate_rows(runs) if steps else []), *steps]
    fine = not steps or bool(copy_of(runs) and link_of(runs))
    return markdown_table.aligned(COLUMNS, rows, COLUMNS) + (f"\n\n{NOTE}" if steps else ""), fine


def main(words):
    return session_runs.main(words, "offload-table", __doc__, (), table_of, partial=True)
