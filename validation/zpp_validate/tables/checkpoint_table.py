"""What checkpoints cost, from the runs of jobscripts/local/checkpoint_times.sh.

usage: zpp-validate checkpoint-table STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: the disk's own rate (raw writes of as many processes, before
and after), the rate at which checkpoints were written, how long training waited for them, and whether a run that was
ended and gone on has the weights of one that never stopped. Exits with 1 where that is not so, a run failed, or one is
missing."""

import statistics

from zpp_validate.readers import session_runs
from zpp_validate.tables import markdown_table

RUNS = ("raw-before", "unsaved", "saved", "raw-after", "whole", "first-half", "second-half")


def step_times(run):
    return run["steps"]["time"][run["warmup"]:]


def interval_of(run):
    return run["config"]["zeropp"]["checkpoint"]["interval"]


def numbers(runs):
    """[(what, value)] for the table."""
    saved, unsaved = runs["saved"], runs["unsaved"]
    rows = saved["checkpoints"]
    timed = range(len(rows["step"]) - 1)  # the run waits for its last one
    size = statistics.median(rows["bytes"])
    raw = [runs[name]["bytes"] / runs[name]["seconds"] for name in ("raw-before", "raw-after")]
    rates = [rows["bytes"][i] / rows["time_writing"][i] for i in timed]
    rate = statistics.median(rates)
    pauses = [rows["time_paused"][i] for i in timed]
    pause = statistics.median(pauses)
    plain, beside = statistics.median(step_times(unsaved)), statistics.median(step_times(saved))
    interval = interval_of(saved)
    return [
        ("ranks", str(saved["world_size"])),
        ("checkpoint", f"{size / 1e9:.3f} GB, every {interval} steps, {len(timed)} timed"),
        ("raw write, before and after", f"{raw[0] / 1e9:.3f} and {raw[1] / 1e9:.3f} GB/s"),
        ("checkpoints are written at", f"{rate / 1e9:.3f} GB/s ({min(rates) / 1e9:.3f} to {max(rates) / 1e9:.3f}): "
                                       f"{100 * rate / statistics.mean(raw):.0f} % of the raw write"),
        ("training waits for one", f"{1e3 * pause:.1f} ms ({1e3 * min(pauses):.1f} to {1e3 * max(pauses):.1f}): "
                                   f"{100 * pause / (interval * plain):.2f} % of the steps between two"),
        ("step without saving", f"{1e3 * plain:.1f} ms"),
        ("step while checkpoints are written", f"{1e3 * beside:.1f} ms: {100 * (beside / plain - 1):+.1f} %"),
        ("ended, gone on", "the same weights, bit for bit" if same_weights(runs) else "OTHER WEIGHTS"),
    ]


def same_weights(runs):
    whole, rest = runs["whole"], runs["second-half"]
    return rest["first_step"] > 0 and whole["parameters_hash"] != "" and (
        whole["parameters_hash"] == rest["parameters_hash"])


def table_of(runs):
    return markdown_table.aligned(("what", "value"), numbers(runs), ("what", "value")), same_weights(runs)


def main(words):
    return session_runs.main(words, "checkpoint-table", __doc__, RUNS, table_of)
