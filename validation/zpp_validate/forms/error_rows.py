"""Rows of measured quantization errors, by the rules of lib/trace/README.md: which there have to be, and whether their
numbers fit each other."""

import math


def unit_kind(name):
    """The unit's name up to its first dot; GPT-2's `h` is a block."""
    kind = name.split(".")[0]
    return "block" if kind == "h" else kind


def expected_rows(steps, first, interval, stage, units):
    """(step, kind, unit kind) in order: weights where they are gathered, gradients where the step was not skipped.
    `first`: steps that an earlier run did, which count."""
    kinds = list(dict.fromkeys(map(unit_kind, units)))
    return [(first + row, kind, unit) for row in range(-first % interval, len(steps), interval)
            for kind, there in (("weights", stage > 0), ("gradients", not steps[row]["skipped"])) if there
            for unit in kinds]


def problem(row, exact):
    """Why a row cannot be, or None. `exact`: nothing is compressed."""
    error, cosine, largest, ratio = (row[name] for name in ("relative_l2", "cosine", "largest", "norm_ratio"))
    if exact and (error, cosine, largest, ratio) != (0, 1, 0, 1):
        return "there is an error without a codec"
    if not all(map(math.isfinite, (error, cosine, largest, ratio))) or min(error, largest,
                                                                           ratio) < 0 or abs(cosine) > 1 + 1e-9:
        return "a measure is out of its range"
    if abs(error**2 - (1 + ratio**2 - 2 * ratio * cosine)) > 1e-6 * (1 + ratio**2):  # the law of cosines
        return "relative_l2 does not follow from cosine and norm_ratio"
    if (error == 0) != (largest == 0):
        return "largest and relative_l2 do not agree on whether there is an error"
    return None
