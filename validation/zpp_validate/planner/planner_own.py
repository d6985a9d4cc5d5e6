"""Steps that were measured on H200, in the traces of results/, against `zpp_plan time`. The cluster files come from the
measured rates of kernels and rails (`zpp_plan calibrate`) and from four constants, fitted on the traces CALIBRATED_ON
alone; all other traces are predicted, with the configuration that each of them holds. The host rates for offload were
measured separately, in the sessions of its runs.
"""

import csv
import dataclasses
import json
import math
import pathlib
import statistics

from zpp_validate.readers import kept_results, trace_format
from zpp_validate.stats import sample_statistics
from zpp_validate.tables.train_table import NOISY

# Nodes of one GPU each; their rails were measured once, before the first of these studies.
EMULATED_ON_TWO = [f"emulated-nodes/{study}" for study in ("one-lane", "eight-lanes", "four-lanes", "sixteen-lanes",
                                                           "eight-lanes-second-session",
                                                           "eight-lanes-vendor-gathers")]
# Nodes of one GPU and of two, with weight differences and without; no rails were measured in these sessions.
DIFFERENCES_ON_TWO = [f"weight-differences/{study}" for study in ("1.64b", "1.64b-beside-fsdp2", "1.64b-third",
                                                                 "9.4b")]
DIFFERENCES_ON_FOUR = ["weight-differences/6.86b", "weight-differences/6.86b-hybrid-keeps-weights"]
# One node of two GPUs, without a shard in 16 bits beside the master.
MEMORY = [f"memory/{study}" for study in ("gathered-from-master", "update-in-backward", "moments-bf16", "moments-int8",
                                          "moments-int8-in-backward", "other-shapes", "other-shapes-in-backward")]
# One node of two GPUs, whose weights are encoded at each gather or once a step.
KEPT_IMAGES = [f"kept-images/{study}" for study in ("encoded-at-each-gather", "kept-images",
                                                    "moments-bf16-encoded-at-each-gather",
                                                    "moments-bf16-kept-images",
                                                    "moments-bf16-kept-images-after-backward",
                                                    "moments-int8-kept-images",
                                                    "moments-int8-kept-images-after-backward",
                                                    "moments-int8-two-quads",
                                                    "moments-int8-two-quads-in-backward")]
# One node of two GPUs, whose units stay whole from forward to backward.
WEIGHTS_KEPT = [f"weights-kept/{study}" for study in ("written-int8", "written-bf16", "written-fp32",
                                                      "written-by-updates", "both-and-zero3",
                                                      "gathered-again-bf16", "gathered-again-fp32", "6.86b",
                                                      "6.86b-gathered-again", "1.64b-eager-and-compiled")]
# One node of two GPUs, beside variants of FSDP2.
VARIANTS = [f"fsdp2-variants/{study}" for study in ("9.4b", "9.4b-without-kept-images")]
# Four GPUs, without a shard in 16 bits beside the master.
GATHERED_FROM_MASTER = ["18.7b-gathered-from-master", "18.7b-moments-bf16-in-backward", "18.7b-encoded-at-each-gather",
                        "18.7b-kept-images",
                        "18.7b-kept-images-moments-bf16-in-backward", "18.7b-kept-images-moments-int8",
                        "18.7b-kept-images-two-quads", "18.7b-weights-kept", "18.7b-units-whole",
                        "18.7b-variants", "6.86b-bf16-gradients", "6.86b-kept-images", "6.86b-units-whole",
                        "1.64b-units-whole"]
