"""Tables of measured results, worked out from the raw data that is kept in results/.

README has `headline`, training beside PyTorch FSDP2, and `presets`, the bytes and the loss of what can be sent.
"""

import csv
import json
import sys

import h5py
import markdown
import registry

EMULATED = "results/4x-NVIDIA-H200/emulated-nodes"
# The raw data of a row: the name of README's link, the folder, and the layout. The runs of a row are of one session;
# moments are in fp32, and weights are gathered again for backward.
STUDIES = {"nvlink": ("results/4x-NVIDIA-H200/fsdp2-plugin", "node"), "larger": ("results/2x-NVIDIA-H200/beside-fsdp2", "node"),
           "eight": ("results/8x-NVIDIA-H200/beside-fsdp2/18.7b", "node"),
           "four": ("results/4x-NVIDIA-H200/beside-fsdp2/18.7b-gathered-from-master", "node"),
           "again": ("results/4x-NVIDIA-H200/beside-fsdp2/6.86b-bf16-gradients", "node"),
           "nodes": ("results/4x-NVIDIA-H200/fsdp2-plugin", "emulated"),
           "copies": ("results/4x-NVIDIA-H200/weight-differences/6.86b", "emulated"),
           "seven": ("results/2x-NVIDIA-H200/fsdp2-exact/larger", "emulated"),
           "lossless": ("results/2x-NVIDIA-H200/fsdp2-exact/emulated", "emulated"),
           "pair": ("results/2x-NVIDIA-H200/fsdp2-plugin", "emulated"),
           "four-lanes": (f"{EMULATED}/1.64b-four-lanes", "emulated"), "each-part": (f"{EMULATED}/18.7b-each-part", "emulated"),
           "compressed": (f"{EMULATED}/18.7b-compressed", "emulated")}
CONVERGENCE = "results/host-2core/convergence"
CORPUS = "results/4x-NVIDIA-H200/text-differences/core"
DIFFERENCES = "results/4x-NVIDIA-H200/weight-differences"
INT8 = "results/2x-NVIDIA-H200/int8-gradients/judged"
MOMENTS = "results/1x-NVIDIA-H200/text-moments/judged"

# (parameters, GPUs, links between them, study, shape, runs of ZeRO++ and of zeropp.torch, parts of ZeRO++) of each row.
NODES = "2 nodes x 2"
PAIR = "2 nodes x 1"
BESIDE_FSDP2 = (("1.64 B", "4", "NVLink", "nvlink", "1.64b", "qwz-qgz", "", "qwZ, qgZ"),
                ("6.86 B", "2", "NVLink", "larger", "6.86b", "all", "", "qwZ, qgZ"),
                ("6.86 B", "4", "NVLink", "again", "6.86b", "qwz-qgz", "", "qwZ, qgZ"),
                ("18.7 B", "4", "NVLink", "four", "18.7b", "qwz-qgz", "", "qwZ, qgZ"),
                ("18.7 B", "8", "NVLink", "eight", "18.7b", "qwz-qgz", "", "qwZ, qgZ"),
                ("1.64 B", PAIR, "sockets", "lossless", "1.64b", "exact", "plugin-exact", "exact weights, qgZ"),
                ("6.86 B", PAIR, "sockets", "seven", "6.86b", "exact", "plugin-exact", "exact weights, qgZ"),
                ("1.64 B", NODES, "sockets", "nodes", "1.64b", "all", "plugin-both", "qwZ, hpZ, qgZ"),
                ("6.86 B", NODES, "sockets", "copies", "6.86b", "differences", "", "int4 differences, qgZ"))
OF_README = ("larger", "four", "lossless", "seven", "nodes")


def kept(programs, folder):
    """Where a folder of results/ lies unpacked."""
    sys.path.insert(0, str(programs.root / "validation"))
    from zpp_validate.readers import kept_results

    return kept_results.folder(programs.root / folder)


def study(programs, name, shape):
    """Per name of a run of the study, its rows as zpp-validate train-table reads them from the raw JSON."""
    rows, (folder, layout) = {}, STUDIES[name]
    folder = kept(programs, folder)
    from zpp_validate.tables import train_table

    with open(folder / "runs.tsv", newline="") as stream:
        for entry in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            if (entry["shape"], entry["layout"]) == (shape, layout):
                row = train_table.read_row(folder, entry)
                if not row.problems:  # those of a table have to be there
                    rows.setdefault(row.name, []).append(row)
    return rows


def fastest_of(rows):
    """The fastest of equal runs, of the steady ones where there are."""
    from zpp_validate.tables import train_table

    return train_table.baseline(rows)


def step(rows):
    """Milliseconds of it."""
    return fastest_of(rows).times.median * 1e3


