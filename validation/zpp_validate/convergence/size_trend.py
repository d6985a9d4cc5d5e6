"""Says whether what compression costs grows with the model.

usage: zpp-validate size-trend TRACE... [--across-versions] [--only SETTING]... [--output FILE]

TRACE is the converge.h5 of zpp_converge. Files whose models have as many parameters are one matrix, as zpp-validate
converge takes them; there are two sizes at least. For each setting beside its baseline:

  difference    mean of the final held-out loss minus the baseline's at each size, paired by seed, with its 95 %
                interval (Student's t)
  slope         of these means over the logarithm of the parameters: nats for ten times the parameters, with its 95 %
                interval (Welch's degrees of freedom). Above 0 the cost grows with the model

A setting that some sizes lack has the others. Prints the tables, and writes them to --output. Exit codes: 0 done,
1 INVALID, 2 usage or unreadable.
"""

import math
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.convergence import converge, judged, merged
from zpp_validate.problem import CHECK_FAILED, Problem
from zpp_validate.readers import converge_file
from zpp_validate.readers.trace_file import Trace
from zpp_validate.readers.trace_format import TOKEN_LEVELS
from zpp_validate.stats import paired, trend
from zpp_validate.tables import markdown_table

SIZE_COLUMNS = ("setting", "parameters", "tokens a parameter", "seeds", "difference", "95 % interval")
SLOPE_COLUMNS = ("setting", "sizes", "slope", "95 % interval")
TEXT_COLUMNS = {"setting", "95 % interval"}


def parse(words):
    parser = command_line.parser("size-trend", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="converge.h5 of zpp_converge, of two sizes of the model at least")
    parser.add_argument("--across-versions", action="store_true", help="several TRACEs may be of several commits")
    parser.add_argument("--only", action="append", default=[], metavar="SETTING",
                        help="that counts; once for each, baselines too [all]")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the tables as Markdown")
    return parser.parse_intermixed_args(words)


def size_of(trace):
    """(parameters, tokens of a run) of the settings that are judged by their losses. Raises Problem where they differ
    or are not said."""
    try:
        found = {setting.size(int(trace.data[setting.level]["vocab_size"]))
                 for setting in converge_file.Study(trace).settings if setting.level in TOKEN_LEVELS}
    except (KeyError, TypeError, ValueError) as missing:
        raise Problem(f"{trace.path} does not say the size of its models ({missing}): give a matrix of gpt or "
                      "llama") from None
    if len(found) != 1:
        raise Problem(f"{trace.path} has settings of {len(found)} sizes or lengths: give a matrix of one")
    return found.pop()


def matrices(arguments):
    """By parameters and tokens, in order: the study of a matrix. Raises Problem for one that is INVALID."""
    paths = {}
    for path in arguments.traces:
        trace = Trace(path)
        if trace.app != "converge" or trace.problems:
            merged.read([path])  # which refuses another program's file
            raise Problem(f"{path}: {'; '.join(trace.problems)}")
        paths.setdefault(size_of(trace), []).append(path)
    if len({parameters for parameters, _ in paths}) < 2:
        raise Problem("the matrices are of one size: a slope needs models of two sizes at least")
    found = {}
    for size in sorted(paths):
        trace, _ = merged.read(paths[size], arguments.across_versions, arguments.only)
        reasons, found[size] = converge.problems_of(trace, 2)
        if reasons:
            raise Problem(f"the matrix of {size[0]} parameters is INVALID: {reasons[0]}", CHECK_FAILED)
    return found


def compared(studies):
    """By setting's name: {(parameters, tokens): its paired.Pairs}."""
    found = {}
    for size, study in studies.items():
        for setting, baseline in study.compared():
            found.setdefault(setting.name, {})[size] = paired.of(study.differences(setting, baseline))
    return found


def text_interval(interval):
    return "{:+.4f} to {:+.4f}".format(*interval)


def tables(found):
    sizes = [[name, f"{parameters / 1e6:.1f} M", f"{tokens / parameters:.2g}", str(pairs.count), f"{pairs.mean:+.4f}",
              text_interval(pairs.interval(judged.CONFIDENCE))]
             for name, by_size in found.items() for (parameters, tokens), pairs in by_size.items()]
    slopes = []
    for name, by_size in found.items():
        if len({parameters for parameters, _ in by_size}) < 2:
            continue
        slope = trend.of([math.log10(parameters) for parameters, _ in by_size], list(by_size.values()))
        slopes.append([name, str(len(by_size)), f"{slope.value:+.4f}",
                       text_interval(slope.interval(judged.CONFIDENCE))])
    return (markdown_table.aligned(SIZE_COLUMNS, sizes, TEXT_COLUMNS),
            markdown_table.aligned(SLOPE_COLUMNS, slopes, TEXT_COLUMNS))


def main(words):
    arguments = parse(words)
    by_size, slopes = tables(compared(matrices(arguments)))
    text = (f"Held-out loss beside the baseline's, nats per token:\n\n{by_size}\n\n"
            f"Slope, nats for ten times the parameters:\n\n{slopes}\n")
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text)
    print(markdown_table.fitted(text))
    return 0
