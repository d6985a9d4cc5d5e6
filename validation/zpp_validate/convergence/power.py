"""Says from a pilot how many seeds a matrix of zpp_converge needs, before it is run.

usage: zpp-validate power TRACE... [--only SETTING]... [--half-width NATS] [--margin NATS] [--harm NATS] [--settings N]
       [--seeds LIST]

TRACE is the converge.h5 of a pilot: a baseline and a setting at least, from two seeds at least; five or more say
something about how far differences spread. Several are taken together, as zpp-validate converge takes them. For each
setting beside its baseline:

  spread        standard deviation of the difference of two runs from one seed: what decides, for runs are compared in
                pairs
  at most       what it is below with 80 % confidence, for the pilot itself has few seeds
  of losses     standard deviation of the baseline's losses over seeds, and how far pairs share it (correlation): what
                pairing takes away
  by cause      how the spread splits: what the seeds do, and what one seed's loss owes to the held-out data that it was
                measured on, which falls with their size; and how far the mean of all seeds would move with other data
                of that size, which no number of seeds makes smaller. Files of earlier versions have no losses by part
                of the held-out data: then it is not said
  seeds         the fewest whose 95 % interval is as narrow as --half-width (0.003) in 80 of 100 studies, at the spread
                and at its bound

and by number of seeds: the half-width to be expected, the probability that a setting which costs nothing is shown to be
equivalent within --margin (0.005), and that a harm of --harm (0.005) is found. Both as zpp-validate converge judges,
corrected over all --settings that the matrix is to compare, in the strictest of Holm's steps; --level is that of all
tests (0.05). The spread is its bound in that table. Exit codes: 0 done, 1 INVALID, 2 usage or unreadable.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from zpp_validate import command_line
from zpp_validate.convergence import converge, judged, merged
from zpp_validate.stats import paired, power
from zpp_validate.tables import markdown_table

SURE = 0.8  # of the bound of a spread, and that an interval is as narrow as wanted
SPREAD_COLUMNS = ("setting", "pairs", "difference", "spread", "at most", "of losses", "correlation", "seeds",
                  "seeds at most")
CAUSE_COLUMNS = ("setting", "spread", "of seeds", "of evaluation", "with 4 x the data", "of other data")
SEEDS_COLUMNS = ("setting", "seeds", "half-width", "equivalent shown", "harm found")
TEXT_COLUMNS = {"setting"}


def numbers(text):
    values = [int(word) for word in text.split(",")]
    if min(values) < 2:
        raise argparse.ArgumentTypeError(f"{text} has less than 2: an interval needs two seeds")
    return values


def parse(words):
    parser = command_line.parser("power", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="converge.h5 of a pilot; several are taken as one")
    parser.add_argument("--across-versions", action="store_true", help="several TRACEs may be of several commits")
    parser.add_argument("--only", action="append", default=[], metavar="SETTING",
                        help="that counts; once for each, baselines too [all]")
    parser.add_argument("--half-width", type=command_line.positive_number, default=0.003, metavar="NATS",
                        help="wanted of the 95 %% interval [0.003]")
    parser.add_argument("--margin", type=command_line.share, default=0.005, metavar="NATS",
                        help="of equivalence [0.005]")
    parser.add_argument("--harm", type=command_line.positive_number, default=0.005, metavar="NATS",
                        help="that is to be found [0.005]")
    parser.add_argument("--level", type=converge.level, default=0.05, metavar="P",
                        help="of all tests, after correction [0.05]")
    parser.add_argument("--settings", type=command_line.positive, metavar="N",
                        help="that the matrix compares with a baseline [those of the pilot]")
    parser.add_argument("--seeds", type=numbers, default=[5, 8, 12, 16, 24], metavar="LIST",
                        help="rows of the table [5,8,12,16,24]")
    return parser.parse_intermixed_args(words)


@dataclass
class Pilot:
    """A setting of a pilot and its baseline; nats per token. `bound`: of the spread. `seeds`, `seeds_at_most`: see
    above. `causes`: of power.split(), or None."""

    name: str
    pairs: paired.Pairs
    bound: float
    losses: float
    correlation: float
    seeds: int
    seeds_at_most: int
    causes: tuple


def seeds_for(spread, half_width):
    return power.fewest(lambda count: count > 1 and power.half_width_met(count, spread, half_width, judged.CONFIDENCE)
                        >= SURE)


def causes_of(setting, baseline):
    """None where a run has not two parts of the held-out data."""
    rows = [np.subtract(setting.runs[key].parts, baseline.runs[key].parts) for key in sorted(setting.runs)
            if len(setting.runs[key].parts) == len(baseline.runs[key].parts)]
    sizes = {len(row) for row in rows}
    return power.split(rows, next(iter(setting.runs.values())).part_batches) if len(rows) == len(setting.runs) and len(
        sizes) == 1 and min(sizes) > 1 else None


def pilots_of(study, half_width):
    """Throws ValueError where a setting has less than two seeds."""
    found = []
    for setting, baseline in study.compared():
        pairs = paired.of(study.differences(setting, baseline))
        own, other = ([side.runs[key].final_held_out_loss for key in sorted(setting.runs)]
                      for side in (setting, baseline))
        bound = power.spread_bound(pairs.spread, pairs.freedom, SURE)
        varies = np.ptp(own) > 0 and np.ptp(other) > 0
        found.append(Pilot(setting.name, pairs, bound, float(np.std(other, ddof=1)),
                           float(np.corrcoef(own, other)[0, 1]) if varies else float("nan"),
                           seeds_for(pairs.spread, half_width), seeds_for(bound, half_width),
                           causes_of(setting, baseline)))
    return found


def many(count):
    return f"over {power.MOST}" if count is None else str(count)


def spread_table(pilots):
    cells = [[pilot.name, str(pilot.pairs.count), f"{pilot.pairs.mean:+.4f}", f"{pilot.pairs.spread:.5f}",
              f"{pilot.bound:.5f}",
              f"{pilot.losses:.5f}", f"{pilot.correlation:.3f}", many(pilot.seeds), many(pilot.seeds_at_most)]
             for pilot in pilots]
    return markdown_table.aligned(SPREAD_COLUMNS, cells, TEXT_COLUMNS)


def causes_table(pilots):
    cells = [[pilot.name, f"{pilot.pairs.spread:.5f}", f"{seeds:.5f}", f"{evaluation:.5f}",
              f"{np.hypot(seeds, evaluation / 2):.5f}",
              f"{data:.5f}"] for pilot in pilots if pilot.causes for seeds, evaluation, data in [pilot.causes]]
    return markdown_table.aligned(CAUSE_COLUMNS, cells, TEXT_COLUMNS) if cells else (
        "The file has no losses by part of the held-out data: how the spread splits into seeds and evaluation is not "
        "to be seen.")


def chances(bound, count, arguments, compared):
    """(half-width to be expected, probability that equivalence is shown, probability that the harm is found)."""
    level = arguments.level / compared
    return (power.half_width(count, bound, judged.CONFIDENCE),
            power.shown_equivalent(count, bound, arguments.margin, level),
            power.found(count, bound, arguments.harm, level))


def seeds_table(pilots, arguments, compared):
    cells = []
    for pilot in pilots:
        for count in arguments.seeds:
            width, equivalent, found = chances(pilot.bound, count, arguments, compared)
            cells.append([pilot.name, str(count), f"{width:.4f}", f"{equivalent:.3f}", f"{found:.3f}"])
    return markdown_table.aligned(SEEDS_COLUMNS, cells, TEXT_COLUMNS)


def cost_text(study):
    """Seconds of a run, for whoever multiplies."""
    seconds = [run.seconds for setting in study.settings for run in setting.runs.values()
               if setting.level in converge.TOKEN_LEVELS]
    ranks = sorted({run.world_size for setting in study.settings for run in setting.runs.values()})
    return f"A run of the pilot took {np.mean(seconds):.0f} s on {' or '.join(map(str, ranks))} ranks."


def advice(pilots, arguments, compared):
    """One line: what a matrix needs."""
    most = [pilot.seeds_at_most for pilot in pilots]
    if None in most:
        return (f"No number of seeds up to {power.MOST} gives every setting an interval of +-{arguments.half_width:g} "
                f"nats.")
    shown = power.fewest(lambda count: count > 1 and all(
        min(chances(pilot.bound, count, arguments, compared)[1:]) >= judged.POWER for pilot in pilots))
    return (f"{max(most)} seeds give every setting an interval of +-{arguments.half_width:g} nats or less in "
            f"{SURE:.0%} of studies; {many(shown)} "
            f"show equivalence within {arguments.margin:g} and find a harm of {arguments.harm:g} with a probability of "
            f"{judged.POWER:.0%} each, "
            f"among {compared} settings.")


def main(words):
    arguments = parse(words)
    trace, notes = merged.read(arguments.traces, arguments.across_versions, arguments.only)
    reasons, study = converge.problems_of(trace, 2)
    if not reasons and not study.compared():
        reasons = ["no setting of it is compared with a baseline by its losses: give a pilot, as "
                   "inputs/convergence/text-pilot.json"]
    if reasons:
        for reason in reasons[:converge.REASONS_SHOWN]:
            print(f"INVALID: {reason}")
        return 1
    pilots = pilots_of(study, arguments.half_width)
    compared = arguments.settings or len(pilots)
    for paragraph in (*(f"{note}." for note in notes), spread_table(pilots), causes_table(pilots),
                      seeds_table(pilots, arguments, compared), cost_text(study),
                      advice(pilots, arguments, compared)):
        print(f"{markdown_table.fitted(paragraph)}\n")
    return 0