def loss(programs, folder, setting):
    """The difference of a setting to ZeRO-3, its interval, and the verdict in words of its own."""
    with h5py.File(kept(programs, folder) / "judged.h5") as file:
        rows = file["judged"]
        index = list(rows["setting"][:]).index(setting.encode())
        mean, low, high = (rows[name][index] for name in ("difference", "low", "high"))
        from zpp_validate.convergence import judged

        verdict = judged.shown(rows["verdict"][index].decode())
        words = {judged.OPEN: "neither worse nor equal shown"}.get(verdict, verdict.replace(judged.WITHIN, f" by less than {file.attrs['margin']:g}"))
        return f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}", words


def beside_fsdp2(programs, link=None):
    """Milliseconds of a step, memory, and the bytes of a step that cross nodes with ZeRO-3 and with ZeRO++; `link`: which studies,
    with links to their raw data. Speed-ups are over the fastest FSDP2 without zeropp.torch."""
    head = ["model", "GPUs", "links", "FSDP2", "FSDP2 hybrid", "zeropp.torch", "ZeRO-3", "ZeRO++", "speed-up: zeropp.torch, ZeRO++", "parts of ZeRO++",
            "GiB: faster FSDP2, ZeRO++", "GB between nodes: ZeRO-3, ZeRO++"]
    cells = []
    for model, gpus, links, name, shape, run, torch_run, parts in BESIDE_FSDP2:
        if link is not None and name not in link:
            continue
        rows = study(programs, name, shape)
        peers = [[row for other, same in rows.items() if other.startswith(peer) for row in same] for peer in ("fsdp2", "hybrid")]
        times = [step(same) if same else None for same in (*peers, rows.get(torch_run), rows.get("none"))]
        of_fsdp2 = min((fastest_of(same) for same in peers if same), key=lambda row: row.times.median)
        compressed, fastest = step(rows[run]), of_fsdp2.times.median * 1e3
        speed_ups = ", ".join("-" if time is None else f"{fastest / time:.1f}x" for time in (times[2], compressed))
        sent = [f"{rows[each][0].counted / 1e9:.2f}" if each in rows else "-" for each in ("none", run)]
        cells.append([model if link is None else f"[{model}][{name}]", gpus, links, *("-" if time is None else f"{time:.1f}" for time in times),
                      f"{compressed:.1f}", speed_ups, parts,
                      ", ".join(f"{row.memory / 2**30:.0f}" for row in (of_fsdp2, rows[run][0])), ", ".join(sent) if links == "sockets" else "-"])
    return markdown.table(head, cells, right=(3, 4, 5, 6, 7, 8, 10, 11))


def plugin(programs):
    """FSDP2 with the plug-in between two emulated nodes: of two GPUs each, and of one."""
    names = {"fsdp2": "FSDP2", "hybrid": "FSDP2, hybrid sharding", "plugin-lanes": "zeropp.torch, no codec",
             "plugin-both-torch": "zeropp.torch, both codecs, PyTorch's process groups", "plugin-both": "zeropp.torch, both codecs", "plugin-both-hpz": "zeropp.torch, both codecs and FSDP2's hpZ",
             "qwz-qgz": "zpp_train, both codecs", "all": "zpp_train, all of ZeRO++"}
    studies = [study(programs, name, "1.64b") for name in ("nodes", "pair")]

    def cells(rows, name):
        if name not in rows:
            return ["-"] * 3
        memory = max(row.memory for row in rows[name]) / 2**30
        return [f"{step(rows[name]):.1f}", f"{step(rows['fsdp2']) / step(rows[name]):.1f}x", f"{memory:.1f}"]

    table = [[shown, *(cell for rows in studies for cell in cells(rows, name))] for name, shown in names.items()]
    return markdown.table(["1.64 B, 2 nodes", "2 GPUs: ms", "faster", "GiB", "1 GPU: ms", "faster", "GiB"], table, right=range(1, 7))


def crossings(programs):
    """From which size on a codec pays, and its speed-up at the largest size, on 8 GPUs in one node and as 2 emulated nodes."""
    rows, folder = [], kept(programs, "results/8x-NVIDIA-H200/collectives")
    from zpp_validate.plots import plot

    for place, name in (("NVLink", "001-bfloat16-node-sweep"), ("2 x 4, emulated", "003-bfloat16-emulated-sweep")):
        _, tables = plot.read(folder / "runs" / f"{name}.json", "out-of-place")
        for collective, codec, algorithm, pays, _, size, times in (row for table in tables for row in plot.crossing_rows(table)):
            rows.append([place, collective.split()[0], codec, algorithm, pays, size, times])
    return markdown.table(["link", "collective", "codec", "algorithm", "pays from", "speed-up at", "times"], rows, right=(4, 5, 6))


