#!/usr/bin/env python3
"""Compares a study with an earlier one: did a run become slower, or send other bytes?

usage: regression_gate.py BASELINE.tsv NEW.tsv [--tolerance SHARE]

Both are tables that jobscripts/study.py collect wrote. A run of the baseline fails in NEW where it is missing or INVALID,
where it sends other bytes a step than it did, and where it is slower: the whole 95 % interval of its median step lies
above the baseline's by more than SHARE (0.05). Runs that only NEW has are named. Prints a table.
Exits with 1 when a run fails, with 2 when a table cannot be read or has no valid run.
"""

import argparse
import csv
import sys
from pathlib import Path

import markdown_table

COLUMNS = ("run", "before (ms)", "now (ms)", "now / before", "verdict")
TEXT_COLUMNS = {"run", "verdict"}
BYTES = ("bytes_intra_node", "bytes_inter_node")


def read(path):
    """Rows by run. Raises ValueError, KeyError or OSError."""
    with open(path, newline="", encoding="utf-8") as stream:
        rows = {row["run"]: row for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)}
    for row in rows.values():
        if row["verdict"] == "VALID":
            for name in ("step_median_s", "step_low_s", "step_high_s"):
                row[name] = float(row[name])
            for name in BYTES:
                row[name] = int(row[name])
    return rows


def problem(before, now, tolerance):
    """Why a run fails; None: it does not."""
    if now is None:
        return "missing"
    if now["verdict"] != "VALID":
        return now["verdict"]
    for name in BYTES:
        if now[name] != before[name]:
            return f"{name} a step are {now[name]}, were {before[name]}"
    if now["step_low_s"] > before["step_high_s"] * (1 + tolerance):
        return f"slower: at least {now['step_low_s'] * 1e3:.2f} ms, was at most {before['step_high_s'] * 1e3:.2f}"
    return None


def main():
    parser = argparse.ArgumentParser(description="Compares a study with an earlier one.")
    parser.add_argument("baseline", type=Path, metavar="BASELINE.tsv")
    parser.add_argument("new", type=Path, metavar="NEW.tsv")
    parser.add_argument("--tolerance", type=float, default=0.05, metavar="SHARE", help="[0.05]")
    arguments = parser.parse_args()
    tables = []
    for path in (arguments.baseline, arguments.new):
        try:
            tables.append(read(path))
        except (OSError, KeyError, ValueError, TypeError) as error:
            print(f"regression_gate: error: {path} is no table of a study: {error!r}: name a table.tsv", file=sys.stderr)
            return 2
    baseline, new = tables
    valid = {name: row for name, row in baseline.items() if row["verdict"] == "VALID"}
    if not valid:
        print(f"regression_gate: error: {arguments.baseline} has no valid run: run that study first", file=sys.stderr)
        return 2
    cells, failed = [], []
    for name, before in valid.items():
        now = new.get(name)
        found = problem(before, now, arguments.tolerance)
        measured = now is not None and now["verdict"] == "VALID"
        cells.append([name, f"{before['step_median_s'] * 1e3:.2f}",
                      f"{now['step_median_s'] * 1e3:.2f}" if measured else "-",
                      f"{now['step_median_s'] / before['step_median_s']:.3f}" if measured else "-", found or "ok"])
        if found:
            failed.append(f"{name} ({found})")
    cells += [[name, "-", "-", "-", "not in the baseline"] for name in new if name not in valid]
    print(markdown_table.aligned(COLUMNS, cells, TEXT_COLUMNS))
    if failed:
        print(f"regression_gate: error: {len(failed)} runs: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
