"""One table from sweeps over collectives on the same ranks: zpp_sweep beside its peers.

usage: zpp-validate sweep-table FILE... [--place out-of-place|in-place] [--output TABLE.md]

FILE is a JSON of zpp_sweep, of nccl-tests, or of zpp-validate peer-collectives. For each collective, group and type: a
row a size, a column a codec and algorithm (and a pipeline depth above 1); times are medians of the raw samples,
computed here in the same way for all. Prints Markdown and writes it to TABLE.md. Exits with 1 when a sweep is INVALID,
with 2 when a FILE is no sweep or they are of other ranks. Needs no package.
"""

import json
import statistics
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Problem, reading
from zpp_validate.readers import sweep_file
from zpp_validate.tables import markdown_table

LEGEND = """A cell: median time in us (bus bandwidth in GB/s, of uncompressed bytes; for codecs: times faster than the \
fastest
uncompressed one of that size which is no peer's).
"""


def read(path):
    """(name of the program where it is a peer or "", sweep)"""
    with reading(path, "sweep", "name the JSON of zpp_sweep, nccl-tests or zpp-validate peer-collectives"):
        document = json.loads(path.read_text(encoding="utf-8"))
        sweep = sweep_file.read_sweep(document)
        sweep.config["pipeline_depth"] = int(sweep.config.get("pipeline_depth", 1))
    if not sweep.rows:
        raise Problem(f"{path} holds no time: run the sweep again")
    return document.get("peer") or ("" if document.get("schema") == sweep_file.SCHEMA else "nccl-tests"), sweep


def columns_of(sweeps, place):
    """{(collective, group, type, operation, root): {column: {size: Row}}}; columns of peers come last."""
    tables = {}
    for peer, sweep in sorted(sweeps, key=lambda entry: entry[0] != ""):
        for key, row in sweep.rows.items():
            if key.place != place:
                continue
            table = tables.setdefault((key.collective, key.group, key.type, key.redop, key.root), {})
            depth = sweep.config["pipeline_depth"]
            chunks = f"depth {depth}" if depth > 1 else ""
            sizes = table.setdefault(" ".join(filter(None, (peer, key.codec, key.algorithm, key.transport, chunks))),
                                     {})
            if key.size in sizes:
                raise Problem(f"two files have the row {key}: name one of them")
            sizes[key.size] = (peer, key.codec, row)
    return tables


def shown(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def cell(entry, baseline):
    if entry is None:
        return "-"
    _, codec, row = entry
    median = statistics.median(row.samples)
    # That of the file is of its mean.
    words = [f"{row.bus_bw * row.time / median:.2f}"] if row.bus_bw is not None else []
    words += [f"{baseline / median:.2f}x"] if codec != "none" and baseline else []
    return f"{shown(median)} ({', '.join(words)})"


def lines_of(columns):
    names = list(columns)
    sizes = sorted({size for rows in columns.values() for size in rows})
    cells = []
    for size in sizes:
        entries = [columns[name].get(size) for name in names]
        plain = [statistics.median(row.samples) for peer, codec, row in filter(None, entries) if codec == "none"
                 and not peer]
        cells.append([sweep_file.bytes_text(size), *(cell(entry, min(plain, default=None)) for entry in entries)])
    return markdown_table.aligned(("size", *names), cells, set())


def title_of(words):
    collective, group, dtype, redop, root = words
    return " ".join([collective, group, dtype, *[redop] * (redop not in ("none", "")), *[f"root {root}"] * (root >= 0)])


def main(words):
    parser = command_line.parser("sweep-table", __doc__)
    parser.add_argument("files", type=command_line.InputFile, nargs="+", metavar="FILE",
                        help="JSON of zpp_sweep, nccl-tests or the peer")
    parser.add_argument("--place", choices=list(sweep_file.PLACES.values()), default="out-of-place",
                        help="[out-of-place]")
    parser.add_argument("--output", type=Path, metavar="TABLE.md")
    arguments = parser.parse_args(words)
    sweeps = [read(path) for path in arguments.files]
    layouts = sorted({sweep.layout for _, sweep in sweeps})
    if len(layouts) > 1:
        raise Problem(f"the files are of other ranks: {' / '.join(layouts)}: name those of one")
    tables = columns_of(sweeps, arguments.place)
    if not tables:
        raise Problem(f"no row is {arguments.place}: name the other --place")
    lines = []
    for words, columns in tables.items():
        lines += [f"## {title_of(words)}, {layouts[0]}, {arguments.place}", "", lines_of(columns), ""]
    invalid = [f"{path}: {sweep.verdict}" for path, (_, sweep) in zip(arguments.files, sweeps)
               if sweep.verdict != "VALID"]
    text = "\n".join([*lines, *invalid, *[""] * bool(invalid)]) + "\n" + LEGEND
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text)
    return 1 if invalid else 0
