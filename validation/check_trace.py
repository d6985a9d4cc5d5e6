#!/usr/bin/env python3
"""Judges a trace of zpp_train: prints VALID, or INVALID: reason, one reason a line.

Reads nothing but the file: is it complete, are its numbers sane, and are the bytes that it counted,
and those that it predicted, the ones that follow from its own units and configuration?

Exit codes: 0 valid, 1 invalid, 2 usage.
"""

import argparse
import hashlib
import json
import math
import sys

import h5py
import numpy as np

from closed_forms import MODELLED, Bytes, Run, Settings, Topology
import trace_format as fmt


class Invalid(Exception):
    """A reason after which the rest cannot be judged."""


def text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Trace:
    """The file in memory: attributes, and columns as lists."""

    def __init__(self, path):
        self.problems = []
        self.attributes, self.columns, self.data = {}, {}, {}
        try:
            with h5py.File(path, "r") as file:
                self.read_attributes(file)
                for group, columns in fmt.COLUMNS.items():
                    self.columns[group] = self.read_group(file, group, columns)
                if "env" not in file:
                    self.problem("no group /env")
                self.read_data(file)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            self.problem(f"cannot be read: {' '.join(str(error).split())}")

    def problem(self, reason):
        self.problems.append(reason)

    def read_attributes(self, file):
        for name in fmt.TEXT_ATTRIBUTES + fmt.INTEGER_ATTRIBUTES:
            if name not in file.attrs:
                self.problem(f"no attribute {name}")
                continue
            value = file.attrs[name]
            is_integer = isinstance(value, np.integer)
            if is_integer != (name in fmt.INTEGER_ATTRIBUTES):
                self.problem(f"attribute {name} has the wrong type")
            self.attributes[name] = int(value) if is_integer else text(value)

    def read_group(self, file, group, columns):
        if group not in file:
            self.problem(f"no group /{group}")
            return {}
        values = {}
        for name, kind in columns.items():
            if name not in file[group]:
                self.problem(f"no column /{group}/{name}")
                continue
            dataset = file[group][name]
            for attribute in ("units", "description"):
                if attribute not in dataset.attrs:
                    self.problem(f"/{group}/{name} has no attribute {attribute}")
            if dataset.dtype.kind != kind or dataset.ndim != 1:
                self.problem(f"/{group}/{name} has the wrong type or shape")
                continue
            if dataset.chunks is None or not dataset.fletcher32:
                self.problem(f"/{group}/{name} carries no checksum")
            values[name] = ([text(v) for v in dataset[()]] if kind == "S"
                            else dataset[()].tolist())
        lengths = {len(v) for v in values.values()}
        if len(lengths) > 1:
            self.problem(f"columns of /{group} differ in length")
        elif lengths == {0} and group not in fmt.MAY_BE_EMPTY:
            self.problem(f"/{group} is empty")
        return values

    def read_data(self, file):
        if "data" not in file:
            self.problem("no group /data")
            return
        for name in fmt.DATA_ATTRIBUTES:
            if name not in file["data"].attrs:
                self.problem(f"/data has no attribute {name}")
            else:
                self.data[name] = file["data"].attrs[name]

    def rows(self, group):
        columns = self.columns[group]
        return [dict(zip(columns, values)) for values in zip(*columns.values())]


