"""The runs of one session of a study (jobscripts/local/measured.sh), and the command line of a table of them."""

import argparse
import csv
import json
from pathlib import Path
import statistics
import sys


def read(study, session, needed):
    """{name: summary, with `warmup`} of `session`, or the last one. Raises ValueError where a run failed or a needed one is missing."""
    with open(study / "runs.tsv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    session = session or rows[-1]["session"]
    found = {row["name"]: row for row in rows if row["session"] == session}
    wrong = [name for name, row in found.items() if row["exit"] != "0"] + [name for name in needed if name not in found]
    if wrong:
        raise ValueError(f"session {session}: failed or missing: {', '.join(wrong)}")
    return {name: {**json.loads((study / "runs" / f"{row['stem']}.json").read_text(encoding="utf-8")),
                   "warmup": int(row["warmup"])} for name, row in found.items()}


def main(program, description, needed, table_of):
    """Exit code. `table_of(runs)`: the table, and whether the runs are as they have to be."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--session")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    try:
        table, fine = table_of(read(arguments.study, arguments.session, needed))
    except (OSError, ValueError, KeyError, IndexError, statistics.StatisticsError) as error:
        print(f"{program}: error: {arguments.study}: {error}", file=sys.stderr)
        return 1
    print(table)
    if arguments.output:
        arguments.output.write_text(table + "\n", encoding="utf-8")
    return 0 if fine else 1
