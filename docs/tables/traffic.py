"""Tables of bytes and memory, planned by `zpp_plan` and worked out a second time from the closed forms that the pages name.

The example of all pages: a GPT of 18.8 billion parameters on 8 nodes of 8 GPUs.
"""

import json
import pathlib
import tempfile

import markdown

NODES, GPUS = 8, 8
MODEL = ["--num-layers", "40", "--hidden-size", "6144", "--num-attention-heads", "48", "--seq-length", "2048", "--vocab-size", "51200",
         "--no-tied-head", "--bf16", "--recompute-activations"]
QWZ = ["--zero-quantized-weights"]
HPZ = ["--zero-hpz-partition-size", str(GPUS)]
QGZ = ["--zero-quantized-gradients"]
DIFFERENCES = [*QWZ, *HPZ, *QGZ, "--weight-differences"]

ACROSS = (NODES - 1) / NODES
INT8 = 1 + 2 / 256  # bytes per value: codes, and a bf16 scale per block
INT4 = 0.5 + 2 / 128
TOLERANCE = 0.001  # of what padding adds to the closed form


class Plan:
    """The answer of zpp_plan for one configuration."""

    def __init__(self, programs, *flags, nodes=NODES, gpus=GPUS, model=MODEL):
        self.plan = programs.plan("--nodes", nodes, "--ranks-per-node", gpus, *model, *flags)
        self.nodes = nodes

    def parameters(self):
        return sum(tensor["elements"] for tensor in self.rows("tensors"))

    def rows(self, name):
        columns = self.plan[name]
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def sent(self, operation=None, phase=None, purpose=None):
        """GB out of one node in a step."""
        wanted = {key: value for key, value in (("operation", operation), ("phase", phase), ("purpose", purpose)) if value}
        return sum(row["wire_bytes_inter"] for row in self.rows("collectives")
                   if all(row[key] == value for key, value in wanted.items())) / self.nodes / 1e9

    def memory(self, *parts):
        """GiB of a rank."""
        return sum(row["bytes"] for row in self.rows("memory") if row["name"] in parts) / 2**30

    def on_gpu(self):
        """GiB of a rank, but for what lies in the memory of the host."""
        return self.plan["job"]["memory_bytes"] / 2**30


def agreed(formula, planned):
    """The planned number, once the closed form has come to the same."""
    if abs(formula - planned) > TOLERANCE * max(formula, planned):
        raise ValueError(f"the closed form gives {formula:.3f}, zpp_plan {planned:.3f}")
    return f"{planned:.2f}"


TRAFFIC = ["traffic", "closed form", "GB out of a node"]


def stages(programs):
    rows = []
    for stage in range(4):
        plan = Plan(programs, "--zero-stage", stage)
        full = 2 * plan.parameters() / 1e9 * ACROSS
        sent = {0: "gradients: reduced in 16 bits, gathered in fp32", 1: "gradients reduced, weights gathered",
                2: "gradients reduced, weights gathered", 3: "weights gathered twice, gradients reduced"}[stage]
        state = plan.memory("master", "moments", "gradient_shard", "compute_shard", "resident_weights", "local_gradients")
        rows.append([stage, sent, agreed(full * (3 if stage in (0, 3) else 2), plan.sent()), f"{state:.1f}"])
    return markdown.table(["stage", "what a step sends", "GB out of a node", "GiB of state per GPU"], rows, right=(2, 3))


def gathers(programs, flags, formulas):
    """Rows of the two gathers and the reduction, with `formulas`: (words, bytes per parameter) each."""
    plan = Plan(programs, *flags)
    billions = plan.parameters() / 1e9 * ACROSS
    planned = [plan.sent("all_gather", "forward"), plan.sent("all_gather", "backward"), plan.sent("reduce_scatter")]
    names = ["weights, forward", "weights, backward", "gradients"]
    rows = [[name, words, agreed(each * billions, sent)] for name, (words, each), sent in zip(names, formulas, planned)]
    rows.append(["step", "", agreed(sum(each for _, each in formulas) * billions, plan.sent())])
    return markdown.table(TRAFFIC, rows, right=(2,))


FULL = ("(K - 1) / K x 2 P", 2)
CODED = ("(K - 1) / K x P (1 + 2/256)", INT8)
REDUCED = ("(K - 1) / K x P (1/2 + 2/128)", INT4)
NOTHING = ("0", 0)


def zero3(programs):
    return gathers(programs, [], [FULL, FULL, FULL])


def qwz(programs):
    return gathers(programs, QWZ, [CODED, CODED, FULL])


def hpz(programs):
    return gathers(programs, HPZ, [FULL, NOTHING, FULL])


def qgz(programs):
    return gathers(programs, QGZ, [FULL, FULL, REDUCED])


def everything(programs):
    return gathers(programs, QWZ + HPZ + QGZ, [CODED, NOTHING, REDUCED])


def differences(programs):
    return gathers(programs, DIFFERENCES, [("(K - 1) / K x P (1/2 + 2/128)", INT4), NOTHING, REDUCED])


