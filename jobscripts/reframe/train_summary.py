"""The JSON summary of zpp_train (--json): what is wrong with it, and the figures that a check keeps.

Bytes across nodes are derived again from the run's own units and configuration by validation/zpp_validate/forms/closed_forms.py, which
shares no code with the library. Standard library only.
"""

import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "validation"))
from zpp_validate.forms import closed_forms  # noqa: E402
from zpp_validate.readers import trace_format  # noqa: E402
from zpp_validate.stats import sample_statistics  # noqa: E402

FINITE = ("loss", "grad_norm", "time", "tokens_per_second")


class TrainSummary:
    """One run; `warmup` steps come before those that are timed."""

    def __init__(self, path, warmup):
        self.document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.warmup = warmup

    def problems(self, nodes, ranks_per_node):
        """Reasons why this is no valid, complete trace of a run on that many ranks; empty: none."""
        document = self.document
        expected = {"schema": trace_format.SCHEMA, "schema_version": trace_format.SCHEMA_VERSION, "app": "train",
                    "verdict": "VALID", "world_size": nodes * ranks_per_node, "node_count": nodes,
                    "ranks_per_node": ranks_per_node}
        found = [f"{name} is {document.get(name)!r}, not {value!r}" for name, value in expected.items()
                 if document.get(name) != value]
        names = set(trace_format.TEXT_ATTRIBUTES + trace_format.INTEGER_ATTRIBUTES + trace_format.REAL_ATTRIBUTES)
        names -= {"complete"}  # of the HDF5 file alone: a summary under its final name is complete
        found += [f"no attribute {name}" for name in sorted(names - set(document))]
        for group, columns in trace_format.COLUMNS.items():
            found += self.problems_of_group(group, columns)
        return found or self.problems_of_steps()

    def problems_of_group(self, group, columns):
        table = self.document.get("parameter_units" if group == "units" else group, {})
        missing = [f"no column {group}/{name}" for name in columns if name not in table]
        if missing:
            return missing
        lengths = {len(table[name]) for name in columns}
        if len(lengths) > 1:
            return [f"the columns of {group} have different lengths"]
        if lengths == {0} and group not in trace_format.MAY_BE_EMPTY:
            return [f"{group} is empty"]
        return []

    def problems_of_steps(self):
        steps, wanted = self.document["steps"], self.document["config"]["zeropp"]["train_steps"]
        if len(steps["time"]) != wanted:
            return [f"{len(steps['time'])} steps are there, {wanted} were to be trained"]
        if wanted <= self.warmup:
            return [f"no step is left to time: {wanted} steps, of which {self.warmup} are warm-up"]
        return [f"steps/{name} is not finite" for name in FINITE
                if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in steps[name])]

    def timed(self, column):
        return self.document["steps"][column][self.warmup:]

    def step_time(self):
        """Median over the timed steps, s."""
        return sample_statistics.summarize(self.timed("time")).median

    def tokens_per_second_per_rank(self):
        """Median over the timed steps; on GPUs a rank has one GPU."""
        median = sample_statistics.summarize(self.timed("tokens_per_second")).median
        return median / self.document["world_size"]

    def bytes_across_nodes(self):
        """Counted in the last step, sum over all ranks, B."""
        return self.document["steps"]["bytes_inter_node"][-1]

    def derived_bytes_across_nodes(self):
        """The same, from the closed form."""
        tensors = self.document["tensors"]
        unit_tensors = [[] for _ in self.document["parameter_units"]["name"]]
        for unit, elements in zip(tensors["unit"], tensors["elements"]):
            unit_tensors[unit].append(elements)
        layers = [[int(unit) for unit in units.split(",") if unit] for units in self.document["layers"]["units"]]
        run = closed_forms.Run(closed_forms.Settings.of(self.document["config"]),
                               closed_forms.Topology(tuple(self.document["ranks"]["node"])), unit_tensors, layers,
                               self.document["parameter_units"]["name"])
        evaluations = list(zip(self.document["evaluations"]["step"], self.document["evaluations"]["batches"]))
        return run.replay(self.document["steps"]["skipped"], evaluations).steps[-1].inter
