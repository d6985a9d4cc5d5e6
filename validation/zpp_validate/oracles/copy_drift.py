"""Says from checkpoints whether the copies of the weights that differences are added to stay beside the weights.

usage: zpp-validate copy-drift CHECKPOINTS... --trace TRACE

With weight differences every node, or below stage 3 every rank, holds a copy r of the weights w. At stage 3 a step
sends w - r, encoded, before it reads the copy: of two checkpoints whose steps follow each other the earlier one holds w
and r as they were before that, and the later one r as it is then. Below stage 3 a step sends w - r when it has updated
w: the earlier one holds r as it was before that, the later one w and r. So what was sent is computed again, in NumPy.
Judged are two things. The distance |r - w| is at most what the codec may lose of this one difference, and the roundings
of the difference to the compute dtype and of the sum to the copy's: no error of an earlier step is left. Where the
optimizer is offloaded and 16 bits compute, w is rounded to them before r is taken from it, and the bound has that
rounding too. With exact differences r is w, rounded to 16 bits. And r has the bits of the codec's description, unless
the codec draws random numbers.

CHECKPOINTS are folders that --save names, or single folders step-...; TRACE is of the run. A run that was resumed has a
trace for each part, and --trace may be given several times: a step is judged by the codecs of the trace that has it.
Checkpoints do not name their codecs, so that steps in no trace are judged by the first trace named, and a warning says
so. With --save-interval 1 and --save-keep 100000 there is a checkpoint of every step. A row of the table is for as many
steps, with the largest values among them; `of the bound` is the largest share that a weight took of its own bound. Exit
codes: 0 all as it should be, 1 not, 2 usage, or no two checkpoints follow each other.
"""

import sys
from typing import NamedTuple

import numpy as np

from zpp_validate import command_line
from zpp_validate.forms.settings import Settings
from zpp_validate.oracles import codecs
from zpp_validate.problem import Problem, reading
from zpp_validate.readers import checkpoint_file, run_file

STORED = {"fp32": "<u4", "bf16": "<u2", "fp16": "<u2"}
# Largest relative error of rounding to the nearest, and largest of numbers below the normal ones.
ROUNDING = {"fp32": (2.0**-24, 2.0**-150), "bf16": (2.0**-8, 2.0**-134), "fp16": (2.0**-11, 2.0**-25)}
NOTHING = "nothing"


class Pair(NamedTuple):
    """Findings on one exchange."""

    step: int  # that made it
    sent: str  # differences, whole weights or nothing
    distance: float
    bound: float  # the largest of all weights
    share: float  # the largest distance over the weight's own bound
    others: int  # weights of the copy with other bits than computed


def rounding(values, dtype):
    relative, least = ROUNDING[dtype]
    return np.abs(values.astype(np.float64)) * relative + least


def level_error(format_name, options):
    """Largest error of a value over the block's scale, and largest scale over the block's largest magnitude (with
    +asym: over its range); by docs/concepts/numerics.md, and the description in zpp_validate/oracles/codecs.py."""
    if format_name in codecs.INTEGERS:
        bits = codecs.INTEGERS[format_name][0]
        steps = 2**bits - 1 if "asym" in options else 2 ** (bits - 1) - (0 if "wide" in options else 1)
        # +wide has no code for its largest positive level, +sr goes to either neighbour.
        return (1 if options & {"wide", "sr"} else 0.5) + 2.0**-15, 1 / steps
    exponent_bits, mantissa_bits, largest, _ = codecs.FLOATS[format_name]
    top = 2.0 ** np.floor(np.log2(largest))
    spacing = top * 2.0**-mantissa_bits
    if format_name.startswith("mx"):  # the largest value of a block is below 2 top, and saturates
        return max(spacing / 2, 2 * top - largest), 1 / top
    return spacing / 2, 1 / largest


