"""The picture of a study over emulated networks: the time of a step over the rate, measured and by the model, and the
speed-up over the baseline. A row of panels for each number of hosts. Runs that were disturbed are hollow. Used by
network_table.py, whose rows it draws.
"""

COLORS = ["#444444", "#999999", "#8b5a2b", "#0072b2", "#e69f00", "#009e73", "#cc3377", "#56b4e9"]


def draw(study, rows, baseline, paths):
    """Writes the picture to each of `paths`; the suffix says the format."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
             "grid.color": "#e4e4e4", "axes.axisbelow": True, "svg.hashsalt": study["study"]}
    rates = list(dict.fromkeys(row.rate for row in rows))
    hosts = list(dict.fromkeys(row.hosts for row in rows))
    names = list(dict.fromkeys(row.who for row in rows))
    with matplotlib.rc_context(style):
        height = 3.6 * len(hosts) + 0.6
        space = 0.6 / height  # for the legend
        figure, panels = plt.subplots(len(hosts), 2, figsize=(11, height), layout="constrained", squeeze=False)
        for (times, speedups), count in zip(panels, hosts):
            for name, color in zip(names, COLORS):
                here = [row for row in rows if row.hosts == count and row.who == name]
                curve(times, speedups, here, rates, name, color)
            ranks = next(row.entry["ranks_per_host"] for row in rows if row.hosts == count)
            times.set(title=f"Time of a step, {count} emulated hosts x {ranks} ranks", ylabel="ms", yscale="log")
            speedups.set(title=f"Speed-up over {baseline} at the same rate", ylabel="times")
            for axes in (times, speedups):
                axes.set_xticks(range(len(rates)), rates)
        figure.get_layout_engine().set(rect=(0, space, 1, 1 - space))
        figure.legend(*panels[0][0].get_legend_handles_labels(), frameon=False, ncols=8, loc="lower center",
                      title="points: measured, median and 95 % interval, hollow where disturbed; lines: "
                      "bandwidth model")
        figure.suptitle(f"{study['study']} (hosts emulated on one machine)", fontweight="bold")
        for path in paths:
            figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def curve(times, speedups, rows, rates, name, color):
    for disturbed in (False, True):
        some = [row for row in rows if row.disturbed == disturbed]
        median = [row.times.median * 1e3 for row in some]
        spread = [[(row.times.median - row.times.low) * 1e3 for row in some],
                  [(row.times.high - row.times.median) * 1e3 for row in some]]
        times.errorbar([rates.index(row.rate) for row in some], median, yerr=spread, color=color, marker="o",
                       markersize=4,
                       markerfacecolor="none" if disturbed else color, linestyle="none", capsize=2,
                       label=None if disturbed else name)
    place = [rates.index(row.rate) for row in rows]
    modelled = [(where, row) for where, row in zip(place, rows) if row.model is not None]
    times.plot([where for where, _ in modelled], [row.model * 1e3 for _, row in modelled], color=color, linewidth=1)
    related = [(where, row) for where, row in zip(place, rows) if row.speedup is not None]
    speedups.plot([where for where, _ in related], [row.speedup for _, row in related], color=color, marker="o",
                  markersize=4, linestyle="none")
    expected = [(where, row) for where, row in zip(place, rows) if row.model_speedup is not None]
    speedups.plot([where for where, _ in expected], [row.model_speedup for _, row in expected], color=color,
                  linewidth=1)
