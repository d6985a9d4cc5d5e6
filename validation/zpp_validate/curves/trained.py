"""The uncompressed trainings of a trace of zpp_converge, with all that is needed to train them again."""

import json
from dataclasses import dataclass

from zpp_validate.convergence import merged
from zpp_validate.forms.transformer import PARTS
from zpp_validate.problem import Problem, Unfit, reading
from zpp_validate.readers.converge_file import Study
from zpp_validate.readers.trace_format import TOKEN_LEVELS, without_removed

SCHEMA = "zeropp-torch-curve"


@dataclass(frozen=True)
class Trained:
    setting: str
    config: dict  # without the seed and the place of the data
    path: str  # of the data, where the trace was made
    backend: str
    world_size: int
    runs: list  # converge_file.Run, by seed

    @property
    def compute(self):
        """Type to which weights are rounded for forward and backward."""
        return "bf16" if self.config.get("bf16", {}).get("enabled") else "fp32"

    @property
    def activations(self):
        """Type of activations: fp32 on the host back end."""
        return self.compute if self.backend == "cuda" else "fp32"


def setting_of(study, name):
    plain = [setting for setting in study.settings if setting.level in TOKEN_LEVELS and setting.uncompressed
             and setting.runs]
    names = ", ".join(setting.name for setting in plain) or "none"
    chosen = [setting for setting in plain if name in (None, setting.name)]
    if len(chosen) != 1:
        raise Problem(f"{len(chosen)} of its uncompressed settings ({names}) are meant: name one with --setting")
    return chosen[0]


def check(config):
    """Raises ValueError for what PyTorch is not told to do here."""
    own = config["zeropp"]
    for what, found, wanted in (("the optimizer is", config["optimizer"]["type"], "AdamW"),
                                ("fp16 is", config.get("fp16", {}).get("enabled", False), False),
                                ("the optimizer's moments are kept in", own.get("moments", "fp32"), "fp32")):
        if found != wanted:
            raise Unfit(f"{what} {found}, and only {wanted} is trained again")
    if own["model"]["name"] not in PARTS:
        raise Unfit(f"the model is {own['model']['name']}, and only {', '.join(PARTS)} are trained again")
    if not own["evaluation_interval"]:
        raise Unfit("it has no held-out losses: evaluation_interval is 0")


def read(paths, setting=None):
    """The training of traces that are parts of one matrix. Raises Problem."""
    trace, _ = merged.read(paths)
    with reading(trace.path, "whole matrix", "name a converge.h5 that zpp-validate check calls VALID"):
        if trace.problems:
            raise Unfit(trace.problems[0])
        study = Study(trace)
    chosen = setting_of(study, setting)
    runs = sorted(chosen.runs.values(), key=lambda run: run.seed)
    with reading(f"setting {chosen.name} of {trace.path}", "one that is trained again", "name another with --setting"):
        config, path = merged.without_place(chosen.config_json), json.loads(chosen.config_json)["zeropp"]["data"].get(
            "path", "")
        check(config)
        steps = config["zeropp"]["train_steps"]
    for run in runs:
        if run.verdict != "VALID" or run.skipped or run.steps != steps:
            raise Problem(f"{trace.path}: seed {run.seed} has {run.steps} of {steps} steps, {run.skipped} skipped, and "
                          f"is {run.verdict}")
    sizes = {run.world_size for run in runs}
    if len(sizes) > 1:
        raise Problem(f"{trace.path}: its runs are of {sorted(sizes)} ranks: give traces of one number")
    return Trained(chosen.name, config, path, trace.attributes["backend"], sizes.pop(), runs)


def read_curves(path, trained):
    """The JSON of torch-curve, where it is of what was trained. Raises Problem, OSError."""
    with reading(path, "file of torch-curve", "name the FILE of its --output"):
        curves = json.loads(path.read_text())
        own = (curves["setting"], without_removed(curves["config"]), curves["activations"], curves["schema"])
    if own != (trained.setting, trained.config, trained.activations, SCHEMA):
        raise Problem(f"{path} is of another setting or configuration than the traces: name another file")
    return curves