# By machine of results/, which cluster file stands for a study: rails as they were measured in its session, and since
# 397c432, which starts the lanes of a rail in one NCCL group, with a bench_rails that does so too
# (h200-2x2-emulated-b).
STUDIES = {
    "1x-NVIDIA-H200": {"offload-to-host/optimizer-and-largest-model": "h200-1x-host",
                       "offload-to-host/optimizer-and-weights": "h200-1x-host",
                       "steps-of-one-gpu": "h200-1x-host", "beside-pytorch/compiled": "h200-1x-host",
                       "beside-pytorch/compiled-1.64b": "h200-1x-host",
                       "beside-pytorch/compiled-second": "h200-1x-host",
                       "beside-pytorch/compiled-1.64b-second": "h200-1x-host"},
    "2x-NVIDIA-H200": {"gradients-in-bf16": "h200-4x-node", "copy-engines": "h200-4x-node",
                       "many-reductions/two-at-a-time": "h200-4x-node",
                       "beside-fsdp2": "h200-4x-node",
                       **dict.fromkeys([*MEMORY, *KEPT_IMAGES, *VARIANTS, *WEIGHTS_KEPT], "h200-4x-node"),
                       "weight-differences/1.64b-nvlink": "h200-4x-node",
                       **dict.fromkeys([*EMULATED_ON_TWO, *DIFFERENCES_ON_TWO], "h200-2x1-emulated")},
    "4x-NVIDIA-H200": {
        **{f"beside-fsdp2/{study}": "h200-4x-node" for study in ("1.64b-tuned", "6.86b", "18.7b-first-session",
                                                                 "18.7b-second-session", "18.7b-bf16-gradients",
                                                                 *GATHERED_FROM_MASTER)},
        **{f"emulated-nodes/{study}": cluster for study, cluster in (
            ("1.64b-four-lanes", "h200-2x2-emulated"), ("1.64b-all-one-lane", "h200-2x2-emulated"),
            ("1.64b-all-four-lanes-one-group", "h200-2x2-emulated-b"), ("1.64b-all-eight-lanes", "h200-2x2-emulated"),
            ("1.64b-one-lane", "h200-2x2-emulated"), ("1.64b-four-lanes-second-session", "h200-2x2-emulated-b"),
            ("1.64b-shard-groups", "h200-2x2-emulated-b"), ("18.7b-compressed", "h200-2x2-emulated-b"),
            ("18.7b-each-part", "h200-2x2-emulated-b"), ("1.64b-4x4-sockets", "h200-2x2-emulated-4x4"))},
        **dict.fromkeys(DIFFERENCES_ON_FOUR, "h200-2x2-emulated-b"), "deepspeed-tutorial": "h200-4x-node"},
    "8x-NVIDIA-H200": {"beside-fsdp2/1.64b": "h200-dgx", "beside-fsdp2/18.7b": "h200-dgx"},
}
CLUSTERS = dict.fromkeys(cluster for studies in STUDIES.values() for cluster in studies.values())  # each once, in order
# Steps that are not timed, of studies without a list of runs.
WARM_UPS = {"gradients-in-bf16": 3, "copy-engines": 3, "deepspeed-tutorial": 5, "steps-of-one-gpu": 3,
            "many-reductions/two-at-a-time": 5}
# Studies of programs that have two reductions under way; earlier programs began one when the one before it had ended.
REDUCTIONS_TOGETHER = {f"2x-NVIDIA-H200/{study}" for study in ("many-reductions/two-at-a-time", "beside-fsdp2", *MEMORY,
                                                               *KEPT_IMAGES, *VARIANTS, *EMULATED_ON_TWO,
                                                               *DIFFERENCES_ON_TWO,
                                                               "weight-differences/1.64b-nvlink")}
REDUCTIONS_TOGETHER |= {f"4x-NVIDIA-H200/{study}"
                        for study in (*(f"beside-fsdp2/{each}" for each in GATHERED_FROM_MASTER), *DIFFERENCES_ON_FOUR)}
CALIBRATED_RAILS = "h200-2x2-emulated-4x4"

CALIBRATED_ON = [f"beside-fsdp2/{run}" for run in ("1.64b-tuned/none", "6.86b/none", "18.7b-second-session/none",
                                                   "18.7b-second-session/qwz-qgz")]
# On one GPU layers lose no time to kernels of NCCL beside them: the constant has its own value there.
ALONE = "h200-1x-host"
CALIBRATED_ALONE_ON = ["1x/steps-of-one-gpu/gpt-2.6b", "1x/steps-of-one-gpu/gpt-3.9b"]
ALONE_CONSTANT = ("gpu.layer_gap_us", "us per layer and pass on one GPU", 0, 300)
# No bandwidth of these rails was measured apart: the one of the trace.
CALIBRATED_RAILS_ON = "emulated-nodes/1.64b-4x4-sockets/none"
RAIL_CONSTANT = ("rails.lanes.0.gb_per_s", "GB/s of a rail with 4 x 4 sockets, in one collective", 2, 30)
RING = ("rails.ring_gb_per_s", "GB/s that leave a node in the vendor's ring; not fitted: published for 2 x 4 such "
        "nodes", 2, 30)
TWO_LANES = 1.4  # times what one carries: measured with default sockets

CONSTANTS = [("gpu.step_share", "what kernels reach within a step, of what each reaches alone", 0.8, 1),
             ("gpu.layer_gap_us", "us per layer and pass: launches, tails and small kernels", 0, 300),
             ("node_links.gpu_share", "what a transfer over NVLink takes from compute beside it", 0.05, 0.4),
             ("node_links.most_gb_per_s", "GB/s of all transfers of a GPU together, of 450", 290, 400)]


