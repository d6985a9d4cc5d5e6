"""Pictures of a matrix of zpp_converge: held-out loss over steps, and the ladder: loss difference over bits sent. PNG
and SVG."""

import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import scipy

from zpp_validate.pictures import COLORS, LINES, STYLE, save
from zpp_validate.readers.trace_format import TOKEN_LEVELS

MARKERS = {"weights": "s", "gradients": "o", "both": "D", "none": "x"}


def band(curves):
    """(mean, half of the 95 % interval) over seeds of curves of equal length."""
    values = np.array(curves)
    count = len(values)
    half = (scipy.stats.t.ppf(0.975, count - 1) * scipy.stats.sem(values) if count > 1
            else np.zeros(values.shape[1]))
    return values.mean(axis=0), half


def curves_of(setting):
    """(steps, a curve a seed in the order of the keys)."""
    runs = [setting.runs[key] for key in sorted(setting.runs)]
    return [step for step, _ in runs[0].evaluations], [[loss for _, loss in run.evaluations] for run in runs]


def draw_curves(study, level, entropy_bits, stem):
    """Left the losses, right what is left of them beside the baseline, paired by seed."""
    settings = [setting for setting in study.settings if setting.level == level and not setting.diverged]
    figure, (losses, apart, names) = plt.subplots(1, 3, figsize=(13, max(4.5, 0.22 * len(settings))),
                                                  layout="constrained",
                                                  gridspec_kw={"width_ratios": [1, 1, 0.45]})
    for place, setting in enumerate(settings):
        style = {"color": COLORS[place % len(COLORS)], "linestyle": LINES[place // len(COLORS) % len(LINES)]}
        steps, curves = curves_of(setting)
        panels = [(losses, curves)]
        if setting.baseline:
            base_steps, base = curves_of(study.by_name[setting.baseline])
            if base_steps == steps:
                panels.append((apart, np.array(curves) - np.array(base)))
        for axes, values in panels:
            middle, half = band(values)
            axes.plot(steps, middle, label=setting.name, **style)
            axes.fill_between(steps, middle - half, middle + half, color=style["color"], alpha=0.15, linewidth=0)
    if np.isfinite(entropy_bits):
        losses.axhline(entropy_bits * np.log(2), color="#999999", linestyle=":", label="entropy of the source")
    losses.set(title="Held-out loss", xlabel="optimizer step", ylabel="nats per token")
    apart.set(title="Minus the baseline's, paired by seed", xlabel="optimizer step", ylabel="nats per token")
    apart.axhline(0, color="#444444", linewidth=0.8)
    names.axis("off")
    names.legend(*losses.get_legend_handles_labels(), loc="center left", frameon=False, fontsize="small")
    figure.suptitle(f"{level}: mean over seeds, bands are its 95 % interval", fontweight="bold")
    save(figure, stem)


def draw_ladder(rows, level, margin, stem):
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    axes.axhspan(-margin, margin, color="#009e73", alpha=0.12, linewidth=0, label=f"within {margin:g}")
    axes.axhline(0, color="#444444", linewidth=0.8)
    seen = set()
    for row in rows:
        if math.isnan(row.setting.bits):  # of codecs by unit
            continue
        weights = row.setting.weight_codec != "none"
        gradients = row.setting.gradient_codecs != ("none", "none")
        kind = "both" if weights and gradients else "weights" if weights else "gradients" if gradients else "none"
        place = list(MARKERS).index(kind)
        axes.errorbar(row.setting.bits, row.pairs.mean,
                      yerr=[[row.pairs.mean - row.interval[0]], [row.interval[1] - row.pairs.mean]],
                      marker=MARKERS[kind], color=COLORS[place + 1], capsize=2, linestyle="none",
                      label=None if kind in seen else {"both": "weights and gradients",
                                                       "none": "no codec"}.get(kind, kind))
        axes.annotate(row.setting.name, (row.setting.bits, row.pairs.mean), xytext=(5, 3), textcoords="offset points",
                      fontsize=7)
        seen.add(kind)
    axes.set(xlabel="bits per parameter, one gather and one reduce-scatter",
             ylabel="held-out loss minus the baseline's (nats per token)",
             title=f"{level}: mean difference with its 95 % interval")
    axes.legend(frameon=False)
    save(figure, stem)


def draw(study, rows, margin, data, folder):
    """Writes LEVEL-curves and LEVEL-ladder into `folder`. `data`: by level the attributes of /data_LEVEL."""
    with matplotlib.rc_context(STYLE):
        for level in TOKEN_LEVELS:
            if any(setting.level == level for setting in study.settings):
                draw_curves(study, level, float(data[level]["source_entropy_bits"]), folder / f"{level}-curves")
            own = [row for row in rows if row.setting.level == level]
            if own:
                draw_ladder(own, level, margin, folder / f"{level}-ladder")
