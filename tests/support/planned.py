"""Runs zpp_plan for tests, and sets what it says of a run beside the trace that the run left: bytes to the byte, memory
by part."""

import json
import pathlib
import tempfile

import zpp
from zpp_validate.readers import trace_format

PLAN = str(zpp.BIN / "zpp_plan")
MEASURED = ("buffers_peak", "gpu_used")  # of the whole process: no parts
MODEL = ["--num-layers", "4", "--hidden-size", "128", "--seq-length", "64", "--vocab-size", "512", "--bf16"]


class Program(zpp.TestCase):
    """Runs zpp_plan in the test's folder."""

    def plan(self, *words):
        return zpp.Process([PLAN, *words], cwd=self.folder).end()

    def planned(self, *words):
        """(result, JSON)"""
        result = self.check_ok(self.plan(*words, "--output", self.out, "--json", self.folder / "plan.json"))
        return result, json.loads((self.folder / "plan.json").read_text())

    def refused(self, *words, parts, code=zpp.USAGE):
        return self.check_fails(self.plan(*words), code, *parts, program="zpp_plan")


def plan(trace, step=None):
    """The plan of the run that `trace` (a dict, as of zpp_train --json) is of, as zpp_plan --json writes it. `step`:
    which one; else the first that no evaluation comes right before, where there is one."""
    config = trace_format.without_removed(json.loads(trace["config_json"]))
    if step is None:
        step = 1 if config["zeropp"].get("evaluation_interval", 0) > 1 else 0
    config["plan"] = {"nodes": trace["node_count"], "ranks_per_node": trace["ranks_per_node"], "step": step}
    with tempfile.TemporaryDirectory(prefix="zpp-plan-") as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(json.dumps(config))
        result = zpp.Process([PLAN, "--config", folder / "config.json", "--output", folder,
                              "--json", folder / "plan.json"]).end()
        if result.code != zpp.OK:
            raise AssertionError(str(result))
        return json.loads((folder / "plan.json").read_text())


def traffic(planned):
    """Bytes of the plan as {phase: (intra, inter)}."""
    table = planned["traffic"]
    return dict(zip(table["phase"], zip(table["bytes_intra_node"], table["bytes_inter_node"])))


def step_bytes(trace, planned):
    """Bytes that the plan has for each step of the trace: [(intra, inter), ...]. A step that was skipped updates no
    weights, so that the next finds hpZ's shards as they are; so does a step after an evaluation."""
    expected = traffic(planned)
    ordinary, unchanged, update = (expected[name] for name in ("step", "step, weights unchanged", "update"))
    evaluated = set(trace["evaluations"]["step"])
    skipped = trace["steps"]["skipped"]
    bytes_of = []
    for step, is_skipped in enumerate(skipped):
        same_weights = step in evaluated or (step > 0 and skipped[step - 1])
        found = unchanged if same_weights else ordinary
        bytes_of.append(tuple(a - b for a, b in zip(found, update)) if is_skipped else found)
    return bytes_of


def sends_differences(trace):
    """Whether the first step of a run sends whole weights and later steps differences. Below stage 3 a gather before
    the first step sends the whole weights."""
    config = json.loads(trace["config_json"])
    return config["zero_optimization"]["stage"] == 3 and config["zeropp"].get("weight_differences", False)


def sends_exact(trace):
    """Whether the run sends exact differences, whose bytes depend on the weights: a plan assumes them."""
    return json.loads(trace["config_json"])["zeropp"].get("exact_differences", False)


def wrong_steps(trace, planned, first=None):
    """Lines, one for each step whose bytes are not as planned; `first`: the plan of the first step, where that is
    another. A plan of exact differences has the bytes of the first step alone."""
    steps = trace["steps"]
    lines = []
    exact = sends_exact(trace)
    expected_of = step_bytes(trace, planned)
    if first:
        expected_of[0] = traffic(first)["step"]
    for step, expected in enumerate(expected_of[:1] if exact and first else [] if exact else expected_of):
        for kind, value in zip(("intra", "inter"), expected):
            for column in (f"bytes_{kind}_node", f"bytes_predicted_{kind}_node"):
                if steps[column][step] != value:
                    lines.append(f"step {step}: {column} is {steps[column][step]}, planned {value}")
    return lines


KEYS = ("operation", "purpose", "phase", "algorithm", "codec", "group", "path", "modelled")


def by_key(table):
    """Calls and bytes of each collective. The algorithm inside hpZ's group is chosen by the machine, and sends the same
    bytes: a plan of another machine has another."""
    columns = {name: ["any" if purpose == "weights_secondary" and name in ("algorithm", "path", "modelled") else value
                      for value, purpose in zip(table[name], table["purpose"])] for name in KEYS}
    return {key: values for key, values in zip(zip(*columns.values()),
                                               zip(table["calls"], table["wire_bytes_intra"],
                                                   table["wire_bytes_inter"]))}


def wrong_collectives(trace, planned, but=(), first=None):
    """Lines, one for each collective of a run of equal steps that is not as planned; `first`: the plan of the first
    step. Collectives of purposes in `but` are left out."""
    steps = len(trace["steps"]["loss"])
    but = (*but, *("weights_difference",) * sends_exact(trace))
    found = {key: values for key, values in by_key(trace["collectives"]).items() if key[2] != "initial"
             and key[1] not in but}
    expected = {}
    for plan_of, count in ((first or planned, 1), (planned, steps - 1)):
        for key, values in by_key(plan_of["collectives"]).items():
            if key[1] not in but:
                expected[key] = tuple(before + count * value
                                      for before, value in zip(expected.get(key, (0, 0, 0)), values))
    return [f"{' '.join(map(str, key))}: {found.get(key)}, planned {expected.get(key)} calls and bytes"
            for key in sorted(found.keys() | expected.keys(), key=str) if found.get(key) != expected.get(key)]


def parts(trace):
    """Memory of the trace as {part: (predicted by the engine, held)}."""
    memory = trace["memory"]
    return {name: (predicted, actual) for name, predicted, actual
            in zip(memory["name"], memory["bytes_predicted"], memory["bytes_actual"]) if name not in MEASURED}


def planned_parts(planned):
    return dict(zip(planned["memory"]["name"], planned["memory"]["bytes"]))


def wrong_memory(trace, planned, but=()):
    """Lines, one for each part whose bytes are not as planned; not those in `but`."""
    found, expected = parts(trace), planned_parts(planned)
    return [f"memory {name}: held {found.get(name)}, planned {expected.get(name)}"
            for name in sorted((found.keys() | expected.keys()) - set(but))
            if found.get(name) != (expected.get(name), expected.get(name))]
