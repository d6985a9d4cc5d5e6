"""What each key that limits ZeRO does to memory, bytes and time of a step, from the runs of
jobscripts/local/limit_keys.sh.

usage: zpp-validate limit-table STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: memory of a rank with its arena, gathers of weights and
reductions of a rank and step, bytes that all ranks send in a step, the median step, and whether the run trained the
weights of the stock one: all but shard groups add gradients in the same order. Exits with 1 where that is not so, a run
failed, or the stock one is missing."""

import statistics

from zpp_validate.readers import session_runs
from zpp_validate.tables import markdown_table

STOCK = "stock"
OTHER_ORDER = ("shard_group_size",)  # of additions, over groups
COLUMNS = ("key", "memory MB", "arena MB", "gathers", "reductions", "MB in a node", "MB between", "step ms",
           "of stock", "weights")


def a_step(run, column):
    """Of the steps after the warm-up; bytes are those of the last, which differs from no other."""
    return run["steps"][column][run["warmup"]:]


def calls(run, operation, purpose):
    """In a step."""
    table = run["collectives"]
    steps = len(run["steps"]["loss"])
    return sum(count for count, of, why, phase in zip(table["calls"], table["operation"], table["purpose"],
                                                      table["phase"])
               if (of, why) == (operation, purpose) and phase != "initial") / steps


def same_weights(run, stock):
    return run["parameters_hash"] == stock["parameters_hash"] != ""


def row_of(name, run, stock):
    memory = dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))
    held = sum(size for part, size in memory.items() if part not in ("buffers_peak", "gpu_used"))
    step, of_stock = (statistics.median(a_step(each, "time")) for each in (run, stock))
    return [name, f"{held / 1e6:.1f}", f"{memory['arena'] / 1e6:.1f}", f"{calls(run, 'all_gather', 'weights'):.1f}",
            f"{calls(run, 'reduce_scatter', 'gradients'):.0f}",
            *(f"{a_step(run, f'bytes_{where}_node')[-1] / 1e6:.1f}" for where in ("intra", "inter")),
            f"{1e3 * step:.0f}", f"{step / of_stock:.2f}",
            "the same" if same_weights(run, stock) else "other order" if name.startswith(OTHER_ORDER) else "OTHER"]


def table_of(runs):
    rows = [row_of(name, run, runs[STOCK]) for name, run in runs.items()]
    return markdown_table.aligned(COLUMNS, rows, ("key", "weights")), all(row[-1] != "OTHER" for row in rows)


def main(words):
    return session_runs.main(words, "limit-table", __doc__, (STOCK,), table_of)