@dataclasses.dataclass
class Trace:
    name: str  # study/features, with the machine's number of GPUs before those of another than 4
    cluster: str
    steps: list  # s, the timed ones
    config: str
    nodes: int
    ranks_per_node: int
    reductions: int  # at a time, of the program
    predicted: float = 0.0

    @property
    def fitted(self):
        return self.name in [*CALIBRATED_ON, *CALIBRATED_ALONE_ON, CALIBRATED_RAILS_ON]

    @property
    def measured(self):
        return statistics.median(self.steps)

    @property
    def offloads(self):
        return json.loads(self.config)["zero_optimization"].get("offload_optimizer", {}).get("device", "none") != "none"

    @property
    def kind(self):
        if self.offloads:
            return "offload to the host"
        if self.nodes > 1:
            return f"emulated nodes of {self.ranks_per_node}"
        return "one GPU" if self.ranks_per_node == 1 else f"one node of {self.ranks_per_node}"

    @property
    def error(self):
        return abs(self.predicted / self.measured - 1)

    @property
    def error_beyond(self):
        """Beyond the 95 % interval of the median of its own steps."""
        own = sample_statistics.summarize(self.steps)
        return max(0, self.predicted - own.high, own.low - self.predicted) / self.measured

    @property
    def noisy(self):
        """As the tables of training studies flag it."""
        return sample_statistics.summarize(self.steps).variation > NOISY

    @property
    def without_offload(self):
        """The name of the run that differs from this one by the offload alone."""
        study, features = self.name.rsplit("/", 1)
        return f"{study}/step-none-{features.rsplit('-', 1)[1]}"

    def job(self, changes=None):
        changes = {"engine.reductions_at_a_time": self.reductions, **(changes or {})}
        return {"cluster": self.cluster, "config": self.config, "changes": changes,
                "flags": ["--nodes", self.nodes, "--ranks-per-node", self.ranks_per_node]}


def warm_ups(folder, study, stems):
    """Steps that are not timed, by a run's stem; of one that its study does not list, as many as all of the listed ones
    have."""
    if study in WARM_UPS:
        return dict.fromkeys(stems, WARM_UPS[study])
    with (folder / "runs.tsv").open() as file:
        listed = {row["stem"]: int(row["warmup"]) for row in csv.DictReader(file, delimiter="\t")}
    unlisted = set(stems) - set(listed)
    if unlisted:
        (same,) = set(listed.values())
        listed.update(dict.fromkeys(unlisted, same))
    return listed


def features_of(stem):
    """Features that a file names: "all" for 004-1.64b-emulated-4x4-all. A file without a number has its stem."""
    name = stem.split("-", 1)[1] if stem[0].isdigit() else stem
    for layout in ("emulated-", "node-"):
        if layout in name:
            return name.rsplit(layout, 1)[1].removeprefix("4x4-")
    return name


def read_traces(results):
    traces, seen = [], {}
    for machine, study, cluster in [(machine, *study) for machine, studies in STUDIES.items()
                                    for study in studies.items()]:
        folder = kept_results.folder(pathlib.Path(results) / machine / study)
        files = sorted((folder if study in WARM_UPS else folder / "runs").glob("*.json"))
        runs = {file.stem: trace for file in files if (trace := json.loads(file.read_text())).get("app") == "train"}
        untimed = warm_ups(folder, study, runs)
        for stem, trace in runs.items():
            name = f"{machine[0]}x/".removeprefix("4x/") + f"{study}/{features_of(stem)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            config = trace_format.without_removed(json.loads(trace["config_json"]))
            for key, before in (("copy_engines", "off"), ("rail_lanes", 1)):  # of a time before them
                config["zeropp"].setdefault(key, before)
            traces.append(Trace(name, cluster, trace["steps"]["time"][untimed[stem]:], json.dumps(config),
                                trace["node_count"],
                                trace["ranks_per_node"], 2 if f"{machine}/{study}" in REDUCTIONS_TOGETHER else 1))
    return traces


def linked(constants):
    """Two collectives at a time, on two lanes, carry more than one."""
    path = RAIL_CONSTANT[0]
    second = {path.replace("0", "1"): TWO_LANES * constants[path]} if path in constants else {}
    return {**constants, **second}


def predict(planner, traces, changes=None):
    for trace, time in zip(traces, planner.times([trace.job(changes) for trace in traces])):
        trace.predicted = time["step_seconds"]
    return traces


def fit(planner, traces, names, constants):
    """The constants that make the errors of the traces `names` least, within what is plausible."""
    import scipy.optimize

    chosen = [trace for trace in traces if trace.name in names]
    paths = [path for path, *_ in constants]

    def errors(values):
        predict(planner, chosen, linked(dict(zip(paths, map(float, values)))))
        return [trace.predicted / trace.measured - 1 for trace in chosen]

    low, high = [least for *_, least, _ in constants], [most for *_, most in constants]
    middle = [math.sqrt(a * b) if a > 0 else b / 2 for a, b in zip(low, high)]
    found = scipy.optimize.least_squares(errors, middle, bounds=(low, high), x_scale=middle, diff_step=0.01,
                                         max_nfev=12)
    return dict(zip(paths, map(float, found.x)))
