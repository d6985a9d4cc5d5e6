"""A picture of loss curves of zeropp and of PyTorch, and of their differences. PNG and SVG."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from zpp_validate.convergence.converge_plot import band
from zpp_validate.pictures import COLORS, STYLE, save


def draw(pairs, stem):
    """Draws on the left the mean loss of each step and of the held-out data, on the right the differences: a line per
    seed, and their mean."""
    with matplotlib.rc_context(STYLE):
        figure, (losses, apart) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
        steps, evaluated = np.arange(len(pairs[0].step_losses[0])), pairs[0].evaluated
        for whose, (name, line, marker) in enumerate((("zeropp", "-", "o"), ("PyTorch", "--", "x"))):
            losses.plot(steps, np.mean([pair.step_losses[whose] for pair in pairs], axis=0), line, color=COLORS[whose],
                        linewidth=1,
                        label=name)
            losses.plot(evaluated, np.mean([pair.held_out[whose] for pair in pairs], axis=0), marker,
                        color=COLORS[whose],
                        label=f"{name}, held out")
        for number, pair in enumerate(pairs):
            apart.plot(steps, pair.step_differences, color="#999999", linewidth=0.5, alpha=0.5, label=None if number
                       else "a seed")
        middle, half = band([pair.step_differences for pair in pairs])
        apart.plot(steps, middle, color=COLORS[1], linewidth=1, label="mean of seeds")
        apart.fill_between(steps, middle - half, middle + half, color=COLORS[1], alpha=0.2, linewidth=0)
        apart.axhline(0, color="#444444", linewidth=0.8)
        losses.set(title=f"Loss, mean of {len(pairs)} seeds", xlabel="optimizer step", ylabel="nats per token")
        apart.set(title="PyTorch's minus zeropp's, and its 95 % interval", xlabel="optimizer step",
                  ylabel="nats per token")
        for axes in (losses, apart):
            axes.legend(frameon=False)
        save(figure, stem)
