"""Rows that gate.py keeps of runs and compares: one for each configuration, over all its seeds.

Runs of one configuration differ in their seed alone. A row has values that have to be equal to the last digit (`exact`:
bytes and steps of runs that skipped as many steps), values that vary with the seed (`skips`, `losses`, `norms`), values
that a deterministic run repeats (`hashes`), and values that vary from step to step (`times`). A baseline is such rows
as a file, with machine, versions, date and commands.
"""

import json
import math
import re
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from zpp_validate.checkers import check_trace
from zpp_validate.readers import measurement, run_file
from zpp_validate.readers.converge_file import Study
from zpp_validate.problem import Problem, reading
from zpp_validate.readers.trace_file import Trace
from zpp_validate.readers.trace_format import TOKEN_LEVELS

SCHEMA, SCHEMA_VERSION = "zeropp-baseline", "1.1"
VERSIONS = ("version", "git_commit", "build_type", "cxx_compiler", "mpi_library", "blas_library",
            "cuda_versions", "kernels")
BYTES = ("bytes_intra_node", "bytes_inter_node", "bytes_predicted_intra_node", "bytes_predicted_inter_node")


@dataclass
class Row:
    """`exact`: by the number of skipped steps, which send less; `skips`: that number, by seed; `losses`: final held-out
    loss, nats per token, by seed; `norms`: geometric mean of the gradient norm over the steps, by seed; `hashes`: of
    the parameters, by seed, of deterministic runs; `times`: microseconds, of all runs. Seeds are text, as in JSON."""

    name: str
    config: dict  # flat, without the seed
    exact: dict = field(default_factory=dict)
    losses: dict = field(default_factory=dict)
    norms: dict = field(default_factory=dict)
    skips: dict = field(default_factory=dict)
    hashes: dict = field(default_factory=dict)
    times: list = field(default_factory=list)

    def join(self, other):
        """One more run, or several, of the same configuration. Raises Problem where they are no seeds of the
        same."""
        if other.config != self.config:
            raise Problem(f"two configurations are called {self.name}: put their runs into folders AXIS=VALUE, as "
                              f"a study does")
        for skipped, theirs in other.exact.items():
            mine = self.exact.setdefault(skipped, theirs)
            for name, value in theirs.items():
                if mine[name] != value:
                    raise Problem(f"runs of {self.name} do not agree on {name}: {mine[name]} and {value}: they are "
                                      f"not of one program")
        for name in ("skips", "losses", "norms", "hashes"):
            mine, theirs = getattr(self, name), getattr(other, name)
            twice = set(mine) & set(theirs)
            if twice:
                raise Problem(f"{self.name} is there twice with seed {', '.join(sorted(twice))}: name each "
                                  f"run once")
            mine.update(theirs)
        self.times += other.times


@dataclass
class Runs:
    """Rows of measured runs. `machine`: name of the GPU or host of each rank; `versions`: {name: text}; `commands`: of
    the runs."""

    rows: dict
    layout: str
    machine: list
    versions: dict
    date: str
    commands: list
    diverged: list = field(default_factory=list)  # names of rows that ran and cannot be compared


def geometric_mean(values):
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def without_seed(config):
    """Flat."""
    return {name: value for name, value in measurement.flat(config) if name not in ("seed", "zeropp.seed")}


def name_of(path, config):
    """Name of a run: its folder in a study, without the seed; else its model, stage and codecs."""
    words = [word for word in path.parent.name.split(",") if "=" in word and not word.startswith("seed=")]
    if words:
        return ",".join(words)
    zero, own = config["zero_optimization"], config["zeropp"]
    weights = own.get("weight_codec", "none") if zero.get("zero_quantized_weights") else "none"
    gradients = "none"
    if zero.get("zero_quantized_gradients"):
        gradients = "/".join(own.get(f"gradient_codec_{hop}", "none") for hop in ("intra", "inter"))
    return (f"{own['model']['name']}, stage {zero['stage']}, weights {weights}, gradients {gradients}, "
            f"hpz {zero.get('zero_hpz_partition_size', 1)}")


