"""Reads a study, inputs/studies/NAME.json, and expands it into runs. jobscripts/README.md describes the format.

load() gives a Study or raises StudyError: one line that says what, where, and the remedy. Standard library only.
"""

import difflib
import hashlib
import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = ("zpp_train",)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
PLACEHOLDER = re.compile(r"@[A-Z_]+@")
STUDY_KEYS = ("name", "description", "app", "nodes", "ranks_per_node", "flags", "axes", "time_limit", "warmup", "save_interval", "network")
VALUE_KEYS = ("flags", "nodes", "ranks_per_node", "network")  # of a value of an axis
OWN_FLAGS = ("--output", "--node-size", "--save", "--load", "--save-interval")  # given by what starts a run
LONGEST_NAME = 200  # of a run: it is a folder's name
MOST_RUNS = 1000  # Slurm takes indices of an array up to 1000 where the site has not set MaxArraySize
MOST_RANKS = 1_000_000  # nodes, and ranks of a node
MOST_STEPS = 10**9
LONGEST_RUN = 365 * 24 * 3600  # seconds


class StudyError(Exception):
    """A study that cannot be used: exit code 2."""


@dataclass(frozen=True)
class Run:
    """One run of a study. `environment` is what the runner has to provide around it, as {"network": {...}}."""

    index: int
    name: str  # as "feature=all,seed=2"; "run" in a study without axes
    values: dict  # axis -> name of its value
    flags: tuple
    nodes: int
    ranks_per_node: int
    environment: dict

    @property
    def ranks(self):
        return self.nodes * self.ranks_per_node

    def fill(self, words):
        """`words` with @NODES@, @RANKS@ and @RANKS_PER_NODE@ replaced."""
        numbers = {"@NODES@": self.nodes, "@RANKS@": self.ranks, "@RANKS_PER_NODE@": self.ranks_per_node}
        unknown = {name for word in words for name in PLACEHOLDER.findall(word)} - set(numbers)
        if unknown:
            raise StudyError(f"unknown placeholder {min(unknown)}: known are {', '.join(numbers)}")
        return [PLACEHOLDER.sub(lambda match: str(numbers[match[0]]), word) for word in words]

    def identity(self):
        """Identity of a run. It is kept beside the trace, so that the runs of an edited study run again. The file of
        --config counts with its content."""
        flags = self.fill(self.flags)
        files = [value for flag, value in zip(flags, flags[1:]) if flag == "--config"]
        files += [flag.removeprefix("--config=") for flag in flags if flag.startswith("--config=")]
        return {"flags": flags, "config_sha256": [sha256(file) for file in files], "nodes": self.nodes,
                "ranks_per_node": self.ranks_per_node, "environment": self.environment}


def sha256(file):
    """SHA-256 of a file, by its path in the source tree or an absolute path."""
    try:
        return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
    except OSError as error:
        raise StudyError(f"--config {file} cannot be read: {error.strerror}: correct the name") from None


@dataclass(frozen=True)
class Study:
    path: Path
    name: str
    description: str
    app: str
    axes: dict  # axis -> names of its values, in order
    time_limit: int  # seconds, of one run
    warmup: int  # steps at the begin of a run that its times leave out
    save_interval: int | None  # steps between checkpoints, 0: where a run is asked to end; None: there are none
    runs: tuple

    def run(self, index):
        if not 0 <= index < len(self.runs):
            raise StudyError(f"{self.path}: no run {index}: there are 0 to {len(self.runs) - 1} (try list)")
        return self.runs[index]


def load(path):
    path = Path(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=without_duplicates, parse_constant=refuse)
        json.dumps(raw, ensure_ascii=False).encode()  # no text that cannot be written
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}: name a file of inputs/studies/") from None
    except RecursionError:
        raise StudyError(f"{path} is nested too deep: correct it") from None
    except ValueError as error:  # also what without_duplicates and refuse raise
        raise StudyError(f"{path} is no JSON: {error}: correct it") from None
    try:
        return expand(path, raw)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None


def refuse(constant):
    """NaN and infinities: they are no JSON, and a NaN is never what it was."""
    raise ValueError(f"{constant} is no number of JSON")


def without_duplicates(pairs):
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the key '{name}' is there twice")
    return dict(pairs)


