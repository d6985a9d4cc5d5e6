"""The picture of a study: a bar a run for the time of a step, and for what it sent inside nodes and between them,
counted and predicted. Used by jobscripts/study.py collect; rows are those of study_table.py.
"""

COLORS = {"time": "#444444", "inter": "#0072b2", "intra": "#9ecae1"}
NAMES = {"inter": "between nodes", "intra": "inside nodes"}


def draw(title, rows, paths):
    """Writes the picture to each of `paths`; the suffix says the format. A run without a trace is an empty line."""
    import matplotlib.pyplot as plt

    from zpp_validate.pictures import STYLE

    with plt.rc_context(STYLE | {"svg.hashsalt": title}):
        figure, (times, volume) = plt.subplots(1, 2, sharey=True, figsize=(11, 2.1 + 0.32 * len(rows)),
                                               layout="constrained")
        draw_times(times, rows)
        draw_bytes(volume, rows)
        times.set_yticks(range(len(rows)), [row.name for row in rows])
        times.invert_yaxis()
        handles, labels = volume.get_legend_handles_labels()
        if handles:
            below = 0.3 / figure.get_figheight()
            figure.get_layout_engine().set(rect=(0, below, 1, 1 - below))
            figure.legend(handles, labels, loc="lower right", frameon=False, ncols=3)
        emulated = " (nodes emulated)" if any(row.emulated for row in rows) else ""
        figure.suptitle(f"{title}{emulated}", fontweight="bold")
        for path in paths:
            figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def draw_times(axes, rows):
    for place, row in enumerate(rows):
        if row.times is None:
            continue
        times = row.times
        spread = [[(times.median - times.low) * 1e3], [(times.high - times.median) * 1e3]]
        axes.barh(place, times.median * 1e3, height=0.6, color=COLORS["time"], xerr=spread,
                  error_kw={"ecolor": "#cc3377", "capsize": 2})
    axes.set(title="Time of a step: median, 95 % interval", xlabel="ms")


def draw_bytes(axes, rows):
    complete = [(place, row) for place, row in enumerate(rows) if row.counted]
    places = [place for place, _ in complete]
    left = [0.0] * len(complete)
    for link, name in NAMES.items():
        counted = [row.counted[link] / 1e6 for _, row in complete]
        axes.barh(places, counted, left=left, height=0.6, color=COLORS[link], label=name)
        left = [a + b for a, b in zip(left, counted)]
    total = [sum(row.predicted.values()) / 1e6 for _, row in complete]
    axes.plot(total, places, linestyle="none", marker="|", markersize=14, color="black", label="predicted, both")
    axes.set(title="Sent a step, over all ranks", xlabel="MB (10$^6$ bytes)")