def headline(programs):
    """README's rows of beside_fsdp2()."""
    return beside_fsdp2(programs, OF_README)


# A preset's name, its link in README, the codecs of its weights and gradients, or bits per value, and where its loss was judged.
PRESETS = (("exact weights, 16-bit gradients", "exact", (5.3, 16), None, None),
           ("exact weights, int8 gradients", "gradients", (5.3, "int8:256"), INT8, "gradients int8:256"),
           ("int4 weight differences, int4 gradients", "differences", ("int4:128", "int4:128"), f"{DIFFERENCES}/core", "zero++ with differences"),
           ("int8 weights, 16-bit gradients", "corpus", ("int8:256", 16), CORPUS, "weights int8:256"),
           ("int8 weights, int4 gradients: ZeRO++", "corpus", ("int8:256", "int4:128"), CORPUS, "zero++"))


def presets(programs):
    """Presets: the bytes between nodes beside those of ZeRO-3, which gathers 16 bits twice and reduces 16, and the loss."""
    codecs, rows = {codec["name"]: codec for codec in programs.info()["codecs"]}, []

    def bits(sent):
        name, _, block = str(sent).partition(":")
        return registry.bits(codecs[name], int(block)) if block else sent

    for name, link, sent, folder, setting in PRESETS:
        judged = loss(programs, folder, setting) if folder else ("0", "the same bits", "equal")
        rows.append([f"[{name}][{link}]", f"{sum(map(bits, sent)) / 48:.0%}", *judged])
    return markdown.table(["between nodes", "bytes of ZeRO-3", "loss above ZeRO-3's", "95 % interval", "verdict"], rows, right=(1, 2))


def moments(programs):
    """Differences of the loss to that of AdamW with moments in fp32."""
    rows = [[what, *loss(programs, MOMENTS, setting)]
            for what, setting in (("`int8`", "moments int8"),
                                  ("`int8`, with int8 weights and int4 gradients", "zero++, moments int8"))]
    return markdown.table(["`--moments`", "loss above that of `fp32`", "95 % interval", "verdict"], rows, right=(1,))


SHORTER = {"beta=0.0,dtype=fp32,hops=both,reset_period=0": "both", "beta=0.0,dtype=fp32,hops=intra,reset_period=0": "one hop",
           "int8:128/int4:128+had32": "int4+had32",
           "not supported by the data": "not shown"}


def chapter(folder, number, columns):
    """Columns of a table of what zpp-validate converge wrote there about a matrix."""
    def made(programs):
        text = (kept(programs, folder) / "chapter.md").read_text()
        table = [block for block in text.split("\n\n") if block.startswith("|")][number]
        for words, short in SHORTER.items():
            table = table.replace(words, short)
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        chosen = [head.index(column) for column in columns]
        return markdown.table(columns, [[row[index] for index in chosen] for row in rows], right=(columns.index("difference"),))
    return made


def published_differences(programs):
    """Losses of SDP4Bit's tables over those of its baseline, and beside them our own of the corpus, where there is one."""
    figures = json.loads((programs.root / "validation/published/zeropp.json").read_text())["convergence"]["sdp4bit_validation_loss"]
    texts = [chapter(folder, 0, SETTING)(programs) for folder in (CORPUS, f"{DIFFERENCES}/core")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for text in texts for line in text.splitlines()[2:]]
    own = {row[0]: row[4] for row in rows if row[1] == "none"}
    sizes = [name for name in figures if name.endswith(("M", "B"))]
    rows = []
    for shown, column, ours in (("as they are", "baseline", ""), ("int4", "int4 weights", own["int4:128"]),
                                ("int4 differences", "int4 weight differences", own["differences int4:128"])):
        index = figures["columns"].index(column)
        rows.append([shown, f"{figures['1.3B'][index]:.4f}", *(f"{figures[size][index] - figures[size][0]:+.4f}" if index else "" for size in sizes), ours])
    return markdown.table(["weights are sent", "loss, 1.3B", *sizes, "ours, 27M"], rows, right=range(1, 3 + len(sizes)))


# Layers, width, heads, tokens of a sequence, sequences, and whether blocks are recomputed.
BREAK_EVEN = {"1.6 B, 8192 tokens": (48, 1600, 25, 1024, 8, False), "6.9 B, 8192 tokens": (32, 4096, 32, 2048, 4, False),
              "18.7 B, 4096 tokens": (40, 6144, 48, 2048, 2, False), "70 B, 4096 tokens": (80, 8192, 64, 2048, 2, True),
              "175 B, 2048 tokens": (96, 12288, 96, 2048, 1, True)}
ALWAYS = 1e13  # bytes/s: pays with every link that was tried


