"""The runs of one session of a study (jobscripts/local/measured.sh), and the command line of a table of them."""

import csv
import json
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import CHECK_FAILED, Problem, Unfit, reading


def read(study, session):
    """({name: summary, with `warmup` and its path, `summary`}, [names of runs that failed]) of `session`, or the last
    one. Of a run that writes no summary these two alone."""
    with open(study / "runs.tsv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows:
        raise Unfit("runs.tsv lists no run")
    session = session or rows[-1]["session"]
    found = {row["name"]: row for row in rows if row["session"] == session}
    runs = {}
    for name, row in found.items():
        if row["exit"] == "0":
            summary = study / "runs" / f"{row['stem']}.json"
            with reading(summary, "summary of a run", "run it again"):
                runs[name] = {**(json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}),
                              "warmup": int(row["warmup"]),
                              "summary": summary}
    return runs, [name for name in found if name not in runs]


def main(words, command, description, needed, table_of, partial=False):
    """Exit code. `table_of(runs)`: the table, and whether the runs are as they have to be. `partial`: of the runs that
    did not fail there is a table, as long as those in `needed` are there."""
    parser = command_line.parser(command, description)
    parser.add_argument("study", type=command_line.InputFolder)
    parser.add_argument("--session")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(words)
    with reading(arguments.study, "study", "name a folder as jobscripts/local/measured.sh writes it"):
        runs, failed = read(arguments.study, arguments.session)
    wrong = failed + [name for name in needed if name not in [*runs, *failed]]
    problem = Problem(f"{arguments.study}: failed or missing: {', '.join(wrong)}: run them again", CHECK_FAILED)
    if wrong and not (partial and set(needed) <= set(runs)):
        raise problem
    with reading(arguments.study, "whole study", "run it again"):
        table, fine = table_of(runs)
    print(table)
    if arguments.output:
        arguments.output.write_text(table + "\n", encoding="utf-8")
    if wrong:
        raise problem
    return 0 if fine else CHECK_FAILED
