"""Common parts of all pictures: colours, lines, the style, and how they are written."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLORS = ["#444444", "#0072b2", "#e69f00", "#009e73", "#cc3377", "#56b4e9", "#8b5a2b"]
LINES = ["-", "--", ":", "-."]
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
         "grid.color": "#e4e4e4", "axes.axisbelow": True, "svg.hashsalt": "zeropp"}  # the same picture, the same bytes


def save(figure, stem):
    """Writes STEM.png and STEM.svg, without dates."""
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        figure.savefig(stem.with_name(stem.name + suffix), dpi=120, metadata=metadata)
    plt.close(figure)
