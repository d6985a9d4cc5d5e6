"""Rows of /checkpoints, by the rules of lib/trace/README.md: which there have to be, how many bytes they hold, and that
their times can be."""

import math


def expected_steps(first, done, interval):
    """Steps after which a run that began after `first` and did all up to `done` saves itself, where nothing asked it to
    end."""
    return [step for step in range(first + 1, done + 1) if step == done or interval > 0 and step % interval == 0]


def array_bytes(flats, moments, errors, widths, copies):
    """Bytes of all ranks' arrays: fp32 master weights of units with `flats` elements, `moments` bytes of the optimizer,
    `errors` bytes of error feedback, the adaptive bits of `widths` units, and `copies` bytes of the copies that weight
    differences are added to."""
    return 4 * sum(flats) + moments + errors + 8 * widths + copies


def problem(row, expected):
    """Why a row is impossible, or None. `expected`: bytes."""
    if row["bytes"] != expected:
        return f"bytes are {row['bytes']}, should be {expected}"
    if not all(0 < row[name] < math.inf for name in ("time_paused", "time_writing")):
        return "a time is not above 0"
    return None
