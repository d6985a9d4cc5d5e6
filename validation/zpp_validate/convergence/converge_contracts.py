"""The tables of the two levels that have no losses to compare: how near the quadratic came to its bound, and the
contracts."""

from zpp_validate.tables import markdown_table

BOUND_COLUMNS = ("setting", "seeds", "steps", "violations", "largest share of the bound")
CHECK_COLUMNS = ("contract", "first", "second", "seed", "difference", "allowed")
TEXT_COLUMNS = {"setting", "contract", "first", "second"}


def bounds(study, summaries):
    """`summaries`: rows of /quadratic_runs."""
    own = {}
    for row in summaries:
        own.setdefault(study.setting_of(study.runs[row["run"]]).name, []).append(row)
    cells = [[name, str(len(rows)), str(sum(row["steps"] for row in rows)), str(sum(row["violations"] for row in rows)),
              f"{max(row['largest_ratio'] for row in rows):.3f}"] for name, rows in own.items()]
    return ["## quadratic: distance to the closed form against the codec's bound", "",
            markdown_table.aligned(BOUND_COLUMNS, cells, TEXT_COLUMNS), ""] if cells else []


def contracts(study, checks):
    """`checks`: rows of /checks."""
    cells = []
    for row in checks:
        first, second = study.runs[row["first"]], study.runs[row["second"]]
        cells.append([row["name"], *(study.setting_of(run).name for run in (first, second)), str(first.seed),
                      f"{row['difference']:.3g}" if row["difference"] else "identical", f"{row['limit']:g}"
                      if row["limit"] else "none"])
    return ["## contract: runs that may not differ", "", markdown_table.aligned(CHECK_COLUMNS, cells, TEXT_COLUMNS),
            ""] if cells else []