def training_rows(path, run, warmup):
    steps, seed = run["steps"], str(run["seed"])
    counters = dict(zip(run["counters"]["name"], run["counters"]["value"]))
    evaluations = run["evaluations"]["loss"]
    taken = [i for i, skipped in enumerate(steps["skipped"]) if not skipped]
    row = Row(name_of(path, run["config"]), without_seed(run["config"]))
    row.skips[seed] = sum(steps["skipped"])
    row.exact[str(row.skips[seed])] = {"steps": len(steps["loss"]), **{name: sum(steps[name]) for name in BYTES},
                                       "secondary_gathers": counters.get("secondary_gathers", 0)}
    last = [steps["loss"][i] for i in taken[-max(1, len(steps["loss"]) // 10):]]
    row.losses[seed] = evaluations[-1] if evaluations else statistics.fmean(last) if last else math.nan
    row.norms[seed] = geometric_mean([steps["grad_norm"][i] for i in taken])
    if run["deterministic"]:
        row.hashes[seed] = run["parameters_hash"]
    row.times = [1e6 * steps["time"][i] for i in taken if i >= warmup]
    return [row]


def matrix_rows(path):
    """(Rows, names of settings that diverged) of a trace of zpp_converge: a row for each setting that trains on
    tokens."""
    rows, diverged = [], []
    for setting in (s for s in Study(Trace(path)).settings if s.level in TOKEN_LEVELS):
        if setting.diverged:
            diverged.append(f"{setting.level}: {setting.name}")
            continue
        config, runs = json.loads(setting.config_json), list(setting.runs.values())
        row = Row(f"{setting.level}: {setting.name}", without_seed(config))
        for run in runs:
            own, seed = Row(row.name, row.config), str(run.seed)
            own.exact[str(run.skipped)] = {"steps": run.steps, "bytes_inter_node a step": run.bytes_inter_node}
            own.skips[seed], own.losses[seed], own.norms[seed] = run.skipped, run.final_held_out_loss, geometric_mean(
                run.grad_norms)
            if config.get("zeropp", config).get("deterministic"):
                own.hashes[seed] = run.parameters_hash
            own.times = [1e6 * run.seconds_per_step]
            row.join(own)
        rows.append(row)
    return rows, diverged


def time_rows(path, warmup):
    """A row for each row of zpp_sweep or zpp_kernels."""
    measured = measurement.read_file(path, warmup)
    config = without_seed(measured.config)
    return [Row(str(key), config, {} if row.wire_bytes is None else {"0": {"wire bytes": row.wire_bytes}},
                times=list(row.samples))
            for key, row in measured.rows.items()]


def traces(paths):
    found = []
    for path in paths:
        own = sorted(found for found in path.rglob("*.h5") if found.name != "judged.h5") if path.is_dir() else [path]
        if not own or path.is_file() and path.suffix != ".h5":
            what = "holds" if path.is_dir() else "is"
            raise Problem(f"{path} {what} no trace (*.h5): name traces, or a folder that a study left")
        found += own
    return found


def read(paths, warmup):
    """Runs of all traces at `paths` and in folders there. Raises Problem; Invalid traces are named by judge()."""
    rows, places, versions, dates, commands, diverged = {}, set(), {}, [], [], []
    for path in traces(paths):
        run = run_file.read(path)
        with reading(path, "trace of a run that can be compared",
                     "name those of zpp_train, zpp_converge, zpp_sweep or zpp_kernels"):
            app = run["app"]
            own, lost = (matrix_rows(path) if app == "converge" else
                         (training_rows(path, run, warmup) if app == "train" else time_rows(path, warmup), []))
            diverged += lost
            places.add((measurement.layout_of(run), measurement.machine_of(run)))
            versions = {name: str(run[name]) for name in VERSIONS if name in run}
            dates.append(run["started_at"])
            commands.append(run["command_line"])
        for row in own:
            known = rows.setdefault(row.name, row)
            if known is not row:
                known.join(row)
    if len(places) > 1:
        raise Problem(f"the traces are of several machines or layouts: "
                          f"{'; '.join(sorted(layout for layout, _ in places))}: "
                          "name those of one")
    (layout, machine), = places
    return Runs(rows, layout, list(machine), versions, min(dates), commands, diverged)


def invalid(paths):
    """{path: first reason} of the traces that check_trace.py does not accept."""
    reasons = {path: check_trace.judge(path) for path in traces(paths)}
    return {path: found[0] for path, found in reasons.items() if found}


def folder_name(machine):
    """As 4x-NVIDIA-H200; of ranks on several kinds each."""
    names = [f"{machine.count(name)}x-{name}" for name in sorted(set(machine))]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "+".join(names))


def write(path, runs, command):
    document = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "command": command,
                **{name: getattr(runs, name) for name in ("machine", "layout", "date", "versions", "commands")},
                "rows": [asdict(row) for row in runs.rows.values()]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def load(path):
    """Raises Problem."""
    document = run_file.read(path)
    if (document.get("schema"), document.get("schema_version")) != (SCHEMA, SCHEMA_VERSION):
        raise Problem(f"{path} is no baseline of schema {SCHEMA} {SCHEMA_VERSION}: record one with --record")
    with reading(path, "whole baseline", "record it again"):
        rows = {row["name"]: Row(**row) for row in document["rows"]}
        return Runs(rows, *(document[name] for name in ("layout", "machine", "versions", "date", "commands")))


def default_path(name, machine):
    return Path(__file__).resolve().parents[2] / "baselines" / folder_name(machine) / f"{name}.json"
