"""Compares the loss curves of zpp_converge with those of plain PyTorch, seed by seed: the same, or not?

usage: zpp-validate curve-table TRACE... --curves FILE --output DIR [--first N] [--tolerance NATS] [--setting NAME]

FILE is what `zpp-validate torch-curve` made of the same TRACEs. Two rules give the verdict:

  start  In the first --first steps (10), rounding has had no time to grow: in each of them the losses of every seed
         differ by at most --tolerance nats (1e-4 in fp32, 1e-3 in bf16).
  end    Later, rounding leads two runs of one seed apart, whoever trains them. The mean difference of the final
         held-out losses, paired by seed, has a 95 % interval (Student's t) that lies within the spread of seeds: one
         standard deviation, the smaller of the two.

  agree      both hold
  differ     the start does not hold; or the interval leaves out 0 and does not lie within the spread
  undecided  the interval has 0 in it and is wider than the spread, or there are fewer than two seeds: train more

An interval that has 0 in it is no agreement by itself: few seeds make it as wide as one likes. Leaves in DIR: table.md,
and curves as PNG and SVG. Exit codes: 0 agree; 1 differ or undecided; 2 usage, or files that cannot be read or do not
belong together.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zpp_validate import command_line
from zpp_validate.curves import curve_plot, trained
from zpp_validate.problem import Problem, reading
from zpp_validate.stats import paired
from zpp_validate.tables import markdown_table

AGREE, DIFFER, UNDECIDED = "agree", "differ", "undecided"
TOLERANCES = {"fp32": 1e-4, "bf16": 1e-3}
CONFIDENCE, LEVEL = 0.95, 0.05
COLUMNS = ("seed", "zeropp", "PyTorch", "difference", "before the first step", "largest at the start", "largest of all")


@dataclass(frozen=True)
class Pair:
    """The runs of one seed."""

    seed: int
    step_losses: np.ndarray  # [2, steps]: zeropp's, PyTorch's; held_out the same by evaluation
    held_out: np.ndarray
    evaluated: list  # steps done

    @property
    def final(self):
        return self.held_out[:, -1]

    @property
    def step_differences(self):
        return self.step_losses[1] - self.step_losses[0]

    def largest(self, first=None):
        """NaN where a loss is."""
        return float(np.abs(self.step_differences[:first]).max())


def pairs_of(work, curves):
    """Pairs of runs, for all seeds that both have on the same data. Throws trained.Refused."""
    theirs, pairs = {(run["seed"], run["data_hash"]): run for run in curves["runs"]}, []
    for run in work.runs:
        if run.key not in theirs:
            continue
        other = theirs[run.key]
        steps, held_out = [step for step, _ in run.evaluations], dict(map(tuple, other["evaluations"]))
        if len(other["losses"]) != len(run.losses) or list(held_out) != steps:
            raise Problem(f"seed {run.seed} has other steps or evaluations in the curves than in the traces")
        pairs.append(Pair(run.seed, np.array([run.losses, other["losses"]]),
                          np.array([[loss for _, loss in run.evaluations], list(held_out.values())]), steps))
    if not pairs:
        raise Problem("the curves have no seed of the traces: run zpp-validate torch-curve with them")
    return pairs


@dataclass(frozen=True)
class Judged:
    verdict: str
    reason: str
    ends: paired.Pairs | None = None  # None: nothing to say
    spreads: tuple = ()  # of zeropp's seeds, of PyTorch's


def judge(pairs, first, tolerance):
    infinite = [pair.seed for pair in pairs if not np.isfinite(pair.final).all()]
    if infinite:
        return Judged(DIFFER, f"the last held-out loss of seed {infinite[0]} is not finite")
    ends, spreads = None, ()
    if len(pairs) > 1:
        ends = paired.of([pair.final[1] - pair.final[0] for pair in pairs])
        spreads = tuple(paired.of([pair.final[whose] for pair in pairs]).spread for whose in (0, 1))
    far = [pair.seed for pair in pairs if not pair.largest(first) <= tolerance]  # NaN is far
    if far:
        return Judged(DIFFER, f"seed {far[0]} is more than {tolerance:g} nats away within the first {first} steps",
                      ends, spreads)
    if ends is None:
        return Judged(UNDECIDED, "one seed has no interval: train more")
    low, high = ends.interval(CONFIDENCE)
    if -min(spreads) <= low and high <= min(spreads):
        return Judged(AGREE, "the start is the same to rounding, and the interval of the end lies within the spread of "
                      "seeds", ends,
                      spreads)
    if low <= 0 <= high:
        return Judged(UNDECIDED, "the interval of the end has 0 in it, and is wider than the spread of seeds: train "
                      "more", ends, spreads)
    return Judged(DIFFER, "the interval of the end leaves out 0, and does not lie within the spread of seeds",
                  ends, spreads)


def ends_text(judged):
    if judged.ends is None:
        return []
    low, high = judged.ends.interval(CONFIDENCE)
    return [f"- Mean difference of the final held-out losses, PyTorch's minus zeropp's: {judged.ends.mean:+.1e} nats, "
            f"95 % interval "
            f"{low:+.1e} to {high:+.1e}; shown to be within {judged.ends.provable_margin(LEVEL):.1e} (two "
            f"one-sided tests).",
            f"- Spread of seeds (standard deviation): zeropp {judged.spreads[0]:.1e}, PyTorch {judged.spreads[1]:.1e} "
            f"nats; of the "
            f"differences {judged.ends.spread:.1e}."]


def text_of(work, curves, pairs, judged, first):
    rows = [[str(pair.seed), f"{pair.final[0]:.6f}", f"{pair.final[1]:.6f}", f"{pair.final[1] - pair.final[0]:+.1e}",
             f"{pair.held_out[1, 0] - pair.held_out[0, 0]:+.1e}", f"{pair.largest(first):.1e}", f"{pair.largest():.1e}"]
            for pair in pairs]
    shape, rates = work.config["zeropp"]["model"], sorted(run["tokens_per_second"] for run in curves["runs"])
    places = sorted({f"PyTorch {run['versions']['torch']} on {run['device']}, "
                     f"{'compiled' if run['compiled'] else 'not compiled'}"
                     for run in curves["runs"]})
    tokens = work.config["train_batch_size"] * shape["seq_length"]
    zeropp = sorted(tokens / run.seconds_per_step for run in work.runs)[len(work.runs) // 2]
    return "\n".join([
        f"The verdict is **{judged.verdict}**: {judged.reason}.", "",
        markdown_table.aligned(COLUMNS, rows, ()), "",
        "Losses are in nats per token: held-out loss after the last step, and its difference before the first; the "
        "largest difference of the",
        f"loss of a step among the first {first}, and among all {len(pairs[0].step_losses[0])}.", "",
        *ends_text(judged),
        f"- {len(pairs)} of {len(work.runs)} seeds of the setting {work.setting}: a GPT of {shape['num_layers']} "
        f"layers of width "
        f"{shape['hidden_size']}; weights {work.compute}, activations {work.activations}, master weights fp32.",
        f"- {'; '.join(places)}: {rates[len(rates) // 2]:,.0f} tokens/s, zeropp {zeropp:,.0f} (medians, without "
        f"evaluation).", ""])


def parse(words):
    parser = command_line.parser("curve-table", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="converge.h5 of zpp_converge")
    parser.add_argument("--curves", type=command_line.InputFile, required=True, metavar="FILE",
                        help="what torch-curve made of them")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="table and picture")
    parser.add_argument("--first", type=command_line.positive, default=10, metavar="N", help="steps of the start [10]")
    parser.add_argument("--tolerance", type=command_line.share, metavar="NATS",
                        help="at the start [1e-4 in fp32, 1e-3 in bf16]")
    parser.add_argument("--setting", metavar="NAME", help="which, where several are uncompressed")
    return parser.parse_intermixed_args(words)


def main(words):
    arguments = parse(words)
    work = trained.read(arguments.traces, arguments.setting)
    curves = trained.read_curves(arguments.curves, work)
    with reading(arguments.curves, "whole file of torch-curve", "make it again"):
        pairs = pairs_of(work, curves)
        judged = judge(pairs, arguments.first, arguments.tolerance or TOLERANCES[work.compute])
        text = text_of(work, curves, pairs, judged, arguments.first)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "table.md").write_text(text)
    curve_plot.draw(pairs, arguments.output / "curves")
    print(markdown_table.fitted(text))
    return 0 if judged.verdict == AGREE else 1
