"""The pictures of the HTML report, as SVG in base64: that of each trace, and one that lays training runs side by
side."""

import base64
import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from zpp_validate.pictures import COLORS, STYLE
from zpp_validate.plots import trace_plot

# Names come from files: what looks like mathematics there is text. Letters as shapes, so that no font is needed.
RULES = STYLE | {"text.parse_math": False, "svg.fonttype": "path"}
PANELS = (("loss", 1, "Training loss", "nats per token"), ("time", 1e3, "Time of a step, largest over ranks", "ms"),
          ("bytes_inter_node", 1e-6, "Sent across nodes in a step", "MB (10\u2076 bytes)"))


def encoded(figure):
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    return base64.b64encode(out.getvalue()).decode()


def of_trace(trace):
    """The picture of zpp-validate summarize, whichever program wrote the trace."""
    with matplotlib.rc_context(RULES):
        return encoded(trace_plot.figure_of(trace))


def runs_compared(runs):
    """Loss, time of a step and bytes across nodes of several training runs [(name, trace)]."""
    with matplotlib.rc_context(RULES):
        names = 0.3 + 0.2 * -(-len(runs) // 3)  # inches
        figure, axes = plt.subplot_mosaic([[column for column, *_ in PANELS], ["names"] * 3], figsize=(13, 4 + names),
                                          layout="constrained", gridspec_kw={"height_ratios": [4, names]})
        for column, scale, title, unit in PANELS:
            for index, (name, trace) in enumerate(runs):
                values, first = trace.columns["steps"][column], trace.attributes["first_step"]
                axes[column].plot(range(first, first + len(values)), scale * np.array(values),
                                  color=COLORS[index % len(COLORS)], linewidth=1, label=name)
            axes[column].set(title=title, ylabel=unit, xlabel="optimizer step")
            if column != "loss":
                axes[column].set_ylim(0, None)
        axes["names"].axis("off")
        axes["names"].legend(*axes["loss"].get_legend_handles_labels(), loc="center", ncols=3, frameon=False)
        return encoded(figure)
