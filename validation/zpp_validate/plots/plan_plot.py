"""Pictures of what zpp_plan said: memory, bytes across nodes, and the timeline of one step.

usage: zpp-validate plan-plot FILE... --output DIR

FILE is a JSON of zpp_plan estimate or zpp_plan time (--json). Written as PNG and SVG, whatever the files give:

  DIR/memory         of a rank, a bar a FILE of estimate, its parts stacked
  DIR/scaling        bytes that leave a node in a step, over the number of nodes: a line for each configuration that is
                     the same but for the nodes and the batch that follows from them
  DIR/NAME-timeline  of each FILE of time (NAME is its name without .json): a lane a stream, a bar an operation

Exit codes: 0 well, 2 a FILE cannot be read or is no such JSON, 5 cannot write.
"""

import json
import os
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from zpp_validate import command_line
from zpp_validate.pictures import COLORS, LINES, STYLE, save
from zpp_validate.problem import Unfit, reading
from zpp_validate.readers import measurement, run_file

# Entries of the configuration that follow from the number of nodes.
FOLLOWS = {"plan.nodes", "train_batch_size"}
GIB, GB = 2**30, 1e9


def memory_of(plan):
    """[(part, bytes)] of a rank, those that take any."""
    return [(name, size) for name, size in zip(plan["memory"]["name"], plan["memory"]["bytes"], strict=True)
            if size and not name.startswith("offloaded_")]


def leaves_a_node(plan):
    """(nodes, bytes that leave each in an ordinary step)."""
    nodes = plan["job"]["node_count"]
    sent = dict(zip(plan["traffic"]["phase"], plan["traffic"]["bytes_inter_node"], strict=True))
    return nodes, sent["step"] / nodes


def lines_of(plans):
    """{name: [(nodes, bytes), ...]} of plans {stem: plan}: those of one configuration are a line, named by what all
    their stems begin with, without a number at the end."""
    groups = {}
    for stem, plan in plans.items():
        same = {key: value for key, value in measurement.flat(plan["config"]) if key not in FOLLOWS}
        groups.setdefault(json.dumps(same, sort_keys=True), {})[stem] = leaves_a_node(plan)
    lines = {}
    for stems in groups.values():
        common = re.sub(r"[-_.][0-9]*$", "", os.path.commonprefix(list(stems))) if len(stems) > 1 else next(iter(stems))
        lines[common if common and common not in lines else " ".join(stems)] = sorted(stems.values())
    return lines


def lanes_of(plan):
    """{stream: [(operation, begin, length), ...]} in seconds, streams in the order in which they begin."""
    rows, lanes = plan["timeline"], {}
    for stream, operation, begin, end in zip(*(rows[name] for name in ("stream", "operation", "begin", "end")),
                                             strict=True):
        lanes.setdefault(stream, []).append((operation, begin, end - begin))
    return lanes


def look_of(index):
    """Colours, and beyond them the same ones hatched."""
    return {"facecolor": COLORS[index % len(COLORS)], "edgecolor": "white", "hatch": "///" * (index // len(COLORS))}


def draw_memory(plans, stem):
    figure, axes = plt.subplots(figsize=(10, 1.6 + 0.4 * len(plans)), layout="constrained")
    parts = list(dict.fromkeys(name for plan in plans.values() for name, _ in memory_of(plan)))
    begins = dict.fromkeys(plans, 0.0)
    for index, part in enumerate(parts):
        sizes = [dict(memory_of(plan)).get(part, 0) / GIB for plan in plans.values()]
        axes.barh(list(plans), sizes, left=list(begins.values()), label=part, linewidth=0.3, **look_of(index))
        begins = {name: begin + size for (name, begin), size in zip(begins.items(), sizes)}
    for name, end in begins.items():
        axes.text(end, name, f" {end:.2f}", va="center", fontsize="small")
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * max(begins.values()))
    axes.set(title="Memory of a rank", xlabel="GiB")
    axes.grid(axis="y")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, stem)


def draw_scaling(plans, stem):
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    lines = lines_of(plans)
    for index, (name, points) in enumerate(lines.items()):
        nodes, sent = zip(*points)
        axes.plot(nodes, [each / GB for each in sent], marker="o", markersize=4, label=name,
                  color=COLORS[index % len(COLORS)],
                  linestyle=LINES[index // len(COLORS) % len(LINES)])
    axes.set_xscale("log", base=2)
    counts = sorted({nodes for points in lines.values() for nodes, _ in points})
    axes.set_xticks(counts, counts)
    axes.minorticks_off()
    axes.set(title="Sent out of each node in a step", xlabel="nodes", ylabel="GB (10\u2079 bytes)", ylim=(0, None))
    axes.legend(frameon=False)
    save(figure, stem)


def draw_lanes(axes, lanes):
    operations = list(dict.fromkeys(operation for rows in lanes.values() for operation, _, _ in rows))
    for place, rows in enumerate(lanes.values()):
        for operation in dict.fromkeys(row[0] for row in rows):
            spans = [(1e3 * begin, 1e3 * length) for name, begin, length in rows if name == operation]
            axes.broken_barh(spans, (place - 0.4, 0.8), linewidth=0, **look_of(operations.index(operation)))
    handles = [plt.Rectangle((0, 0), 1, 1, **look_of(index)) for index in range(len(operations))]
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.invert_yaxis()
    axes.grid(axis="y")
    axes.set(xlabel="ms", xlim=(0, None))
    axes.legend(handles, operations, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def title_of(plan, name):
    return f"{name}: one step, {1e3 * plan['time']['step_seconds']:.2f} ms, {plan['time']['cluster']}"


def draw_timeline(plan, name, stem):
    lanes = lanes_of(plan)
    figure, axes = plt.subplots(figsize=(13, 1.6 + 0.45 * len(lanes)), layout="constrained")
    draw_lanes(axes, lanes)
    axes.set(title=title_of(plan, name))
    save(figure, stem)


def read(path):
    plan = run_file.read(path)
    with reading(path, "JSON of zpp_plan estimate or time", "name what --json wrote"):
        if plan["app"] != "plan":
            raise Unfit(f"its app is {json.dumps(plan['app'])}")
        if "timeline" in plan:
            lanes_of(plan)
            title_of(plan, path.stem)
        else:
            lines_of({path.stem: plan})
            memory_of(plan)
    return plan


def draw(plans, folder):
    """Returns the names of the pictures."""
    estimates = {stem: plan for stem, plan in plans.items() if "timeline" not in plan}
    jobs = {"memory": (draw_memory, estimates), "scaling": (draw_scaling, estimates)} if estimates else {}
    with matplotlib.rc_context(STYLE | {"text.parse_math": False}):
        for name, (picture, chosen) in jobs.items():
            picture(chosen, folder / name)
        for stem, plan in plans.items():
            if "timeline" in plan:
                draw_timeline(plan, stem, folder / f"{stem}-timeline")
    return [*jobs, *(f"{stem}-timeline" for stem, plan in plans.items() if "timeline" in plan)]


def main(words):
    parser = command_line.parser("plan-plot", __doc__)
    parser.add_argument("files", type=command_line.InputFile, nargs="+", metavar="FILE",
                        help="JSON of zpp_plan estimate or time")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args(words)
    if len({path.stem for path in arguments.files}) < len(arguments.files):
        parser.error("two FILEs have the same name, and so would their bars: rename one")
    plans = {path.stem: read(path) for path in arguments.files}
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in draw(plans, arguments.output):
        print(arguments.output / f"{name}.png")
    return 0