def break_even(programs):
    """Gbit/s per GPU between 16 nodes: each part pays below its value."""
    rows = []
    for model, (layers, width, heads, sequence, batch, recompute) in BREAK_EVEN.items():
        told = programs.plan("breakeven", "--cluster", programs.root / "inputs" / "clusters" / "h200-dgx.json", "--nodes", 16, "--num-layers", layers,
                             "--hidden-size", width, "--num-attention-heads", heads, "--seq-length", sequence, "--micro-batch-size", batch, "--bf16",
                             "--backend", "cuda", "--vocab-size", 50257, *["--recompute-activations"] * recompute)["break_even"]
        rates = dict(zip(told["feature"], told["gpu_rate"]))
        rows.append([model, *("always" if rates[part] >= ALWAYS else f"{8 * rates[part] / 1e9:,.0f}" for part in ("qwZ", "hpZ", "qgZ", "all"))])
    return markdown.table(["model, tokens per GPU", "qwZ", "hpZ", "qgZ", "all"], rows, right=range(1, 5))


# Layers, width, heads, sequence and batch of a model, and where its steps with ZeRO-3 and with ZeRO++ were measured.
LINK_SPEED = {"1.64 B": (48, 1600, 25, 1024, 8, "1.64b", "four-lanes", "four-lanes"),
              "6.86 B": (32, 4096, 32, 2048, 4, "6.86b", "copies", "copies"),
              "18.7 B": (40, 6144, 48, 512, 1, "18.7b", "each-part", "compressed")}
RATES = (10, 20, 40, 80, 160, 320)  # Gbit/s per GPU


def link_speed(programs):
    """Milliseconds of a step with ZeRO-3 and with ZeRO++ on two nodes of two H200, planned over the rate of links, and measured."""
    cluster = programs.root / "inputs" / "clusters" / "h200-2x2-emulated.json"
    lanes = {entry["lanes"]: 8 * entry["gb_per_s"] for entry in json.loads(cluster.read_text())["rails"]["lanes"]}
    rows = [[f"{rate}, planned"] for rate in RATES] + [[f"{lanes[4]:.0f}, measured"]]
    for layers, width, heads, sequence, batch, shape, *studies in LINK_SPEED.values():
        for parts, run, name in (((), "none", studies[0]), (("--zero-quantized-weights", "--zero-hpz-partition-size", 2, "--zero-quantized-gradients"), "all", studies[1])):
            for rate, row in zip(RATES, rows):
                told = programs.plan("time", "--cluster", cluster, "--rail-gb-per-s", rate / 8, "--num-layers", layers, "--hidden-size", width, "--num-attention-heads",
                                     heads, "--seq-length", sequence, "--micro-batch-size", batch, "--bf16", "--backend", "cuda", "--vocab-size", 50257, *parts)
                row.append(f"{told['time']['step_seconds'] * 1e3:,.0f}")
            rows[-1].append(f"{step(study(programs, name, shape)[run]):,.0f}")
    return markdown.table(["Gbit/s per GPU", *(f"{model}, {what}" for model in LINK_SPEED for what in ("ZeRO-3", "ZeRO++"))], rows, right=range(1, 7))


def savings(programs):
    """The table of `zpp_plan savings --table`."""
    rows = [[row["codec"], f"{row['bytes_per_value']:.4f}", f"{row['scale_overhead']:.2%}", f"{row['bytes_per_step']:.4f}",
             f"{row['reduction_fp32']:.2f}x", f"{row['reduction_16bit']:.2f}x"] for row in programs.plan("savings", "--table")["rows"]]
    return markdown.table(["codec", "bytes per value", "scales over codes", "bytes per step", "vs fp32 (8)", "vs 16 bit (4)"], rows, right=range(1, 6))


SETTING = ["weights", "gradients", "feedback", "bits", "difference", "95 % interval", "verdict"]
CLAIM = ["claim", "difference", "95 % interval", "p", "verdict"]
TABLES = {
    "headline": headline, "presets": presets, "steps": beside_fsdp2, "plugin": plugin, "crossings": crossings, "savings": savings, "break-even": break_even,
    "link-speed": link_speed,
    "safe-known-entropy": chapter(f"{CONVERGENCE}/reduced", 0, SETTING),
    "safe-text": chapter(f"{CONVERGENCE}/order", 0, SETTING),
    "safe-order": chapter(f"{CONVERGENCE}/order", 1, CLAIM),
    "safe-corpus": chapter(CORPUS, 0, SETTING),
    "safe-differences": chapter(f"{DIFFERENCES}/core", 0, SETTING),
    "safe-differences-all": chapter(f"{DIFFERENCES}/all", 0, SETTING),
    "safe-published": published_differences, "safe-moments": moments,
    "safe-corpus-all": chapter("results/4x-NVIDIA-H200/text-differences/all", 0, SETTING),
}
