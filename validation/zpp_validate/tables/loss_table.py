"""Held-out losses of plain FSDP2 and of zeropp.torch.compress(), from the file of jobscripts/local/plugin_losses.py
--json.

usage: zpp-validate loss-table losses.json [--output TABLE.md]

Losses are in nats a byte. Counted are the seeds from which every setting was trained; the difference is the mean over
pairs of one seed, with Student's 95 % interval. The column "compressed" is the share of collectives that were. Exits
with 2 where a file has fewer than two such seeds."""

import json
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Unfit, reading
from zpp_validate.tables import markdown_table

PLAIN, LEVEL = "plain FSDP2", 0.95
COLUMNS = ("setting", "held-out loss", "spread of seeds", "difference", "95 % interval", "compressed")


def table(losses):
    """`losses`: for PLAIN and each setting, dicts with seed, held_out and compressed. Throws ValueError where they have
    fewer than two seeds in common."""
    from zpp_validate.stats import paired  # SciPy, which whoever reads PLAIN alone can do without

    seeds = sorted(set.intersection(*({run["seed"] for run in runs} for runs in losses.values())))
    if len(seeds) < 2:
        raise Unfit(f"{len(seeds)} seeds of every setting are there, 2 are needed: run more")
    by_seed = {name: {run["seed"]: run["held_out"] for run in runs} for name, runs in losses.items()}
    rows = []
    for name, runs in losses.items():
        held_out = [by_seed[name][seed] for seed in seeds]
        row = [name, f"{sum(held_out) / len(held_out):.4f}", f"{paired.of(held_out).spread:.4f}", "", "", ""]
        if name != PLAIN:
            pairs = paired.of([by_seed[name][seed] - by_seed[PLAIN][seed] for seed in seeds])
            low, high = pairs.interval(LEVEL)
            row[3:] = f"{pairs.mean:+.4f}", f"{low:+.4f} to {high:+.4f}", f"{runs[0]['compressed']:.0%}"
        rows.append(row)
    return markdown_table.aligned(COLUMNS, rows, {"setting"})


def main(words):
    parser = command_line.parser("loss-table", __doc__)
    parser.add_argument("file", type=command_line.InputFile, metavar="FILE", help="JSON of plugin_losses.py")
    parser.add_argument("--output", type=Path, metavar="TABLE.md")
    arguments = parser.parse_args(words)
    with reading(arguments.file, "whole file of plugin_losses.py --json", "name what it wrote at its end"):
        text = table(json.loads(arguments.file.read_text())["losses"]) + "\n"
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text)
    return 0
