"""Predicted over known: published throughputs and own steps, those that constants were fitted on hollow. Used by
planner.py."""


def draw(rows, traces, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
             "grid.color": "#e4e4e4",
             "axes.axisbelow": True}
    with matplotlib.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
        for engine, color in (("zero3", "#444444"), ("zeropp", "#cc3377")):
            scatter(left, [(row.published, row.predicted, row.fitted) for row in rows if row.engine == engine], color,
                    {"zero3": "ZeRO-3", "zeropp": "ZeRO++"}[engine])
        band(left, 5, 65, 0.12)
        left.set(title="24 x 16 V100, published TFLOPS a GPU", xlabel="published", ylabel="predicted")
        colors = {"one node": "#0072b2", "emulated nodes": "#e69f00", "offload to the host": "#009e73"}
        for kind, color in colors.items():
            some = [(trace.measured * 1e3, trace.predicted * 1e3, trace.fitted) for trace in traces
                    if next((one for one in colors if trace.kind.startswith(one)), "one node") == kind]
            scatter(right, some, color, kind)
        band(right, 120, 6000, 0.10)
        right.set(title="1 to 8 H200, ms a step", xlabel="measured", ylabel="predicted", xscale="log", yscale="log")
        figure.suptitle("zpp_plan time (filled: predicted; hollow: constants were fitted on it; band: aim)",
                        fontweight="bold")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def scatter(axes, points, color, label):
    for fitted in (False, True):
        some = [point for point in points if point[2] == fitted]
        axes.scatter([point[0] for point in some], [point[1] for point in some], s=26, edgecolors=color,
                     facecolors="none" if fitted else color, label=None if fitted else label)
    axes.legend(frameon=False)


def band(axes, low, high, share):
    ends = [low, high]
    axes.plot(ends, ends, color="#888888", linewidth=0.8)
    axes.fill_between(ends, [end * (1 - share) for end in ends], [end * (1 + share) for end in ends],
                      color="#dddddd", zorder=0)
