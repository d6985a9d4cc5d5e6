"""Judges a matrix of zpp_converge: is it fit, which codecs train as well as none, and is the published order there?

usage: zpp-validate converge TRACE... --output DIR [--across-versions] [--only SETTING]... [--margin NATS] [--level P]
       [--fewest-seeds N]
                             [--command TEXT]

TRACE is the converge.h5 of zpp_converge. Several files are runs of one matrix from other seeds, machines and days, and
are judged together (merged.py): each file has to be whole, and they may differ in their seeds and in the place of the
data alone. --only judges these settings alone, which several matrices may share. The matrix is checked first
(converge_checker.py): schema and units, every run there and VALID, runs paired by seed and data, bytes counted as
predicted, the quadratic within its bound and near enough to it, contracts. A matrix that fails is not judged further.
Then each setting of the levels markov and text is compared with its baseline, paired by seed:

  difference    mean of the final held-out loss minus the baseline's, with its 95 % interval (Student's t)
  equivalent    both one-sided tests (TOST) show that the difference is within --margin (0.02 nats)
  worse, better the difference is not 0; all p-values are corrected over all settings (Holm), at --level (0.05)
  undecided     neither: the column `seen from` says how small a difference these runs could have shown

and the published order of codecs, claim by claim (ladder.py), the effect of error feedback (feedback_effect.py), and
the measured errors of weights and gradients (measured.py).
Claims that the data do not support are reported like the others: neither makes a matrix INVALID.

Leaves in DIR: table.md, judged.h5 (its rows), LEVEL-curves and LEVEL-ladder as PNG and SVG, chapter.md (for the
docs, where a setting has an uncompressed baseline). Prints the table, and VALID or INVALID: reason. Exit codes:
0 VALID, 1 INVALID, 2 usage or unreadable.
"""

import shlex
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.checkers import converge_checker
from zpp_validate.convergence import converge_plot, converge_table, feedback_effect, judged, ladder, measured, merged
from zpp_validate.readers.trace_format import TOKEN_LEVELS
from zpp_validate.tables import markdown_table

REASONS_SHOWN = 20
level = command_line.real(0, 0.5)  # type of an option: of tests


def parse(words):
    parser = command_line.parser("converge", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="converge.h5 of zpp_converge; several are judged as one")
    parser.add_argument("--across-versions", action="store_true", help="several TRACEs may be of several commits")
    parser.add_argument("--only", action="append", default=[], metavar="SETTING",
                        help="that counts; once for each, baselines too [all]")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="table, rows, pictures, chapter")
    parser.add_argument("--margin", type=command_line.share, default=0.02, metavar="NATS",
                        help="of equivalence [0.02]")
    parser.add_argument("--level", type=level, default=0.05, metavar="P", help="of all tests, after correction [0.05]")
    parser.add_argument("--fewest-seeds", type=command_line.whole(2), default=5, metavar="N",
                        help="that a setting needs [5]")
    parser.add_argument("--wide", action="store_true",
                        help="print tables whole, however wide they are; table.md has them so")
    parser.add_argument("--command", metavar="TEXT", help="that made TRACE and this; for the chapter [this call]")
    return parser.parse_intermixed_args(words)


def too_few(study, fewest):
    return [f"setting {setting.name} has {len(setting.runs)} seeds, {fewest} are needed: run more, or give "
            f"--fewest-seeds"
            for setting in study.settings if setting.level in TOKEN_LEVELS and len(setting.runs) < fewest]


def problems_of(trace, fewest):
    """(reasons why the matrix is INVALID, its study or None)."""
    if trace.problems:
        return trace.problems, None
    checker = converge_checker.ConvergeChecker(trace)
    reasons = checker.check()
    return reasons + ([] if reasons else too_few(checker.study, fewest)), None if reasons else checker.study


def main(words):
    arguments = parse(words)
    trace, notes = merged.read(arguments.traces, arguments.across_versions, arguments.only)
    reasons, study = problems_of(trace, arguments.fewest_seeds)
    if reasons:
        for reason in reasons[:REASONS_SHOWN]:
            print(f"INVALID: {reason}")
        return 1
    rows = judged.judge(study, arguments.margin, arguments.level)
    claims, missing = ladder.claims_of(study, arguments.margin, arguments.level)
    effects = feedback_effect.effects_of(study)
    errors = measured.measured_of(study, trace.rows("errors"))
    command = arguments.command or shlex.join(["validation/zpp-validate", "converge", *words])
    text = "".join(f"{note}.\n\n" for note in notes)
    text += converge_table.text_of(study, trace, rows, claims, missing, effects, errors, arguments.margin)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "table.md").write_text(text)
    (arguments.output / "chapter.md").unlink(missing_ok=True)
    if chapter := converge_table.chapter(study, rows, claims, effects, arguments.margin, command):
        (arguments.output / "chapter.md").write_text(chapter)
    converge_table.write_hdf5(arguments.output / "judged.h5",
                              converge_table.document(study, rows, claims, effects, errors),
                              {"margin": arguments.margin, "level": arguments.level,
                               "trace": shlex.join(map(str, arguments.traces)),
                               "git_commit": trace.attributes["git_commit"], "command": command})
    converge_plot.draw(study, rows, arguments.margin, trace.data, arguments.output)
    print(text if arguments.wide else markdown_table.fitted(text))
    print("VALID")
    return 0