def differences_beside(programs):
    """ZeRO++ with weight differences and without, beside ZeRO-3."""
    cases = [("ZeRO-3", []), ("ZeRO++", QWZ + HPZ + QGZ), ("ZeRO++ with weight differences", DIFFERENCES)]
    sent = {name: Plan(programs, *flags).sent() for name, flags in cases}
    rows = [[name, f"{sent[name]:.2f}", f"{sent['ZeRO-3'] / sent[name]:.2f}x"] for name, _ in cases]
    return markdown.table(["configuration", "GB out of a node", "less than ZeRO-3"], rows, right=(1, 2))


def differences_resident(programs):
    """Stage 2, where every rank holds all weights: uncompressed, with whole weights in 8 bits, and with differences."""
    rows, first = [], None
    for name, flags, weights, gradients in (("ZeRO-2", [], 2, 2), ("qwZ and qgZ", [*QWZ, *QGZ], INT8, INT4),
                                            ("weight differences and qgZ", [*QWZ, *QGZ, "--weight-differences"], INT4, INT4)):
        plan = Plan(programs, "--zero-stage", 2, *flags)
        billions = plan.parameters() / 1e9 * ACROSS
        first = first or plan.sent()
        rows.append([name, agreed(weights * billions, plan.sent("all_gather", "update")), agreed(gradients * billions, plan.sent("reduce_scatter")),
                     f"{plan.sent():.2f}", f"{first / plan.sent():.2f}x"])
    return markdown.table(["configuration", "weights, GB out of a node", "gradients", "step", "less than ZeRO-2"], rows, right=(1, 2, 3, 4))


def parts(programs):
    """Each part alone and all of them, beside ZeRO-3."""
    cases = [("ZeRO-3", []), ("qwZ", QWZ), ("hpZ", HPZ), ("qgZ", QGZ), ("ZeRO++", QWZ + HPZ + QGZ)]
    sent = {name: Plan(programs, *flags).sent() for name, flags in cases}
    rows = [[name, f"{sent[name]:.2f}", f"{sent['ZeRO-3'] / sent[name]:.2f}x"] for name, _ in cases]
    return markdown.table(["configuration", "GB out of a node", "less than ZeRO-3"], rows, right=(1, 2))


def micro_steps(programs):
    """Bytes with several micro-steps: the secondary copy serves the forward passes after the first, too."""
    rows = []
    for count in (1, 2, 4):
        plain, all_parts = (Plan(programs, *flags, "--gradient-accumulation-steps", count) for flags in ([], QWZ + HPZ + QGZ))
        billions = plain.parameters() / 1e9 * ACROSS
        agreed(6 * count * billions, plain.sent())
        rows.append([count, f"{plain.sent():.2f}", agreed((INT8 + count * INT4) * billions, all_parts.sent()),
                     f"{plain.sent() / all_parts.sent():.2f}x"])
    return markdown.table(["micro-steps per step", "ZeRO-3, GB out of a node", "ZeRO++", "less"], rows, right=(0, 1, 2, 3))


def partitions(programs):
    """Memory of the secondary copy, by the number of ranks that hold it."""
    rows = []
    for size in (8, 16, 32):
        plan = Plan(programs, "--zero-hpz-partition-size", size)
        rows.append([size, agreed(2 * plan.parameters() / size / 2**30, plan.memory("secondary")), f"{plan.sent(phase='backward', purpose='weights_secondary'):.2f}", f"{plan.sent():.2f}"])
    return markdown.table(["ranks that hold one copy", "GiB per GPU", "backward gathers, GB out of a node", "step"], rows, right=(0, 1, 2, 3))


def places(programs):
    """Where the secondary copy lies: memory of a rank on the GPU and of the host, and what a step sends."""
    rows = []
    on_host = ["--hpz-device", "cpu"]
    for name, flags in (("ZeRO-3", []), ("ZeRO-3 with `--all-gather-algorithm direct`", ["--all-gather-algorithm", "direct"]), ("hpZ", HPZ),
                        ("hpZ with `--hpz-device cpu`", [*HPZ, *on_host]), ("the same with weight differences", [*QWZ, *HPZ, "--weight-differences", *on_host])):
        plan = Plan(programs, *flags)
        copy = 2 * plan.parameters() / GPUS / 2**30
        host = plan.memory("offloaded_secondary")
        rows.append([name, f"{plan.on_gpu():.2f}", agreed(copy if "cpu" in flags else 0, host), f"{plan.sent():.2f}"])
    return markdown.table(["configuration", "GiB per GPU", "GiB of the host for each GPU", "GB out of a node"], rows, right=(1, 2, 3))


