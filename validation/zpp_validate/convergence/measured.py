"""Measured errors of the weights and gradients of a matrix, beside its losses: the relative errors in /errors, of each
setting with `zeropp.measure_quantization_error`, by kind of unit, over its seeds and measured steps.

A run that diverged does not count.
"""

from dataclasses import dataclass
from statistics import median

from zpp_validate.tables import markdown_table

KINDS = ("weights", "gradients")


@dataclass
class Measured:
    """`errors`: norms of the error over norms of the exact values, one for each seed and measured step."""

    setting: object
    kind: str
    unit_kind: str
    errors: list

    @property
    def median(self):
        return median(self.errors)


def measured_of(study, rows):
    """The errors of all settings, in the file's order. `rows`: of /errors."""
    found = {}
    for row in rows:
        run = study.runs[row["run"]]
        if not run.diverged:
            found.setdefault((run.setting, row["kind"], row["unit_kind"]), []).append(row["relative_l2"])
    return [Measured(study.settings[setting], kind, unit_kind, errors)
            for (setting, kind, unit_kind), errors in sorted(found.items(), key=lambda item: item[0][0])]


def table(measured):
    """Lines of the chapter; empty where nothing was measured."""
    columns = sorted(dict.fromkeys((each.kind, each.unit_kind) for each in measured),
                     key=lambda column: KINDS.index(column[0]))
    cells = {}
    for each in measured:
        cells.setdefault(each.setting.name, {})[each.kind, each.unit_kind] = f"{each.median:.3g}"
    if not cells:
        return []
    return ["## Errors of weights and gradients", "",
            markdown_table.aligned(["setting", *map(" ".join, columns)],
                                   [[name, *(own.get(column, "-") for column in columns)]
                                    for name, own in cells.items()], {"setting"}), "",
            "Norm of the error over the norm of the exact values: medians over seeds and measured steps.", ""]
