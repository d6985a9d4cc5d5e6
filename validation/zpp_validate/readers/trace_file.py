"""A trace in memory, as a reader finds it: what is missing or mistyped is a problem, nothing throws."""

import json
import sys

import h5py
import numpy as np

from zpp_validate.problem import COPY_AGAIN, MALFORMED, reason_of
from zpp_validate.readers import trace_digest
from zpp_validate.readers import trace_format as fmt

MOST_BYTES = 1 << 31  # of a column


def text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Trace:
    """The file in memory: attributes, and columns as lists."""

    def __init__(self, path):
        self.path = path
        self.problems = []
        self.app = ""  # empty: cannot be read
        self.attributes, self.columns, self.data, self.gpus = {}, {}, {}, {}
        self.budget = 0  # bytes per step, of adaptive bits
        self.copies_found = "none"  # copies of the weights from which the run resumed
        self.plan = {}  # attributes of groups of zpp_plan
        self.cut_off = 0  # micro-batches of an evaluation that a signal cut off
        self.has_digest = False
        self.changed = None  # why the values are not those that were written
        try:
            with h5py.File(path, "r") as file:
                if not {"app", "schema"} & set(file.attrs):
                    self.problem("it is no trace of zeropp: name one that a program wrote")
                    return
                self.app = text(file.attrs.get("app", ""))
                if "fabric" in file:
                    self.app = "fabric"  # also of earlier versions' zpp_sweep --fabric, whose files say sweep
                if self.app == "plan":
                    self.app += "".join(f" {name}" for name, group in fmt.PLAN_COMMANDS.items() if group in file)
                is_training = self.app in ("train", "")
                self.read_attributes(file, () if is_training else fmt.TRAINING_ONLY)
                for group, columns in self.groups().items():
                    self.columns[group] = self.read_group(file, group, columns)
                if "gpus" in self.columns:
                    self.read_gpus(file)
                if "evaluations" in file:  # without the attribute in earlier versions
                    self.cut_off = int(file["evaluations"].attrs.get("cut_off", 0))
                if "adaptive_bits" in self.columns:
                    self.read_budget(file)
                if "weight_copies" in self.columns:
                    self.copies_found = text(file["weight_copies"].attrs["found"])
                for group, names in fmt.PLAN_ATTRIBUTES.get(self.app, {}).items():
                    self.plan[group] = self.read_plan(file, group, names)
                if "averaged_weights/loss" in file and len(file["averaged_weights/loss"]):
                    print(f"zpp-validate: {path}: /averaged_weights is of an earlier version, and is not read",
                          file=sys.stderr)
                if "env" not in file:
                    self.problem("no group /env")
                for group in self.data_groups(file) if is_training or self.app == "converge" else ():
                    self.read_data(file, group)
                self.has_digest, self.changed = trace_digest.has_digest(file), trace_digest.problem(file)
        except (OSError, *MALFORMED) as error:
            self.problems = [f"cannot be read: {reason_of(error)}: {COPY_AGAIN}" if h5py.is_hdf5(path) else
                             "cannot be read: it is no HDF5 file: name the trace that a program wrote"]

    def groups(self):
        """By their names, the columns of those that the file has to have."""
        of_gpus = fmt.GPU_COLUMNS if self.app in fmt.SAMPLES_GPUS and self.attributes.get("backend") == "cuda" else {}
        return {**fmt.COLUMNS_OF.get(self.app, fmt.COLUMNS), **of_gpus,
                **(fmt.ERROR_COLUMNS if self.own().get("measure_quantization_error", 0) > 0 else {}),
                **(fmt.CODEC_COLUMNS if self.own().get("codec_schedule") or self.is_adaptive() else {}),
                **(fmt.WIDTH_COLUMNS if self.is_adaptive() else {}),
                **(fmt.EXACT_COLUMNS if self.own().get("exact_differences") else {}),
                **(fmt.COPY_COLUMNS if self.own().get("weight_differences") and self.own().get("hash_parameters", True)
                   else {}),
                **(fmt.CHECKPOINT_COLUMNS if self.own().get("checkpoint", {}).get("save") else {})}

    def own(self):
        """The object zeropp of the configuration of zpp_train; empty for another program, or where it cannot be
        read."""
        try:
            own = json.loads(self.attributes["config_json"])["zeropp"] if self.app == "train" else {}
        except MALFORMED:
            return {}
        return own if isinstance(own, dict) else {}

    def is_adaptive(self):
        return self.own().get("adaptive_bits", {}).get("values", "none") != "none"

    def problem(self, reason):
        self.problems.append(reason)

    def read_attributes(self, file, excepted):
        for name in fmt.TEXT_ATTRIBUTES + fmt.INTEGER_ATTRIBUTES + fmt.REAL_ATTRIBUTES:
            if name in excepted:
                continue
            if name not in file.attrs:
                self.problem(f"no attribute {name}")
                continue
            value = file.attrs[name]
            is_integer, is_real = isinstance(value, np.integer), isinstance(value, np.floating)
            if (is_integer, is_real) != (name in fmt.INTEGER_ATTRIBUTES, name in fmt.REAL_ATTRIBUTES):
                self.problem(f"attribute {name} has the wrong type")
            self.attributes[name] = int(value) if is_integer else float(value) if is_real else text(value)

    def read_group(self, file, group, columns):
        if group not in file:
            if group in fmt.MAY_BE_MISSING_OF.get(self.app, set()):
                return {name: [] for name in columns}
            self.problem(f"no group /{group}")
            return {}
        values, found = {}, file[group]
        for name, described in columns.items():
            if name not in found:
                self.problem(f"no column /{group}/{name}")
                continue
            column = self.read_column(f"/{group}/{name}", found[name], described)
            if column is not None:
                values[name] = column
        lengths = {len(v) for v in values.values()}
        if len(lengths) > 1:
            self.problem(f"columns of /{group} differ in length")
        elif lengths == {0} and group not in self.may_be_empty():
            self.problem(f"/{group} is empty")
        return values

    def read_column(self, where, dataset, described):
        """Its values; None where they are of another type, or too many."""
        kind, _, unit = described.partition(" ")
        attributes = dataset.attrs
        for attribute in ("units", "description"):
            if attribute not in attributes:
                self.problem(f"{where} has no attribute {attribute}")
        found = text(attributes["units"]) if "units" in attributes else unit
        if found != unit:
            self.problem(f"{where} is in {found or 'no unit'!r}, should be in {unit or 'no unit'!r}")
        dtype, shape = dataset.dtype, dataset.shape
        if dtype.kind != kind or len(shape) != 1:
            self.problem(f"{where} has the wrong type or shape")
            return None
        if shape[0] * dtype.itemsize > MOST_BYTES:  # of chunks that are not there, a small file has as many
            self.problem(f"{where} is larger than any trace's")
            return None
        if dataset.chunks is None or not dataset.fletcher32:
            self.problem(f"{where} carries no checksum")
        values = dataset[()].tolist()
        return [text(value) for value in values] if kind == "S" else values

    def may_be_empty(self):
        """Groups that may be empty. A run that resumes after its last step has nothing to do."""
        nothing_left = {"steps", "collectives"} if self.attributes.get("first_step", 0) > 0 else set()
        return fmt.MAY_BE_EMPTY | fmt.MAY_BE_EMPTY_OF.get(self.app, set()) | nothing_left

    def data_groups(self, file):
        """Groups that describe the data: /data of a training; /data_LEVEL of zpp_converge for each level that reads
        tokens."""
        if self.app != "converge":
            return ["data"]
        return [f"data_{level}" for level in fmt.TOKEN_LEVELS if level in self.columns["settings"].get("level", ())]

    def read_data(self, file, group):
        """Into `data`; of zpp_converge into data[LEVEL]."""
        if group not in file:
            self.problem(f"no group /{group}")
            return
        into = self.data if group == "data" else self.data.setdefault(group.removeprefix("data_"), {})
        for name in fmt.DATA_ATTRIBUTES:
            if name not in file[group].attrs:
                self.problem(f"/{group} has no attribute {name}")
                continue
            into[name] = file[group].attrs[name]
            if name != "source" and not isinstance(into[name], (np.integer, np.floating)):
                self.problem(f"/{group}: {name} is no number")

    def read_gpus(self, file):
        attributes = file["gpus"].attrs if "gpus" in file else {}
        for name, kind in fmt.GPU_ATTRIBUTES.items():
            if name not in attributes:
                self.problem(f"/gpus has no attribute {name}")
            elif isinstance(attributes[name], np.floating) != (kind == "f"):
                self.problem(f"/gpus: attribute {name} has the wrong type")
            else:
                self.gpus[name] = float(attributes[name]) if kind == "f" else text(attributes[name])

    def read_plan(self, file, group, names):
        found = file[group].attrs if group in file else {}
        values = {}
        for name, kind in names.items():
            if name not in found:
                self.problem(f"/{group} has no attribute {name}")
            elif (np.asarray(found[name]).dtype.kind if kind != "S" else "S") != kind:
                self.problem(f"/{group}: attribute {name} has the wrong type")
            else:
                values[name] = text(found[name]) if kind == "S" else found[name].item()
        return values

    def read_budget(self, file):
        found = file["adaptive_bits"].attrs.get("budget_bytes") if "adaptive_bits" in file else None
        if not isinstance(found, np.integer):
            self.problem("/adaptive_bits has no whole number budget_bytes")
        else:
            self.budget = int(found)

    def rows(self, group):
        columns = self.columns[group]
        return [dict(zip(columns, values)) for values in zip(*columns.values())]
