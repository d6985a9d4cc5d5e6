"""Bits per weight that exact weight differences took, over the steps of training runs.

usage: zpp-validate exact-bits RUN... [--output TABLE.md] [--plot STEM]

RUN is a trace of zpp_train with --exact-differences, or its JSON. The bits are those of the images that ranks agreed on
(/exact_differences), over all units, by the closed form of lib/trace/README.md. A row is the exchange of what so many
steps had made of the weights; a column is a run. A cell "-": the run sent whole weights there, or had ended. Prints
Markdown and writes it to TABLE.md, and a picture to STEM.png and STEM.svg, which needs matplotlib. Exits with 2 when a
RUN has no exchange of exact differences.
"""

from pathlib import Path
from typing import NamedTuple

from zpp_validate import command_line
from zpp_validate.forms.wire import exact_bytes
from zpp_validate.problem import Problem
from zpp_validate.readers import run_file
from zpp_validate.tables import markdown_table

SIZES = ((1e9, 2, "B"), (1e6, 0, "M"), (1e3, 0, "k"))  # unit, digits after the point, letter


class Bits(NamedTuple):
    name: str  # parameters, and learning rate
    by_step: dict  # bits per weight by the steps before the exchange


def name_of(run, units):
    """Parameters and learning rate."""
    config, count = run["config"], sum(units["elements"])
    rate = f"{config['optimizer']['params']['lr']:g}"
    schedule = config.get("scheduler", {}).get("type", "constant")
    size = next((f"{count / unit:.{digits}f} {letter}" for unit, digits, letter in SIZES if count >= unit), str(count))
    return f"{size}, {rate}{'' if schedule == 'constant' else ', ' + schedule}"


def read(path):
    run = run_file.read(path)
    rows, units = run.get("exact_differences"), run.get("parameter_units", run.get("units"))
    if not rows or not rows["step"]:
        raise Problem(f"{path} has no exchange of exact differences: name a run of zpp_train with "
                      "--exact-differences, of several steps")
    shards, sent, held = units["shard"], {}, {}
    ahead = run["config"]["zero_optimization"]["stage"] < 3  # a step sends what it has updated itself
    for step, unit, width, escapes in zip(rows["step"], rows["unit"], rows["width"], rows["escapes"]):
        step += ahead
        sent[step] = sent.get(step, 0) + exact_bytes(shards[unit], width, escapes)
        held[step] = held.get(step, 0) + shards[unit]
    return Bits(name_of(run, units), {step: 8 * sent[step] / held[step] for step in sent})


def steps_to_show(runs):
    """1, 2, 5, 10, ... and the last step of each run."""
    last = max(max(run.by_step) for run in runs)
    round_ = {digit * 10**power for digit in (1, 2, 5) for power in range(7) if digit * 10**power <= last}
    return sorted(round_ | {max(run.by_step) for run in runs})


def table(runs):
    rows = [[str(step), *(f"{run.by_step[step]:.2f}" if step in run.by_step else "-" for run in runs)]
            for step in steps_to_show(runs)]
    return markdown_table.aligned(["after step", *(run.name for run in runs)], rows, set())


def draw(runs, stem):
    import matplotlib.pyplot as plt
    from zpp_validate.pictures import COLORS, LINES, STYLE, save

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        for number, run in enumerate(runs):
            axes.plot(run.by_step.keys(), run.by_step.values(), LINES[number // len(COLORS) % len(LINES)],
                      color=COLORS[number % len(COLORS)], linewidth=1.2, label=run.name)
        axes.set(xlabel="optimizer step", ylabel="bits per weight between nodes", ylim=(0, None), xscale="log")
        axes.legend(frameon=False, title="parameters, learning rate", fontsize=8)
        save(figure, stem)


def main(words):
    parser = command_line.parser("exact-bits", __doc__)
    parser.add_argument("runs", nargs="+", type=command_line.InputFile, metavar="RUN",
                        help="trace or JSON of zpp_train with --exact-differences")
    parser.add_argument("--output", type=Path, metavar="TABLE.md")
    parser.add_argument("--plot", type=Path, metavar="STEM", help="picture, without its suffix")
    options = parser.parse_args(words)
    runs = [read(path) for path in options.runs]
    text = table(runs)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    if options.plot:
        draw(runs, options.plot)
