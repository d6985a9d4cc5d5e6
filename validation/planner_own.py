"""Steps that were measured on H200, in the traces of results/, against `zpp_plan time`. The cluster files come from the
measured rates of kernels and rails (`zpp_plan calibrate`) and from four constants, fitted on the traces CALIBRATED_ON
alone; all other traces are predicted, with the configuration that each of them holds.
"""

import csv
import dataclasses
import json
import pathlib
import statistics

# By machine of results/, which cluster file stands for a study: rails as they were measured in its session.
STUDIES = {
    "4x-NVIDIA-H200": {
        "1.64b-node-a": "h200-4x-node", "1.64b-node-b": "h200-4x-node", "6.86b-node": "h200-4x-node", "18.7b-node-a": "h200-4x-node",
        "18.7b-node-b": "h200-4x-node", "1.64b-emulated": "h200-2x2-emulated", "1.64b-emulated-lanes/1": "h200-2x2-emulated",
        "1.64b-emulated-lanes/4-one-group": "h200-2x2-emulated", "1.64b-emulated-lanes/8": "h200-2x2-emulated",
        "1.64b-emulated-one-lane": "h200-2x2-emulated", "18.7b-emulated": "h200-2x2-emulated-b",
        "18.7b-emulated-single": "h200-2x2-emulated-b", "1.64b-emulated-4x4": "h200-2x2-emulated-4x4"},
    "8x-NVIDIA-H200": {"1.64b-node": "h200-dgx", "18.7b-node": "h200-dgx"},
}
CLUSTERS = dict.fromkeys(cluster for studies in STUDIES.values() for cluster in studies.values())  # each once, in order
CALIBRATED_RAILS = "h200-2x2-emulated-4x4"

CALIBRATED_ON = ["1.64b-node-b/none", "6.86b-node/none", "18.7b-node-b/none", "18.7b-node-b/qwz-qgz"]
# No bandwidth of these rails was measured apart: the one of the trace.
CALIBRATED_RAILS_ON = "1.64b-emulated-4x4/none"
RAIL_CONSTANT = ("rails.lanes.0.gb_per_s", "GB/s of a rail with 4 x 4 sockets, in one collective", 2, 30)
RING = ("rails.ring_gb_per_s", "GB/s that leave a node in the vendor's ring; not fitted: published for 2 x 4 such nodes", 2, 30)
TWO_LANES = 1.4  # times what one carries: measured with default sockets

CONSTANTS = [("gpu.step_share", "what kernels reach within a step, of what each reaches alone", 0.8, 1),
             ("gpu.layer_gap_us", "us a layer and pass: launches, tails and small kernels", 0, 300),
             ("node_links.gpu_share", "what a transfer over NVLink takes from compute beside it", 0.05, 0.4),
             ("node_links.most_gb_per_s", "GB/s of all transfers of a GPU together, of 450", 290, 400)]


@dataclasses.dataclass
class Trace:
    name: str  # study/features, with the machine's number of GPUs before those of another than 4
    cluster: str
    measured: float  # s, median of the timed steps
    config: str
    nodes: int
    ranks_per_node: int
    predicted: float = 0.0

    @property
    def fitted(self):
        return self.name in CALIBRATED_ON or self.name == CALIBRATED_RAILS_ON

    @property
    def kind(self):
        return "emulated nodes" if self.nodes > 1 else f"one node of {self.ranks_per_node}"

    @property
    def error(self):
        return abs(self.predicted / self.measured - 1)

    def job(self, changes=None):
        return {"cluster": self.cluster, "config": self.config, "changes": changes,
                "flags": ["--nodes", self.nodes, "--ranks-per-node", self.ranks_per_node]}


def warm_ups(study):
    """Steps that are not timed in a study's runs, as its list of runs has them."""
    with (study / "runs.tsv").open() as file:
        (untimed,) = {int(row["warmup"]) for row in csv.DictReader(file, delimiter="\t")}
    return untimed


def read_traces(results):
    traces, seen = [], {}
    for machine, study, cluster in [(machine, *study) for machine, studies in STUDIES.items() for study in studies.items()]:
        folder = pathlib.Path(results) / machine / study
        untimed = warm_ups(folder)
        for file in sorted((folder / "runs").glob("*.json")):
            trace = json.loads(file.read_text())
            if trace.get("app") != "train":  # a peer's
                continue
            features = file.stem.split("-", 1)[1].rsplit("emulated-" if "emulated" in file.stem else "node-", 1)[1]
            name = f"{machine[0]}x/".removeprefix("4x/") + f"{study}/{features.removeprefix('4x4-')}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            traces.append(Trace(name, cluster, statistics.median(trace["steps"]["time"][untimed:]), trace["config_json"],
                                trace["node_count"], trace["ranks_per_node"]))
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
    middle = [(a + b) / 2 for a, b in zip(low, high)]
    found = scipy.optimize.least_squares(errors, middle, bounds=(low, high), x_scale=middle, diff_step=0.01, max_nfev=12)
    return dict(zip(paths, map(float, found.x)))
