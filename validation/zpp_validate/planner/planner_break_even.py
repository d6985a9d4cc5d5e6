"""When ZeRO++ pays: the bandwidth between nodes below which a step is at least 5 % shorter, against model size and
nodes.

    zpp-validate break-even --program build/bin/zpp_plan --output results/planner

Runs `zpp_plan breakeven` for each model and number of nodes and writes break_even.md and break_even.png.
"""

import concurrent.futures
import pathlib
import tempfile

from zpp_validate import command_line
from zpp_validate.planner import planner_run
from zpp_validate.tables import markdown_table

ROOT = pathlib.Path(__file__).resolve().parents[3]
AT_A_TIME = 4
NODES = [2, 4, 16, 64, 256]
FEATURES = ["qwZ", "hpZ", "qgZ", "all"]
LINKS_AS_SOLD = [100, 200, 400]  # Gbit/s a GPU
ALWAYS = 1e13  # bytes/s: pays with every link that was tried
GIGABIT = 1e9 / 8

# Name: layers, width, heads, sequence, micro-batch, recompute. Large models run with few tokens a GPU, as memory
# allows.
MODELS = {"1.6 B, 8192 tokens": (48, 1600, 25, 1024, 8, False), "6.9 B, 8192 tokens": (32, 4096, 32, 2048, 4, False),
          "18.7 B, 4096 tokens": (40, 6144, 48, 2048, 2, False), "70 B, 4096 tokens": (80, 8192, 64, 2048, 2, True),
          "175 B, 2048 tokens": (96, 12288, 96, 2048, 1, True)}


def break_even(program, cluster, model, nodes):
    """{feature: Gbit/s a GPU}."""
    layers, width, heads, sequence, batch, recompute = MODELS[model]
    flags = ["--num-layers", layers, "--hidden-size", width, "--num-attention-heads", heads, "--seq-length", sequence,
             "--micro-batch-size", batch, "--bf16", "--backend", "cuda", "--vocab-size", 50257, "--nodes", nodes,
             *(["--recompute-activations"] if recompute else [])]
    with tempfile.TemporaryDirectory(prefix="break-even-") as name:
        rows = planner_run.run(program, "breakeven", cluster, pathlib.Path(name), flags)
    return {feature: rate / GIGABIT for feature, rate in zip(rows["feature"], rows["gpu_rate"])}


def shown(rate):
    if rate == 0:
        return "never"
    return "always" if rate >= ALWAYS / GIGABIT else f"{rate:,.0f}"


def table(results):
    header = ["model", *(f"{nodes} nodes" for nodes in NODES)]
    parts = []
    for feature in FEATURES:
        cells = [[model, *(shown(results[model, nodes][feature]) for nodes in NODES)] for model in MODELS]
        parts.append(f"{feature}, Gbit/s a GPU:\n\n{markdown_table.aligned(header, cells, ['model'])}")
    return "\n\n".join(parts)


def draw(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    top = 3200
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
             "grid.color": "#e4e4e4",
             "axes.axisbelow": True}
    with matplotlib.rc_context(style):
        figure, panels = plt.subplots(1, len(FEATURES), figsize=(13, 4.2), layout="constrained", sharey=True)
        for axes, feature in zip(panels, FEATURES):
            for model, color in zip(MODELS, ["#444444", "#0072b2", "#009e73", "#e69f00", "#cc3377"]):
                rates = [results[model, nodes][feature] for nodes in NODES]
                axes.plot(range(len(NODES)), [min(max(rate, 10), top) for rate in rates], marker="o", markersize=4,
                          color=color,
                          label=model)
            for link in LINKS_AS_SOLD:
                axes.axhline(link, color="#999999", linewidth=0.8, linestyle=":")
            axes.set(title=feature, xlabel="nodes of 8 H200", yscale="log", ylim=(9, top * 1.15))
            axes.set_xticks(range(len(NODES)), NODES)
            axes.set_yticks([10, 30, 100, 200, 400, 1000, top], ["never", "30", "100", "200", "400", "1000", "always"])
        panels[0].set_ylabel("pays below, Gbit/s a GPU")
        figure.get_layout_engine().set(rect=(0, 0.08, 1, 0.92))  # room for the legend
        figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=len(MODELS), loc="lower center")
        figure.suptitle("A step at least 5 % shorter than ZeRO-3's (dotted: links as sold)", fontweight="bold")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def main(words):
    parser = command_line.parser("break-even", __doc__)
    parser.add_argument("--program", default=ROOT / "build" / "bin" / "zpp_plan", type=pathlib.Path)
    parser.add_argument("--cluster", default=ROOT / "inputs" / "clusters" / "h200-dgx.json",
                        type=command_line.InputFile)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    asked = parser.parse_args(words)
    jobs = [(model, nodes) for model in MODELS for nodes in NODES]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        found = list(pool.map(lambda job: break_even(asked.program, asked.cluster, *job), jobs))
    results = dict(zip(jobs, found))
    asked.output.mkdir(parents=True, exist_ok=True)
    (asked.output / "break_even.md").write_text(table(results) + "\n")
    draw(results, asked.output / "break_even.png")
    print(table(results))
