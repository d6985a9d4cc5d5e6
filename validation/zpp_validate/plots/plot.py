"""Pictures of a sweep over collectives: bandwidth over size for each codec, and from which size on a codec pays.

usage: zpp-validate plot FILE... --output DIR [--place out-of-place|in-place]

FILE is the JSON of zpp_sweep; that of nccl-tests has no codecs and gives a line of bandwidth. For each collective,
group, type and so on of each FILE (its name without .json begins the names of what is written, as PNG and SVG):

  NAME-bandwidth  bus bandwidth over size, effective (uncompressed bytes) and wire (bytes sent), a line a codec and
                  algorithm; the band is the 95 % interval of the median time
  NAME-speed-up   how many times faster than the fastest uncompressed algorithm at that size: size x codec and algorithm

and DIR/crossings.md, which is printed too: the size from which each codec pays, with its 95 % interval. Exits with 2
when a file cannot be read.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import TwoSlopeNorm

from zpp_validate import command_line
from zpp_validate.pictures import COLORS, LINES, save
from zpp_validate.plots import crossings
from zpp_validate.problem import Unfit, reading
from zpp_validate.readers import run_file, sweep_file
from zpp_validate.stats import bootstrap, sample_statistics
from zpp_validate.tables import markdown_table

COLUMNS = ("collective", "codec", "algorithm", "pays from", "95 % interval", "speed-up at", "times")
TEXT_COLUMNS = {"collective", "codec", "algorithm"}
RESAMPLES, SEED = 4000, 1
plt.rcParams["svg.hashsalt"] = "zeropp"  # the same picture, the same bytes

LEGEND = f"""pays from: the size above which the codec is faster than the fastest uncompressed algorithm, up to the \
largest one measured;
between measured sizes the logarithm of the ratio of median times is interpolated. interval: 2.5 % to 97.5 % of \
{RESAMPLES} bootstrap
resamples (seed {SEED}). speed-up: over that algorithm at the largest size. <= and > name the ends of what was measured.
"""


def size_axis(axes, sizes):
    """Powers of two in bytes, no more labels than fit."""
    axes.set_xscale("log", base=2)
    shown = sizes[:: math.ceil(len(sizes) / 8)]
    axes.set_xticks(shown, [sweep_file.bytes_text(size) for size in shown], rotation=30, ha="right")
    axes.minorticks_off()


def bandwidth(table, title, stem):
    """Draws bandwidths by the median time: the file has them by the mean. Bandwidth times time of a row is the bytes
    that it moved."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharey=True)
    codecs = sorted({series.codec for series in table.rows}, key=lambda name: (name != "none", name))
    algorithms = sorted({series.algorithm for series in table.rows})
    for axes, kind, name in zip(panels, ("bus_bw", "wire_bus_bw"), ("effective", "wire")):
        for series, rows in table.rows.items():
            points = []
            for size in sorted(rows):
                row, times = rows[size], sample_statistics.summarize(rows[size].samples)
                if getattr(row, kind) is not None:
                    moved = getattr(row, kind) * row.time
                    points.append((size, moved / times.median, moved / times.high, moved / times.low))
            if not points:
                continue
            color = COLORS[codecs.index(series.codec) % len(COLORS)]
            x, middle, low, high = zip(*points)
            axes.plot(x, middle, color=color, linestyle=LINES[algorithms.index(series.algorithm) % len(LINES)],
                      marker="o",
                      markersize=3, label=str(series))
            axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        axes.set(title=f"{name} bus bandwidth", xlabel="size", yscale="log")
        axes.grid(alpha=0.3)
        size_axis(axes, table.sizes)
        if not axes.lines:
            axes.text(0.5, 0.5, "not in this file", transform=axes.transAxes, ha="center")
    panels[0].set_ylabel("GB/s")
    panels[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title, fontweight="bold")
    save(figure, stem)