def less_memory(programs):
    """Memory of a GPU that each option saves, beside ZeRO-3 with hpZ that keeps all activations; bytes that it leaves to
    the host."""
    model = [word for word in MODEL if word != "--recompute-activations"]
    plain = Plan(programs, *HPZ, model=model)
    parameters, ranks = plain.parameters() / 2**30, NODES * GPUS
    rows = []
    for flags, words, each in ((["--update-in-backward"], "4 P / N, but for three slabs", None), (["--moments", "bf16"], "4 P / N", 4 / ranks),
                               (["--moments", "int8"], "(8 - 2 x 68 / 64) P / N", (8 - 2 * 68 / 64) / ranks), (["--hpz-device", "cpu"], "2 P / H", 2 / GPUS),
                               (["--recompute-activations"], "activations of blocks", None),
                               (["--recompute-activations", "--cpu-checkpointing"], "their inputs too", None),
                               (["--offload-optimizer", "cpu"], "(12 - 2) P / N", 10 / ranks),
                               (["--offload-optimizer", "cpu", "--offload-param", "cpu"], "12 P / N", 12 / ranks)):
        plan = Plan(programs, *HPZ, *flags, model=model)
        saved = plain.on_gpu() - plan.on_gpu()
        host = plan.memory(*(row["name"] for row in plan.rows("memory") if row["name"].startswith("offloaded_")))
        rows.append([f"`{' '.join(flags)}`", words, f"{saved:.2f}" if each is None else agreed(each * parameters, saved), f"{host:.2f}"])
    return markdown.table(["option", "saves, in bytes", "GiB less per GPU", "GiB of the host for each GPU"], rows, right=(2, 3))


def feedback(programs):
    """Memory of the kept errors."""
    plain = Plan(programs, *QGZ)
    rows = []
    for hops, dtype in (("intra", "fp32"), ("inter", "fp32"), ("both", "fp32"), ("both", "int8")):
        plan = Plan(programs, *QGZ, "--error-feedback", hops, "--error-feedback-dtype", dtype)
        known = {row["name"] for row in plain.rows("memory")}
        added = plan.memory(*(row["name"] for row in plan.rows("memory") if row["name"] not in known))
        rows.append([f"`{hops}`", f"`{dtype}`", f"{added:.1f}", f"{added * 2**30 / plan.parameters():.2f}"])
    return markdown.table(["hops", "kept in", "GiB per GPU", "bytes per parameter"], rows, right=(2, 3))


MODELS = {"Llama-3.1-8B": "llama3_1_8b", "Llama-3.1-70B": "llama3_1_70b",
          "Mistral-Small-24B": "Mistral-Small-24B-Base-2501", "Qwen3-30B-A3B": "Qwen3-30B-A3B"}
CLUSTERS = {"4 of 8 A100, 200 Gbit/s": (4, ["--gpu", "a100", "--node-gbit", "200", "--node-links", "2"]),
            "3 of 8 L40S, 25 Gbit/s": (3, ["--gpu", "l40s", "--node-gbit", "25"])}


def compare_models(programs):
    """ZeRO-3 by hand and planned, and the fastest row that fits, lossy or not."""
    known = json.loads((pathlib.Path(__file__).parents[2] / "tests" / "cli" / "hf_models.json").read_text())
    memory = {"a100": 80, "l40s": 45}  # GiB
    shown = {"all": "ZeRO++ (all)", "all+differences": "+differences", "hpZ+exact": "+exact",
             "hpZ+qgZ+exact": "+exact +qgZ", "hpZ+qgZ+exact+int8": "+exact +int8", "hybrid": "hybrid",
             "hybrid+qgZ": "hybrid +qgZ", "stage 2": "stage 2", "stage 1": "stage 1"}
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for cluster, (nodes, flags) in CLUSTERS.items():
            for name, key in MODELS.items():
                config = pathlib.Path(place) / f"{key}.json"
                config.write_text(json.dumps(known[key]["config"]))
                told = programs.asked("zpp_plan", "compare", "--hf-config", config, "--bf16", "--nodes", nodes,
                                      "--gpus-per-node", GPUS, "--seq-length", 4096, "--micro-batch-size", 1,
                                      "--recompute-activations", *flags, "--output", place)
                columns = told["comparison"]
                rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
                by_hand = 6 * known[key]["parameters"] * (nodes - 1) / nodes / 1e9
                sent = agreed(by_hand, rows[0]["bytes_out_of_node"] / 1e9)
                fits = [row for row in rows if row["memory"] < 0.99 * memory[flags[1]] * 2**30]
                best = max(fits, key=lambda row: row["speedup"], default=None)
                said = ["none fits", "-", "-"] if best is None else [
                    f"`{shown.get(best['feature'], '+' + best['feature'])}`", f"{best['bytes_out_of_node'] / 1e9:.1f}", f"{best['speedup']:.2f}"]
                lines.append([name, cluster, f"{by_hand:.1f}", sent, f"{rows[0]['step_seconds'] * 1e3:,.0f}", *said])
    return markdown.table(["model", "nodes", "GB by hand", "ZeRO-3 GB", "its ms", "fastest row", "its GB", "speed-up"],
                          lines, right=(2, 3, 4, 6, 7))


TABLES = {"compare-models": compare_models, "stages": stages, "places": places, "less-memory": less_memory, "zero3": zero3, "qwz": qwz, "hpz": hpz, "qgz": qgz, "all-parts": everything, "parts": parts, "differences": differences,
          "differences-beside": differences_beside, "differences-resident": differences_resident,
          "micro-steps": micro_steps, "partitions": partitions, "feedback": feedback}
