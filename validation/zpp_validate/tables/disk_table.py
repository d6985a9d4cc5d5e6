"""How fast offload to files moves master weights and states, beside the disk's own rate, from the runs of
jobscripts/local/offload_disk.sh.

usage: zpp-validate disk-table STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: a row for each run of training with the optimizer in files:
bytes that all ranks read and write in a step, the median time of its update (the step without forward and backward:
norm, transfers, AdamW), their rate, and what share it is of the disk's, read and written at once, between the raw
rounds before and after (their mean); the share of the update in which ranks waited for the files; how they were
transferred. Exits with 1 where a run failed or trained other weights than the one without offload."""

import statistics

from zpp_validate.readers import session_runs
from zpp_validate.tables import markdown_table

STOCK, RAW = "in-memory", ("raw-before", "raw-after")
COLUMNS = ("run", "GB a step", "transfers", "update ms", "GB/s", "of the disk", "waiting", "host MB", "path", "weights")


def rate(run, what):
    return run[what]["bytes"] / run[what]["seconds"]


def update_times(run):
    steps = run["steps"]
    return [whole - forward - backward for whole, forward, backward
            in zip(steps["time"], steps["time_forward"], steps["time_backward"])][run["warmup"]:]


def row_of(name, run, stock, disk):
    counters = dict(zip(run["counters"]["name"], run["counters"]["value"]))
    steps = len(run["steps"]["time"])
    moved = (counters["file_bytes_read"] + counters["file_bytes_written"]) / steps
    update = statistics.median(update_times(run))
    waiting = counters.get("file_wait_ns", 0) / 1e9 / steps / run["world_size"]
    held = sum(size for part, size in zip(run["memory"]["name"], run["memory"]["bytes_actual"])
               if part.startswith("offloaded_"))
    path = [word for word, counter in (("io_uring", "files_io_uring"), ("O_DIRECT", "files_direct"))
            if counter in counters]
    return [name, f"{moved / 1e9:.3f}", f"{(counters['file_reads'] + counters['file_writes']) / steps:.0f}",
            f"{1e3 * update:.0f}",
            f"{moved / update / 1e9:.3f}", f"{moved / update / disk:.2f}", f"{waiting / update:.2f}",
            f"{held / 1e6:.1f}",
            " ".join(path) or "threads", "the same" if run["parameters_hash"] == stock["parameters_hash"] != ""
            else "OTHER"]


def table_of(runs):
    disk = statistics.mean(rate(runs[name], "both") for name in RAW)
    rows = [row_of(name, run, runs[STOCK], disk) for name, run in runs.items() if name not in (STOCK, *RAW)]
    table = markdown_table.aligned(COLUMNS, rows, ("run", "path", "weights"))
    raw = "\n".join(f"{name}: " + ", ".join(f"{what} {rate(runs[name], what) / 1e9:.3f} GB/s"
                                            for what in ("written", "read", "both"))
                    for name in RAW)
    return f"{table}\n\n{raw}", all(row[-1] != "OTHER" for row in rows)


def main(words):
    return session_runs.main(words, "disk-table", __doc__, (STOCK, *RAW), table_of)
