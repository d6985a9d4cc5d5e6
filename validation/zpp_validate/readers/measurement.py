"""A file of measured times, whoever wrote it, as rows of samples; and which two may be compared.

Reads a trace or a JSON of zpp_train, of zpp_sweep and of zpp_kernels, and the JSON of nccl-tests. Raises Problem
with one line.
"""

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from zpp_validate.readers import fabric_file, run_file, sweep_file
from zpp_validate.problem import Problem, reading
from zpp_validate.readers.sweep_file import counted

KERNELS_SCHEMA = "zeropp-kernels"
BYTES = ("bytes_intra_node", "bytes_inter_node")
DIFFERENCES_SHOWN = 8


@dataclass
class Measurement:
    """One file. `rows`: key -> sweep_file.Row, microseconds. `layout`: ranks and nodes. `work`: what has to be equal
    for times to be comparable at all. `sent`: bytes of the median step by link, {} of a sweep. `program`: that wrote
    the file."""

    path: Path
    rows: dict
    layout: str
    machine: tuple
    config: dict
    work: str = ""
    collectives: set = field(default_factory=set)
    config_hash: str = ""
    sent: dict = field(default_factory=dict)
    program: str = ""


def read_training(path, run, warmup):
    steps = run["steps"]
    times = [1e6 * time for time, skipped in list(zip(steps["time"], steps["skipped"]))[warmup:] if not skipped]
    if not times:
        raise Problem(f"{path} has no step left after {warmup} of warm-up: lower --warmup or train longer")
    sent = {name: statistics.median_low(steps[name][warmup:]) for name in BYTES}
    config = run["config"]
    tokens = config["train_batch_size"] * config["zeropp"]["model"].get("seq_length", 1)
    return Measurement(path, {"step time": sweep_file.Row(times)}, layout_of(run), machine_of(run), config,
                       f"{tokens} tokens per step",
                       config_hash=run["config_hash"], sent=sent)


def read_sweep(path, document):
    sweep = sweep_file.read_sweep(document)
    if not sweep.rows:
        raise Problem(f"{path} holds no time: run the sweep again")
    return Measurement(path, sweep.rows, sweep.layout, sweep.machine, sweep.config,
                       collectives={key.collective for key in sweep.rows}), sweep.verdict


def read_kernels(path, document):
    """Rows of kernels by their name; `work` is the back end."""
    rows = {"/".join(row[part] for part in ("kernel", "variant", "dtype", "shape")): sweep_file.Row(row["samples"],
                                                                                                    row["time"])
            for row in document["rows"] if row["samples"]}
    return Measurement(path, rows, counted(document["threads"], "thread"), (document["device"],), document["config"],
                       f"kernels on {document['backend']}")


def layout_of(run):
    ranks_text, nodes_text = counted(run["world_size"], "rank"), counted(run["node_count"], "node")
    return f"{ranks_text} on {nodes_text}" + (", emulated" if run["emulated"] else "")


def machine_of(run):
    """The name of each rank's GPU, or of its host."""
    return tuple(sorted(gpu or host for gpu, host in zip(run["ranks"]["gpu"], run["ranks"]["host"])))


def sweep_rows(run):
    """Rows of a trace of zpp_sweep by sweep_file.Key; a sample is the maximum over ranks of one cycle. `run`: of
    run_file.read()."""
    results, samples = run["results"], run["samples"]
    cycles = {}
    for result, cycle, _, seconds in zip(*(samples[name] for name in ("result", "cycle", "rank", "time"))):
        own = cycles.setdefault(result, {})
        own[cycle] = max(own.get(cycle, 0.0), 1e6 * seconds)
    rows = {}
    for index, row in enumerate(dict(zip(results, values)) for values in zip(*results.values())):
        key = sweep_file.Key(*(row[name] for name in ("collective", "codec", "algorithm", "group")), run["transport"],
                             int(row["size"]),
                             row["type"], row["redop"], int(row["root"] or -1), "in-place" if row["in_place"]
                             else "out-of-place")
        rows[key] = sweep_file.Row([own for _, own in sorted(cycles[index].items())], row["time"], row["bus_bw"],
                                   row["wire_bus_bw"],
                                   row["wire_bytes_intra"] + row["wire_bytes_inter"])
    return rows


def kernel_rows(run):
    """Rows of a trace of zpp_kernels by name, in microseconds."""
    results, taken = run["results"], {}
    for result, seconds in zip(run["samples"]["result"], run["samples"]["time"]):
        taken.setdefault(result, []).append(1e6 * seconds)
    names = zip(*(results[name] for name in ("kernel", "variant", "dtype", "shape")))
    return {"/".join(name): sweep_file.Row(taken[index], results["time"][index]) for index, name in enumerate(names)
            if index in taken}


def read_times(path, run):
    """Measurement of a trace of zpp_sweep or zpp_kernels."""
    if run["app"] == "sweep":
        rows = sweep_rows(run)
        return Measurement(path, rows, layout_of(run), machine_of(run), run["config"],
                           collectives={key.collective for key in rows})
    return Measurement(path, kernel_rows(run), layout_of(run), machine_of(run), run["config"],
                       f"kernels on {run['backend']}")