def codec_bound(name, values, dtype):
    """Bound on the codec's error, for each value of a shard."""
    format_name, block, options = codecs.parse(name)
    if format_name in codecs.CASTS:
        return np.zeros(len(values)) if format_name in ("none", dtype) else rounding(values, format_name)
    if format_name == "nvfp4":
        raise Problem("the scales of nvfp4 have no bound here: name a run with another codec")
    padded = np.zeros(-(-len(values) // block) * block, np.float32)
    padded[:len(values)] = values
    if "had32" in options:
        padded = codecs.rotated(padded)
    blocks = padded.astype(np.float64).reshape(-1, block)
    largest = np.abs(blocks).max(axis=1, initial=0)
    extent = largest
    if "asym" in options:  # the minimum is stored, with s32 in fp32, else in bf16
        extent = blocks.max(axis=1) - blocks.min(axis=1) + largest * (2.0**-24 if "s32" in options else 2.0**-7)
    error, scale = level_error(format_name, options)
    stored = extent * scale * (1 + (2.0**-22 if "s32" in options else 2.0**-7))  # rounded up
    # A scale below fp32's normal numbers is zero, and so is the block then.
    lost = np.maximum(error * stored, np.where(stored < 2.0**-125, largest, 0)) + largest * 2.0**-20
    if "had32" in options:  # the largest that a rotation makes of 32 such errors
        lost = lost * np.sqrt(32)
    return np.repeat(lost, block)[:len(values)]


class Run:
    """Codecs and types, of a trace."""

    def __init__(self, trace):
        config = trace["config"]
        settings = Settings.of(config)
        if not settings.differences:
            raise Problem("the trace is of a run without weight differences: name one with --weight-differences")
        self.differences = settings.differences
        self.compute = settings.sixteen_bits if settings.element_bytes == 2 else "fp32"
        # Weights as they are sent: with offload each rank keeps its shard in the compute dtype as well.
        self.weights = self.compute if settings.offload else "fp32"
        begin = trace.get("first_step", 0)
        self.steps = range(begin, begin + len(trace["steps"]["loss"]))
        self.units = trace["units"]["name"]
        self.table = settings.table(self.units)

    def codecs_of(self, taken):
        """(whether whole weights go, the codec of each unit) in the step after `taken` others."""
        whole = [each.weights for each in self.table.at(taken)]
        if self.differences.refreshes(taken) or whole != [each.weights for each in self.table.at(taken - 1)]:
            return True, whole
        return False, ["none" if self.differences.exact else self.differences.codec] * len(whole)


def values_of(bits, dtype):
    values = codecs.to_fp32(bits, dtype)
    return np.where(np.isfinite(values), values, np.float32(0))


def follow_unit(run, codec, whole, master, before, after, extents, dtype):
    """(distances, bounds, number of other bits) of a unit's copy, shard by shard."""
    weights = np.zeros(len(before), np.float32)
    weights[:len(master)] = master[:len(before)]
    old, held = values_of(before, dtype), codecs.to_fp32(after, dtype)
    new, distance = np.abs(values_of(after, dtype)), np.where(np.isfinite(held),
                                                              np.abs(held.astype(np.float64) - weights), np.inf)
    distances, bounds, others = [], [], 0
    rounded = codecs.to_fp32(codecs.from_fp32(weights, run.weights), run.weights)
    before_sent = np.zeros(len(weights)) if run.weights == "fp32" else rounding(weights, run.weights)
    for begin, end in extents:
        own = slice(begin, end)
        exact = rounded[own] if whole else rounded[own] - old[own]
        memory = codecs.from_fp32(exact, run.compute)
        sent = codecs.to_fp32(memory, run.compute)
        distances.append(distance[own])
        bounds.append(codec_bound(codec, sent, run.compute) + before_sent[own] + rounding(exact, run.compute)
                      + rounding(exact, "fp32")
                      + rounding(new[own] * (1 + 2.0**-7), dtype) + rounding(new[own], "fp32"))
        if "+sr" not in codec:
            image = codecs.encode(codec, memory, run.compute)
            to = run.compute if codec == "none" else "fp32"
            arrived = codecs.to_fp32(codecs.decode(codec, image, end - begin, to), to)
            others += int(np.sum(codecs.from_fp32(arrived if whole else old[own] + arrived, dtype) != after[own]))
    return np.concatenate(distances), np.concatenate(bounds), others


def copies_of(run, earlier, later):
    """(name of the unit, dtype, its copy's bits before and after) of each unit that has one."""
    for unit in run.units:
        for dtype, stored in STORED.items():
            name = f"{unit}/copy/{dtype}"
            if name in earlier.slices:
                yield unit, dtype, earlier.array(name, stored), later.array(name, stored)


def follow(run, earlier, later):
    """Findings on a step, or None where the copies began in it, or an evaluation sent something as well."""
    versions = [int(each.array("copy_version", "<u8")[0]) for each in (earlier, later)]
    if 0 in versions or versions[1] not in (versions[0], versions[0] + 1):
        return None
    if versions[0] == versions[1]:  # an evaluation sent it already, or the step before was skipped
        return Pair(later.step, NOTHING, 0, 0, 0, sum(int(np.sum(before != after)) for *_, before,
                                                      after in copies_of(run, earlier, later)))
    whole, names = run.codecs_of(later.step - 1)
    updated = earlier if run.differences.on_rails else later  # has the weights that were sent
    found = Pair(later.step, "whole weights" if whole else "differences", 0, 0, 0, 0)
    whole = whole or run.differences.exact  # these bring the weights themselves
    for unit, dtype, before, after in copies_of(run, earlier, later):
        distances, bounds, others = follow_unit(run, names[run.units.index(unit)], whole,
                                                updated.array(f"{unit}/master", "<f4"), before,
                                                after, later.extents(f"{unit}/copy/{dtype}"), dtype)
        found = found._replace(distance=max(found.distance, distances.max()), bound=max(found.bound, bounds.max()),
                               share=max(found.share, (distances / bounds).max()), others=found.others + others)
    return found


def rows_of(pairs, count):
    """Lines of at most about `count` parts; whole weights have their own."""
    size = -(-len(pairs) // count)
    parts = []
    for pair in pairs:
        if parts and len(parts[-1]) < size and parts[-1][0].sent == pair.sent:
            parts[-1].append(pair)
        else:
            parts.append([pair])
    for part in parts:
        steps = f"{part[0].step}" if len(part) == 1 else f"{part[0].step} to {part[-1].step}"
        wide = max(part, key=lambda pair: pair.distance)
        sizes = (f"{wide.distance:.3e}", f"{wide.bound:.3e}", f"{100 * max(pair.share for pair in part):.1f} %")
        yield (steps, part[0].sent, str(len(part)), *(("-",) * 3 if part[0].sent == NOTHING else sizes),
               str(sum(pair.others for pair in part)))


def table_of(pairs, count):
    rows = [("steps", "sent", "how often", "largest |r - w|", "largest bound", "of the bound", "other bits"),
            *rows_of(pairs, count)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) if index < 2 else cell.rjust(width)
                               for index, (cell, width) in enumerate(zip(row, widths)))
                     for row in rows)


def pairs_of(runs, folders):
    """Findings on each step, and the steps among them that no trace has."""
    found, unknown, earlier, copies = [], [], None, False
    for step in sorted(folders):
        later = checkpoint_file.Checkpoint(folders[step])
        copies = copies or any("/copy/" in name for name in later.slices)
        if copies and earlier and earlier.step + 1 == later.step:
            known = [run for run in runs if earlier.step in run.steps]
            pair = follow((known or runs)[0], earlier, later)
            found += [pair] if pair else []
            unknown += [later.step] if pair and not known else []
        earlier = later
    if not found and not copies:
        raise Problem("the checkpoints hold no copies: save a run with --weight-differences in which not all "
                      "units persist "
                      "(--param-persistence-threshold)")
    if not found:
        raise Problem("no two checkpoints follow each other with one exchange between them: save with "
                      "--save-interval 1")
    return found, unknown


def main(words):
    parser = command_line.parser("copy-drift", __doc__)
    parser.add_argument("checkpoints", type=command_line.InputFolder, nargs="+")
    parser.add_argument("--trace", type=command_line.InputFile, required=True, action="append", metavar="FILE",
                        help="of the run, for its codecs; once for each part")
    parser.add_argument("--rows", type=command_line.positive, default=20, metavar="N",
                        help="rows of the table, about [20]")
    arguments = parser.parse_args(words)
    folders = {step: folder for path in arguments.checkpoints for step, folder in checkpoint_file.folders(path).items()}
    runs = []
    for path in arguments.trace:
        with reading(path, "trace of a training run", "name what zpp_train wrote"):
            runs.append(Run(run_file.read(path)))
    with reading(arguments.checkpoints[0], "folder of checkpoints", "name what --save named"):
        pairs, unknown = pairs_of(runs, folders)
    print(table_of(pairs, arguments.rows))
    if unknown:
        print(f"zpp-validate copy-drift: warning: {len(unknown)} steps, the first one {unknown[0]}, are in no trace, "
              f"and judged by the codecs of {arguments.trace[0]}: give a --trace for each part of the run",
              file=sys.stderr)
    wide = [pair.step for pair in pairs if pair.share > 1]
    other = [pair.step for pair in pairs if pair.others]
    for steps, what in ((wide, "are further from the weights than codec and rounding explain"),
                        (other, "have other bits than the codec's")):
        if steps:
            print(f"INVALID: the copies after {len(steps)} of {len(pairs)} steps, first step {steps[0]}, {what}")
    if wide or other:
        return 1
    print(f"VALID: {len(pairs)} steps, of which none left more in the copies than its own difference explains")
    return 0
