"""The pictures of the HTML report, as SVG documents in memory: that of each trace, and those that lay training runs
side by side."""

import io
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from zpp_validate.convergence.converge_plot import COLORS, STYLE
from zpp_validate.plots import trace_plot
from zpp_validate.reports import html_page

# Names come from files: what looks like mathematics there is text. Letters as shapes, so that no font is needed.
RULES = STYLE | {"text.parse_math": False, "svg.fonttype": "path"}
PARTS = (("time_forward", "forward", "#0072b2"), ("time_backward", "backward", "#009e73"))


def svg(figure):
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    return out.getvalue()


def of_trace(trace):
    """The picture that summarize.py draws, whichever program wrote the trace."""
    with matplotlib.rc_context(RULES):
        return html_page.picture(svg(trace_plot.figure_of(trace)), f"Plots of this trace of zpp_{trace.app}")


def runs_compared(runs):
    """Loss, time of a step and bytes across nodes of several training runs [(name, trace)]."""
    with matplotlib.rc_context(RULES):
        names = 0.3 + 0.2 * -(-len(runs) // 3)  # inches
        figure, axes = plt.subplot_mosaic([["loss", "time", "sent"], ["names"] * 3], figsize=(13, 4 + names),
                                          layout="constrained",
                                          gridspec_kw={"height_ratios": [4, names]})
        panels = [axes[name] for name in ("loss", "time", "sent")]
        for index, (name, trace) in enumerate(runs):
            steps, color = trace.columns["steps"], COLORS[index % len(COLORS)]
            first = trace.attributes["first_step"]
            for panel, column, scale in zip(panels, ("loss", "time", "bytes_inter_node"), (1, 1e3, 1e-6)):
                x = np.arange(first, first + len(steps[column]))
                panel.plot(x, scale * np.array(steps[column]), color=color, linewidth=1, label=name)
        for panel, title, unit in zip(panels, ("Training loss", "Time of a step, largest over ranks",
                                               "Sent across nodes in a step"),
                                      ("nats a token", "ms", "MB (10\u2076 bytes)")):
            panel.set(title=title, ylabel=unit, xlabel="optimizer step")
        for panel in panels[1:]:
            panel.set_ylim(0, None)
        axes["names"].axis("off")
        axes["names"].legend(*panels[0].get_legend_handles_labels(), loc="center", ncols=3, frameon=False)
        return html_page.picture(svg(figure), "Loss, time per step and bytes across nodes of the training runs, "
                                 "over steps")


def one_step(trace):
    """The median step as far as the trace has it: lengths are recorded, beginnings are not. None where no step was
    taken."""
    taken = [row for row in trace.rows("steps") if not row["skipped"]]
    if not taken:
        return None
    time, exposed = (1e3 * statistics.median(row[name] for row in taken)
                     for name in ("time", "time_communication_exposed"))
    with matplotlib.rc_context(RULES):
        figure, axes = plt.subplots(figsize=(13, 2.2), layout="constrained")
        axes.barh("step", time, color="#444444")
        begin = 0.0
        for name, label, color in PARTS:
            length = 1e3 * statistics.median(row[name] for row in taken)
            axes.barh("compute", length, left=begin, color=color, label=label)
            begin += length
        axes.barh("waits for\ncommunication", exposed, color="#cc3377", label="exposed communication (a sum)")
        axes.invert_yaxis()
        axes.grid(axis="y")
        axes.set(xlabel="ms", title="Median step")
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        return html_page.picture(svg(figure), "Bars of the median step: its time, forward and backward, and "
                                 "communication that was waited for")