def read_file(path, warmup):
    """Raises Problem."""
    run = run_file.read(path)
    with reading(path, "whole file of its program", "measure again"):
        if sweep_file.is_sweep(run):
            measured, verdict = read_sweep(path, run)
        elif run.get("schema") == KERNELS_SCHEMA:
            measured, verdict = read_kernels(path, run), run["verdict"]
        elif run.get("schema") == run_file.SCHEMA and "results" in run:
            measured, verdict = read_times(path, run), run["verdict"]
        elif run.get("schema") == run_file.SCHEMA and "steps" in run and run.get("app", "train") == "train":
            measured, verdict = read_training(path, run, warmup), run["verdict"]
        else:
            raise Problem(f"{path} is none of zpp_train, zpp_sweep, zpp_kernels or nccl-tests: name a file that "
                          f"one of them wrote")
        if verdict != "VALID":
            raise Problem(f"{path} is {verdict}: its times say nothing, measure again")
        require_times(measured)
        place(measured), dict(flat(measured.config))  # which a comparison tells
        measured.program = program_of(run)
    return measured


def program_of(run):
    """The name of the program that wrote what run_file.read gives."""
    if fabric_file.is_fabric(run):
        return "zpp_fabric"
    schema = run.get("schema")
    if schema == run_file.SCHEMA:
        return f"zpp_{run.get('app', 'train')}"
    return {sweep_file.SCHEMA: "zpp_sweep", KERNELS_SCHEMA: "zpp_kernels"}.get(schema, "nccl-tests"
                                                                               if sweep_file.is_sweep(run)
                                                                               else "unknown")


def program_of_files(*paths):
    """The name of the program that wrote the first of the files, or folders of traces, that says so; "unknown" where
    none does."""
    for path in paths:
        try:
            name = program_of(run_file.read(next(path.rglob("*.h5"), path)))
        except Problem:
            continue
        if name != "unknown":
            return name
    return "unknown"


def require_times(measured):
    """Raises Problem where a sample is not finite and positive: its ratio would say nothing, in silence."""
    for key, row in measured.rows.items():
        wrong = [time for time in row.samples if not 0 < time < math.inf]
        if wrong:
            raise Problem(f"{measured.path} has {wrong[0]} as a time of {key}: times are finite and above 0: "
                          "measure again")


def read_side(path, warmup):
    """Measurements by name: of a file one without a name, of a folder one for each trace, by its folder."""
    if not path.is_dir():
        return {"": read_file(path, warmup)}
    traces = sorted(path.rglob("*.h5"))
    if not traces:
        raise Problem(f"{path} holds no trace (*.h5): name a folder that a study left")
    return {str(trace.relative_to(path).with_suffix("")): read_file(trace, warmup) for trace in traces}


def select(measured, collectives):
    """Leaves the rows of `collectives` (all where empty). Raises Problem where there are none to choose from."""
    if collectives:
        if not measured.collectives:
            raise Problem(f"{measured.path} is of a training run or of kernels, which --collective says nothing "
                          f"of: leave it out")
        measured.rows = {key: row for key, row in measured.rows.items() if key.collective in collectives}
        measured.collectives &= collectives


def require_comparable(a, b, across_machines):
    """Raises Problem."""
    pair = f"{a.path} and {b.path}"
    if bool(a.collectives) != bool(b.collectives):
        raise Problem(f"{pair}: one is of a sweep, one is not: name two of the same kind")
    if a.collectives != b.collectives:
        common = ",".join(sorted(a.collectives & b.collectives))
        names = [", ".join(sorted(side.collectives)) or "none of those asked for" for side in (a, b)]
        raise Problem(f"{pair} measured other collectives: {names[0]} / {names[1]}: "
                      + (f"give --collective {common}" if common else "measure the same ones"))
    if a.work != b.work:
        raise Problem(f"{pair} did other work: {a.work or '-'} / {b.work or '-'}: train with the same batch and "
                      f"sequence, or measure the same back end")
    for what, before, after in (("ranks and nodes", a.layout, b.layout),
                                ("machines", machine_text(a.machine), machine_text(b.machine))):
        if before != after and not across_machines:
            raise Problem(f"{pair} are of other {what}: {before} / {after}: measure again there, or give "
                          f"--across-machines")


def place(measured):
    """Where it ran, as text."""
    return f"{measured.layout}; {machine_text(measured.machine)}"


def machine_text(machine):
    return ", ".join(f"{machine.count(name)} x {name or 'unnamed'}" for name in sorted(set(machine))) or "unnamed"


def flat(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differences(a, b):
    """Differences of the configurations, as texts."""
    before, after = dict(flat(a.config)), dict(flat(b.config))
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    texts = [f"{name} {before.get(name, '-')} / {after.get(name, '-')}" for name in names[:DIFFERENCES_SHOWN]]
    return texts + ([f"{len(names) - DIFFERENCES_SHOWN} more"] if len(names) > DIFFERENCES_SHOWN else [])


def other_bytes(a, b):
    """Changes of the bytes sent, as texts: per step of runs of one configuration, or by row of sweeps over the same
    ranks."""
    found = []
    if a.layout == b.layout:
        pairs = ((key, row.wire_bytes, b.rows[key].wire_bytes) for key, row in a.rows.items() if key in b.rows)
        found += [f"{key} sends {after}, was {before}" for key, before, after in pairs if None not in (before, after)
                  and before != after]
    if a.config_hash != b.config_hash:
        return found
    return found + [f"{name} a step {b.sent[name]}, was {a.sent[name]}" for name in a.sent
                    if a.sent[name] != b.sent[name]]
