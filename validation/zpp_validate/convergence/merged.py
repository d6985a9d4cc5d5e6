"""Several traces of zpp_converge as one: runs of one matrix from other seeds, machines and days.

The files have to agree in: the settings with their effective configuration, except the seed and the place of the file;
the data, by their description; the number of ranks and nodes that train a run; and the commit, unless it is left free.
A seed that is in two files is taken from the first. Settings that are left out do not have to be the same.
"""

import copy
import json

from zpp_validate.checkers import converge_checker
from zpp_validate.problem import Problem
from zpp_validate.readers import measurement, run_file, trace_format
from zpp_validate.readers.trace_file import Trace

# Groups whose rows belong to one run.
OF_RUNS = ("steps", "evaluations", "held_out_parts", "errors", "quadratic", "quadratic_runs")
OF_RANKS = ("world_size", "node_count", "ranks_per_node", "emulated")


def without_place(config_json):
    """Configuration of a setting without what may differ."""
    try:
        config = trace_format.without_removed(json.loads(config_json))
        own = config["zeropp"]
        own.pop("seed", None)
        own.get("data", {}).pop("path", None)
    except (ValueError, AttributeError):
        return config_json
    return config


def settings_of(trace):
    return {row["name"]: row | {"config_json": without_place(row["config_json"])} for row in trace.rows("settings")}


def ranks_of(trace):
    """By setting, the sizes of what its runs ran on."""
    names, found = trace.columns["settings"]["name"], {}
    for row in trace.rows("runs"):
        found.setdefault(names[row["setting"]], set()).add((row["world_size"], row["node_size"]))
    return found


def difference(one, other, across_versions):
    """A difference between two files that parts of one matrix may not have, as text; empty: none."""
    mine, yours = settings_of(one), settings_of(other)
    for name in [*mine, *(name for name in yours if name not in mine)]:
        if name not in mine or name not in yours:
            return f"setting {name} is in one of them"
        before, after = (dict(measurement.flat(settings[name])) for settings in (mine, yours))
        for column, value in before.items():
            there = after.get(column)
            if there != value and not (value != value and there != there):
                return f"setting {name} has {column.removeprefix('config_json.')} {value}, and {there} there"
        extra = sorted(set(after) - set(before))
        if extra:
            return f"setting {name} has {extra[0].removeprefix('config_json.')} there"
    for level, data in one.data.items():
        for name, value in data.items():
            there = other.data.get(level, {}).get(name)
            if name != "source" and there != value and not (value != value and there != there):
                return f"the data of level {level} have {name} {value}, and {there} there"
    for name, sizes in ranks_of(one).items():
        if ranks_of(other).get(name) != sizes:
            return f"setting {name} ran on other ranks or nodes there"
    commits = (one.attributes["git_commit"], other.attributes["git_commit"])
    if commits[0] != commits[1] and not across_versions:
        return f"they are of the commits {commits[0][:12]} and {commits[1][:12]}: --across-versions takes both"
    return ""


def append(whole, part):
    """Adds the runs of `part` that are not there; [(setting, seed)] of those that are."""
    places = {name: place for place, name in enumerate(whole.columns["settings"]["name"])}
    names = part.columns["settings"]["name"]
    there = {(row["setting"], row["seed"]) for row in whole.rows("runs")}
    number, doubled = {}, []  # of a run of `part`, in the whole
    for index, row in enumerate(part.rows("runs")):
        setting = places[names[row["setting"]]]
        if (setting, row["seed"]) in there:
            doubled.append((names[row["setting"]], row["seed"]))
            continue
        number[index] = len(whole.columns["runs"]["setting"])
        for column, values in whole.columns["runs"].items():
            values.append(setting if column == "setting" else row[column])
    for group in OF_RUNS:
        for row in part.rows(group):
            if row["run"] in number:
                for column, values in whole.columns[group].items():
                    values.append(number[row["run"]] if column == "run" else row[column])
    for row in part.rows("checks"):
        if row["first"] in number and row["second"] in number:
            for column, values in whole.columns["checks"].items():
                values.append(number[row[column]] if column in ("first", "second") else row[column])
    if part.attributes["world_size"] > whole.attributes["world_size"]:  # what a job ran on is told of the largest
        whole.attributes.update({name: part.attributes[name] for name in OF_RANKS})
        whole.columns["ranks"] = part.columns["ranks"]
    return doubled


def keep(trace, names):
    """Leaves the settings of these names, with their runs and checks. Raises Problem where there is none of a name, or
    a setting without its baseline."""
    settings = trace.rows("settings")
    missing = [name for name in names if name not in {row["name"] for row in settings}]
    missing += [row["baseline"] for row in settings if row["name"] in names and row["baseline"]
                and row["baseline"] not in names]
    if missing:
        raise Problem(f"{trace.path} has no setting {missing[0]}, or it is a baseline that --only has not: "
                      f"it has {', '.join(row['name'] for row in settings)}")
    staying = [index for index, row in enumerate(settings) if row["name"] in names]
    place = {index: new for new, index in enumerate(staying)}  # of a setting that stays, by its number
    runs = [index for index, row in enumerate(trace.rows("runs")) if row["setting"] in place]
    number = {index: new for new, index in enumerate(runs)}
    kept = {"settings": [settings[index] for index in staying]}
    for group, keys in {"runs": {"setting": place}, "checks": {"first": number, "second": number},
                        **{group: {"run": number} for group in OF_RUNS}}.items():
        kept[group] = [row | {column: new[row[column]] for column, new in keys.items()} for row in trace.rows(group)
                       if all(row[column] in new for column, new in keys.items())]
    for group, rows in kept.items():
        trace.columns[group] = {column: [row[column] for row in rows] for column in trace.columns[group]}


def read(paths, across_versions=False, only=()):
    """(Trace of all together, notes on what was done). Where a file has problems of its own, the first such file is
    returned alone, with its problems. `only`: settings that count, where not all do. Raises Problem, also for files of
    other programs."""
    for path in paths:
        with run_file.open_trace(path):
            pass
    traces = [Trace(path) for path in paths]
    for trace in traces:
        if trace.app != "converge":
            what = f"a trace of zpp_{trace.app}" if trace.app else "no trace of any program"
            raise Problem(f"{trace.path} is {what}: name the converge.h5 of zpp_converge")
        if not trace.problems and len(paths) + len(only) > 1:
            trace.problems = [f"{trace.path}: {reason}" for reason in converge_checker.problems(trace)]
        if trace.problems:
            return trace, []
        if only:
            keep(trace, only)
    whole, notes = copy.deepcopy(traces[0]), []
    for path, part in zip(paths[1:], traces[1:]):
        differs = difference(traces[0], part, across_versions)
        if differs:
            raise Problem(f"{paths[0]} and {path} are no parts of one matrix: {differs}")
        doubled = append(whole, part)
        if doubled:
            seeds = ", ".join(map(str, sorted({seed for _, seed in doubled})))
            notes.append(f"{path}: seed {seeds} of {len({name for name, _ in doubled})} settings are in a file before "
                         f"it, whose runs count")
    if len(paths) > 1:
        notes.insert(0, f"{len(paths)} files as one matrix: {', '.join(map(str, paths))}")
    if only:
        notes.append(f"Of their settings only {', '.join(only)} count")
    return whole, notes