def heat_map(table, title, stem):
    series, sizes = list(table.rows), table.sizes
    values = np.array([[table.speed_up(one, size) or math.nan for size in sizes] for one in series])
    figure, axes = plt.subplots(figsize=(2.5 + 0.75 * len(sizes), 1.8 + 0.5 * len(series)), layout="constrained")
    logs = np.log2(values)
    reach = max(float(np.nanmax(np.abs(logs))), 0.1)
    axes.imshow(logs, aspect="auto", cmap="PuOr", norm=TwoSlopeNorm(0, -reach, reach))
    for (y, x), value in np.ndenumerate(values):
        dark = abs(logs[y, x]) > 0.6 * reach
        axes.text(x, y, "-" if math.isnan(value) else f"{value:.2f}", ha="center", va="center", fontsize="small",
                  color="white" if dark else "black")
    axes.set_xticks(range(len(sizes)), [sweep_file.bytes_text(size) for size in sizes], rotation=30, ha="right")
    axes.set_yticks(range(len(series)), [str(one) for one in series])
    axes.set_title(f"{title}\ntimes faster than the fastest uncompressed", fontsize="medium")
    save(figure, stem)


def size_text(size, sizes):
    if size == 0:
        return f"<= {sweep_file.bytes_text(sizes[0])}"
    return f"> {sweep_file.bytes_text(sizes[-1])}" if math.isinf(size) else sweep_file.bytes_text(size)


def crossing_cells(table, found):
    largest = max(table.rows[found.series])
    gain = table.speed_up(found.series, largest)
    interval = "none" if found.interval is None else " to ".join(size_text(end, table.sizes) for end in found.interval)
    return [table.title, found.series.codec, found.series.algorithm, size_text(found.size, table.sizes), interval,
            sweep_file.bytes_text(largest), "-" if gain is None else f"{gain:.2f}x"]


def read(path, place):
    """(sweep, its tables of `place`)"""
    with reading(path, "sweep", "name the JSON of zpp_sweep or nccl-tests"):
        sweep = sweep_file.read_sweep(run_file.read(path))
        tables = crossings.tables(sweep.rows, place)
        if not tables:
            raise Unfit(f"no row is {place}")
    return sweep, tables


def crossing_rows(table):
    """The cells of COLUMNS for each codec and algorithm."""
    return [crossing_cells(table, found) for found in crossings.crossings(table, bootstrap.Bootstrap(RESAMPLES, SEED))]


def main(words):
    parser = command_line.parser("plot", __doc__)
    parser.add_argument("files", type=command_line.InputFile, nargs="+", metavar="FILE",
                        help="JSON of zpp_sweep or nccl-tests")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--place", choices=list(sweep_file.PLACES.values()), default="out-of-place",
                        help="[out-of-place]")
    arguments = parser.parse_args(words)
    stems = [path.stem for path in arguments.files]
    if len(set(stems)) < len(stems):
        parser.error("two FILEs have the same name, and so would their pictures: rename one")
    sweeps = [(path.stem, *read(path, arguments.place)) for path in arguments.files]
    arguments.output.mkdir(parents=True, exist_ok=True)
    lines = []
    for stem, sweep, tables in sweeps:
        cells = []
        place = f"{sweep.layout}, {arguments.place}" + ("" if sweep.verdict == "VALID" else f", {sweep.verdict}")
        for table in tables:
            title, name = f"{table.title}, {place}", f"{stem}-{table.name}"
            bandwidth(table, title, arguments.output / f"{name}-bandwidth")
            rows = crossing_rows(table)
            if rows:
                heat_map(table, title, arguments.output / f"{name}-speed-up")
            cells += rows
        listed = markdown_table.aligned(COLUMNS, cells, TEXT_COLUMNS) if cells else "no codec but `none`"
        lines += [f"## {stem}: {place}", "", listed, ""]
    text = "\n".join(lines) + "\n" + LEGEND
    print(text, end="")
    (arguments.output / "crossings.md").write_text(text)
    return 0