def expand(path, raw):
    known_keys("the study", raw, STUDY_KEYS)
    for key in ("name", "app", "nodes", "ranks_per_node"):
        if key not in raw:
            raise StudyError(f"the key '{key}' is missing: add it")
    name = plain_name("name", raw["name"])
    if raw["app"] not in APPS:
        raise StudyError(f"app is one of {', '.join(APPS)}, not {raw['app']!r}")
    if not isinstance(raw.get("description", ""), str):
        raise StudyError("description is a text")
    base = settings("the study", {key: raw[key] for key in VALUE_KEYS if key in raw})
    axes = raw.get("axes", {})
    known_type("axes", axes, dict, 'an object: {"AXIS": {"VALUE": [FLAG, ...]}}')
    choices = []
    for axis, values in axes.items():
        plain_name("an axis", axis)
        known_type(f"axis {axis}", values, dict, 'an object: {"VALUE": [FLAG, ...]}')
        if not values:
            raise StudyError(f"axis {axis} has no value: add one, or remove the axis")
        choices.append([(axis, plain_name(f"a value of axis {axis}", value), axis_value(axis, value, given))
                        for value, given in values.items()])
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_RUNS:
        raise StudyError(f"the axes combine to {count} runs, more than {MOST_RUNS}: make several studies of it")
    runs = tuple(combine(index, base, chosen) for index, chosen in enumerate(itertools.product(*choices)))
    return Study(path, name, raw.get("description", ""), raw["app"],
                 {axis: tuple(values) for axis, values in axes.items()},
                 whole("time_limit", raw.get("time_limit", 3600), 1, LONGEST_RUN),
                 whole("warmup", raw.get("warmup", 1), 0, MOST_STEPS),
                 whole("save_interval", raw["save_interval"], 0, MOST_STEPS) if "save_interval" in raw else None, runs)


def axis_value(axis, value, given):
    """A list of flags, or an object of VALUE_KEYS."""
    where = f"{axis}={value}"
    if isinstance(given, list):
        given = {"flags": given}
    known_type(where, given, dict, f"a list of flags, or an object of {', '.join(VALUE_KEYS)}")
    known_keys(where, given, VALUE_KEYS)
    return settings(where, given)


def settings(where, given):
    """The checked values of VALUE_KEYS that are given."""
    known_type(f"flags of {where}", given.get("flags", []), list, "a list of words")
    for word in given.get("flags", []):
        known_type(f"a flag of {where}", word, str, f"a text: quote {word!r}")
        if "\0" in word:
            raise StudyError(f"a flag of {where} holds a NUL: remove it")
        if word.split("=")[0] in OWN_FLAGS:
            raise StudyError(f"{word} in {where}: what starts a run gives {', '.join(OWN_FLAGS)}: remove it")
    for key in ("nodes", "ranks_per_node"):
        if key in given:
            whole(f"{key} of {where}", given[key], 1, MOST_RANKS)
    known_type(f"network of {where}", given.get("network", {}), dict, "an object")
    return dict(given)


def combine(index, base, chosen):
    """One run: the flags of the study, then those of each axis; an axis wins over the study, two axes may not differ."""
    values = {axis: value for axis, value, _ in chosen}
    name = ",".join(f"{axis}={value}" for axis, value in values.items()) or "run"
    if len(name) > LONGEST_NAME:
        raise StudyError(f"the name of run {index} is longer than {LONGEST_NAME} characters: shorten names of values")
    numbers, network, set_by = {}, dict(base.get("network", {})), {}
    flags = list(base.get("flags", []))
    for axis, _, given in chosen:
        flags += given.get("flags", [])
        own = {**{key: given[key] for key in ("nodes", "ranks_per_node") if key in given},
               **{f"network.{key}": value for key, value in given.get("network", {}).items()}}
        for key, value in own.items():
            if key in set_by:
                raise StudyError(f"{name}: axes {set_by[key]} and {axis} both set {key}: leave it to one")
            set_by[key] = axis
            if key.startswith("network."):
                network[key.removeprefix("network.")] = value
            else:
                numbers[key] = value
    run = Run(index, name, values, tuple(flags), numbers.get("nodes", base["nodes"]),
              numbers.get("ranks_per_node", base["ranks_per_node"]), {"network": network} if network else {})
    run.fill(flags)  # raises for an unknown placeholder
    return run


def known_type(what, value, kind, should):
    if not isinstance(value, kind):
        raise StudyError(f"{what} is {json.dumps(value)[:60]}, and should be {should}")


def known_keys(where, given, keys):
    known_type(where, given, dict, f"an object with the keys {', '.join(keys)}")
    for key in given:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(keys)}"
            raise StudyError(f"unknown key '{key}' in {where}: {hint}")


def plain_name(what, value):
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise StudyError(f"{what} {value!r} is no name: up to 64 letters, digits and . _ + -, the first a letter or digit")
    return value


def whole(what, value, least, most):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise StudyError(f"{what} is {json.dumps(value)[:60]}, and should be a whole number of at least {least} "
                         f"and at most {most}")
    return value