class Checker:
    def __init__(self, trace):
        self.trace = trace
        self.problems = []
        self.attributes = trace.attributes
        self.steps = trace.rows("steps")

    def require(self, condition, reason):
        if not condition:
            self.problems.append(reason)
        return bool(condition)

    def check(self):
        try:
            self.check_identity()
            self.check_ranks()
            self.check_steps()
            self.check_evaluations()
            self.check_structure()
            self.check_bytes()
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def check_identity(self):
        a = self.attributes
        self.require(a["complete"] == 1, "not complete")
        self.require(a["schema"] == fmt.SCHEMA, f"schema {a['schema']!r}")
        self.require(a["schema_version"] == fmt.SCHEMA_VERSION,
                     f"schema version {a['schema_version']!r}")
        self.require(a["verdict"] == "VALID", f"the run itself says {a['verdict']}")
        self.require(hashlib.sha256(a["config_json"].encode()).hexdigest() == a["config_hash"],
                     "config_hash is not the hash of config_json")
        try:
            self.config = json.loads(a["config_json"])
            self.settings = Settings.of(self.config)
            own = self.config["zeropp"]
            self.require(own["seed"] == a["seed"], "seed differs from the configuration's")
            self.require(int(own["deterministic"]) == a["deterministic"],
                         "deterministic differs from the configuration's")
            self.expected_steps = own["train_steps"]
            self.tokens = self.config["train_batch_size"] * own["model"]["seq_length"]
            parts = (self.config["train_micro_batch_size_per_gpu"] * self.settings.accumulation
                     * a["world_size"])
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"config_json is not an effective configuration: {error!r}") from error
        self.require(parts == self.config["train_batch_size"], "the batch sizes do not agree")
        self.require(not own["node_size"] or
                     (a["emulated"] == 1 and a["ranks_per_node"] == own["node_size"]),
                     "declared nodes are not marked emulated, or have another size")

    def check_ranks(self):
        a, ranks = self.attributes, self.trace.columns["ranks"]
        nodes = ranks["node"]
        self.require(len(nodes) == a["world_size"], "/ranks has not world_size rows")
        self.require(nodes == sorted(nodes) and len(set(nodes)) == a["node_count"],
                     "/ranks/node does not fit node_count")
        self.topology = Topology(tuple(nodes))
        self.require((self.topology.ranks_per_node or 0) == a["ranks_per_node"],
                     "/ranks/node does not fit ranks_per_node")
        first = {node: nodes.index(node) for node in nodes}
        self.require(ranks["local_rank"] == [r - first[n] for r, n in enumerate(nodes)],
                     "/ranks/local_rank does not count inside nodes")

    def check_steps(self):
        self.require(len(self.steps) == self.expected_steps,
                     f"{len(self.steps)} steps of {self.expected_steps}")
        for i, row in enumerate(self.steps):
            where = f"step {i}"
            self.require(row["skipped"] in (0, 1), f"{where}: skipped is no flag")
            for name in ("loss", "grad_norm"):
                self.require(row["skipped"] or math.isfinite(row[name]),
                             f"{where}: {name} is not finite, and the step was not skipped")
            self.require(row["skipped"] or row["grad_norm"] >= 0, f"{where}: grad_norm < 0")
            if self.require(math.isfinite(row["time"]) and row["time"] > 0,
                            f"{where}: time is not positive"):
                rate = row["tokens_per_second"] * row["time"]
                self.require(math.isclose(rate, self.tokens, rel_tol=1e-6),
                             f"{where}: tokens_per_second * time is not {self.tokens} tokens")
            for name in ("time_forward", "time_backward", "time_communication_exposed"):
                self.require(0 <= row[name] <= row["time"] * 1.001,
                             f"{where}: {name} is not within the step's time")
            self.require(math.isfinite(row["learning_rate"]) and row["learning_rate"] >= 0,
                         f"{where}: learning_rate")
        counters = dict(zip(self.trace.columns["counters"]["name"],
                            self.trace.columns["counters"]["value"]))
        for row in self.trace.rows("timers"):
            self.require(math.isfinite(row["seconds"]) and row["seconds"] >= 0,
                         f"timer {row['category']} of rank {row['rank']}")
        if "nonfinite_steps" in counters:
            skipped = sum(row["skipped"] for row in self.steps)
            self.require(counters["nonfinite_steps"] == skipped * self.attributes["world_size"],
                         "counter nonfinite_steps is not the skipped steps, summed over ranks")

    def check_evaluations(self):
        rows = self.trace.columns["evaluations"]
        self.evaluations = rows["step"]
        self.require(self.evaluations == sorted(self.evaluations) and
                     all(step <= len(self.steps) for step in self.evaluations),
                     "/evaluations/step is not in order, or beyond the last step")
        self.evaluation_batches = rows["batches"]
        self.require(all(0 < b <= self.config["zeropp"].get("evaluation_batches", 0)
                         for b in self.evaluation_batches),
                     "/evaluations/batches is not within zeropp.evaluation_batches")
        self.require(all(map(math.isfinite, rows["loss"] + rows["bits_per_byte"])),
                     "/evaluations: not finite")

    def check_structure(self):
        """Units, tensors and layers fit each other, and the partition is the one they give."""
        units, tensors = self.trace.rows("units"), self.trace.rows("tensors")
        count = len(units)
        try:
            self.layers = [[int(u) for u in row["units"].split(",") if u]
                           for row in self.trace.rows("layers")]
        except ValueError as error:
            raise Invalid("/layers/units is no list of indices") from error
        used = {unit for layer in self.layers for unit in layer}
        if used != set(range(count)):
            raise Invalid("/layers does not use exactly the /units")
        if {row["unit"] for row in tensors} != set(range(count)):
            raise Invalid("/tensors does not belong to exactly the /units")
        self.unit_tensors = [[] for _ in units]
        for row in tensors:
            own = self.unit_tensors[row["unit"]]
            self.require(row["offset"] == sum(-(-n // 64) * 64 for n in own),
                         f"tensor {row['name']} does not begin where it should")
            own.append(row["elements"])
        try:
            self.run = Run(self.settings, self.topology, self.unit_tensors, self.layers)
        except ValueError as error:
            raise Invalid(str(error)) from error
        for i, row in enumerate(units):
            gathers = (sum(layer.count(i) for layer in self.layers)
                       if self.settings.stage == 3 else 0)
            expected = {"elements": sum(self.unit_tensors[i]), "flat": self.run.flat[i],
                        "shard": self.run.shards[i],
                        "padded": self.run.shards[i] * self.topology.size,
                        "gathers_forward": gathers, "gathers_backward": gathers}
            for name, value in expected.items():
                self.require(row[name] == value,
                             f"unit {row['name']}: {name} is {row[name]}, should be {value}")

    def check_bytes(self):
        rows = self.trace.rows("collectives")
        for row in rows:
            self.require(row["modelled"] == (row["algorithm"] in MODELLED),
                         f"{row['operation']} {row['algorithm']}: modelled is wrong")
        volume = self.run.replay([row["skipped"] for row in self.steps],
                                 list(zip(self.evaluations, self.evaluation_batches)))
        gathers_counted = self.settings.all_gather not in MODELLED
        all_counted = gathers_counted and self.settings.reduce_scatter not in MODELLED
        if all_counted:
            self.check_step_bytes(volume)

        def total(select):
            return sum((Bytes(r["wire_bytes_intra"], r["wire_bytes_inter"])
                        for r in rows if select(r)), Bytes())

        def compare(what, counted, expected):
            self.require(counted == expected, f"/collectives: {what}: {counted} should be {expected}")

        def running(purpose):
            return lambda r: r["purpose"] == purpose and r["phase"] != "initial"

        if gathers_counted:
            compare("weights", total(running("weights")), volume.weights)
            compare("phase evaluation", total(lambda r: r["phase"] == "evaluation"),
                    volume.evaluations)
            compare("phase initial", total(lambda r: r["phase"] == "initial"), self.run.initial())
        compare("weights_secondary", total(running("weights_secondary")), volume.secondary)
        if all_counted:
            compare("gradients", total(running("gradients")), volume.gradients)
            compare("all phases of steps",
                    total(lambda r: r["phase"] not in ("initial", "evaluation")),
                    sum(volume.steps, Bytes()))

    def check_step_bytes(self, volume):
        for kind in ("bytes", "bytes_predicted"):
            wrong = []
            for i, (row, expected) in enumerate(zip(self.steps, volume.steps)):
                found = Bytes(row[f"{kind}_intra_node"], row[f"{kind}_inter_node"])
                if found != expected:
                    wrong.append((i, found, expected))
            if wrong:
                i, found, expected = wrong[0]
                self.require(False, f"{kind} of step {i}: {found} should be {expected} "
                                    f"({len(wrong)} steps differ)")


def judge(path):
    """Reasons why the trace is invalid; none: it is valid."""
    trace = Trace(path)
    return trace.problems or Checker(trace).check()


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="+", help="HDF5 files of zpp_train")
    arguments = parser.parse_args(words)
    status = 0
    for path in arguments.trace:
        reasons = judge(path)
        prefix = f"{path}: " if len(arguments.trace) > 1 else ""
        for reason in reasons[:20]:
            print(f"{prefix}INVALID: {reason}")
        if reasons:
            status = 1
        else:
            print(f"{prefix}VALID")
    return status


if __name__ == "__main__":
    sys.exit(main())
