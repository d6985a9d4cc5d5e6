"""Sets what zpp-validate copy-drift said of several runs beside each other.

usage: zpp-validate drift-table TEXT... [--output FILE]

TEXT is what copy-drift printed about a run, and its name is the row's. Columns: steps that were judged; how often whole
weights were sent; the largest distance |r - w| of the copies after differences in the first and in the last row of the
text, which has several rows at least; the largest share that a weight took of its own bound, whole weights included;
weights of the copies with other bits than computed. Exits with 1 where a text says that copies are not as they should
be, and with 2 where it is none of copy-drift.
"""

import re
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Problem, reading
from zpp_validate.tables import markdown_table

PRINTED = ("steps", "sent", "how often", "largest |r - w|", "largest bound", "of the bound", "other bits")
HEADER = ("run", "steps", "whole weights", "distance at first", "at last", "of the bound", "other bits")


def rows_of(path):
    """({column: cell} of each row, whether all is as it should be)"""
    with reading(path, "text", "give what zpp-validate copy-drift printed"):
        lines = [line for line in path.read_text().splitlines() if line]
    cells = [re.split(r"  +", line.strip()) for line in lines]
    if not lines or tuple(cells[0]) != PRINTED or not re.match(r"(VALID|INVALID): ", lines[-1]):
        raise Problem(f"{path} is no text of zpp-validate copy-drift with its last line: give what that printed")
    rows = [dict(zip(PRINTED, row)) for row, line in zip(cells[1:], lines[1:])
            if not re.match(r"(VALID|INVALID): ", line)]
    if any(len(row) != len(PRINTED) for row in rows):
        raise Problem(f"{path} has a row of other columns than zpp-validate copy-drift prints: give what that printed")
    if sum(row["sent"] == "differences" for row in rows) < 2:
        raise Problem(f"{path} has fewer than two rows of differences: give copy-drift more checkpoints")
    return rows, lines[-1].startswith("VALID")


def row_of(path):
    rows, valid = rows_of(path)
    differences = [row["largest |r - w|"] for row in rows if row["sent"] == "differences"]
    often = {sent: sum(int(row["how often"]) for row in rows if row["sent"] == sent)
             for sent in {row["sent"] for row in rows}}
    share = max(float(row["of the bound"].removesuffix(" %")) for row in rows if row["of the bound"] != "-")
    return (path.stem, str(sum(often.values())), str(often.get("whole weights", 0)), differences[0], differences[-1],
            f"{share:.1f} %",
            str(sum(int(row["other bits"]) for row in rows))), valid


def main(words):
    parser = command_line.parser("drift-table", __doc__)
    parser.add_argument("texts", type=command_line.InputFile, nargs="+", metavar="TEXT")
    parser.add_argument("--output", type=Path, metavar="FILE", help="of the table; else it is printed")
    arguments = parser.parse_args(words)
    rows = [row_of(path) for path in arguments.texts]
    table = markdown_table.aligned(HEADER, [row for row, _ in rows], {"run"})
    if arguments.output:
        arguments.output.write_text(f"{table}\n")
    else:
        print(table)
    return 0 if all(valid for _, valid in rows) else 1
