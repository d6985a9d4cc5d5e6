"""A trace of zpp_converge as objects: settings, their runs with curves, and which runs of two settings belong together.

A run is paired with the baseline's run that began from the same seed and saw the same data in the same order: (seed,
data_hash).
"""

import json
import math
from dataclasses import dataclass, field

from zpp_validate.forms import loss_scale
from zpp_validate.forms.transformer import Shape
from zpp_validate.problem import Unfit
from zpp_validate.readers.trace_format import TOKEN_LEVELS



@dataclass
class Setting:
    """A row of /settings; `columns`: all of it. `runs` by pairing key."""

    index: int
    columns: dict
    runs: dict = field(default_factory=dict)

    def __getattr__(self, name):
        try:
            return self.__dict__["columns"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def seeds(self):
        return sorted(run.seed for run in self.runs.values())

    @property
    def diverged(self):
        """Seeds whose run did: such a setting is judged by that alone."""
        return sorted(run.seed for run in self.runs.values() if run.diverged)

    @property
    def loss_scale_search(self):
        """Whether its runs search for a loss scale, and how many steps they were to have."""
        try:
            config = json.loads(self.config_json)
            return loss_scale.is_dynamic(config), config["zeropp"]["train_steps"]
        except (ValueError, AttributeError, KeyError, TypeError):  # no configuration: for the checker to say
            return False, 0

    @property
    def own(self):
        """The object zeropp of its configuration; empty where there is none, which the checker says."""
        try:
            own = json.loads(self.config_json)["zeropp"]
        except (ValueError, AttributeError, KeyError, TypeError):
            return {}
        return own if isinstance(own, dict) else {}

    @property
    def weight_differences(self):
        """Codec of weight differences, "" where weights go whole, with the type of the copies where that is fp32."""
        own = self.own
        if not own.get("weight_differences"):
            return ""
        if own.get("exact_differences"):
            return "exact"
        return own["weight_difference_codec"] + (", fp32 copy" if own["weight_copy_dtype"] == "fp32" else "")

    @property
    def weights_are_exact(self):
        """Whether weights lose nothing on their way."""
        return self.weight_codec == "none" and self.weight_differences in ("", "exact")

    @property
    def tokens_are_bytes(self):
        """Whether its loss is one of the bytes of a text."""
        try:
            own = json.loads(self.config_json)["zeropp"]
            return own["data"]["source"] == "text" and own["model"]["name"] != "quadratic"
        except (ValueError, AttributeError, KeyError, TypeError):  # no configuration: for the checker to say
            return False

    def size(self, vocabulary):
        """(parameters of its model, tokens of a run). `vocabulary`: of the data. Throws KeyError, TypeError or
        ValueError where its configuration does not say it."""
        config = json.loads(self.config_json)
        shape = Shape.of(config["zeropp"]["model"], vocabulary)
        return (sum(tensor.elements for tensor in shape.tensors()),
                config["train_batch_size"] * shape.seq_length * config["zeropp"]["train_steps"])

    @property
    def gradient_codecs(self):
        return (self.gradient_codec_intra, self.gradient_codec_inter)

    @property
    def uncompressed(self):
        return self.weights_are_exact and self.gradient_codecs == ("none", "none")

    @property
    def bits(self):
        """Sent for a parameter by one gather and one reduce-scatter together."""
        return self.weight_bits + self.gradient_bits


@dataclass
class Run:
    """A row of /runs with its curves: steps are those of /steps, evaluations (step, loss)."""

    index: int
    columns: dict
    losses: list = field(default_factory=list)
    grad_norms: list = field(default_factory=list)
    skips: list = field(default_factory=list)
    step_numbers: list = field(default_factory=list)
    evaluations: list = field(default_factory=list)
    parts: list = field(default_factory=list)  # losses of the last evaluation, by part of the held-out data
    part_batches: list = field(default_factory=list)  # batches of each part; empty: the file does not say
    searches: bool = False  # for a loss scale: skips steps on its way
    planned: int = 0  # steps

    def __getattr__(self, name):
        try:
            return self.__dict__["columns"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def key(self):
        return (self.seed, self.data_hash)

    @property
    def diverged(self):
        """A loss of a step that was taken, or a held-out loss, is not finite, or the last step was skipped, unless a
        dynamic loss scale was tried in it and the run has all its steps; or all steps were. A result, not an error."""
        taken = [loss for loss, skipped in zip(self.losses, self.skips) if not skipped]
        ended = bool(self.skips) and (all(self.skips) or bool(self.skips[-1])
                                      and (not self.searches or self.steps < self.planned))
        return not all(map(math.isfinite, taken + [loss for _, loss in self.evaluations])) or ended


class Study:
    """The matrix of a trace_file.Trace whose schema is right. Raises ValueError where rows do not belong together."""

    def __init__(self, trace):
        self.attributes = trace.attributes
        self.settings = [Setting(index, row) for index, row in enumerate(trace.rows("settings"))]
        self.runs = [Run(index, row) for index, row in enumerate(trace.rows("runs"))]
        for run in self.runs:
            if run.setting >= len(self.settings):
                raise Unfit(f"/runs: run {run.index} is of setting {run.setting}, which is not there")
            own = self.settings[run.setting].runs
            if run.key in own and self.settings[run.setting].level in TOKEN_LEVELS:
                raise Unfit(f"setting {self.settings[run.setting].name}: seed {run.seed} ran twice on the "
                            f"same data")
            own[run.key] = run
            run.searches, run.planned = self.settings[run.setting].loss_scale_search
        for row in trace.rows("steps"):
            run = self.run_of(row, "steps")
            run.step_numbers.append(row["step"])
            run.losses.append(row["loss"])
            run.grad_norms.append(row["grad_norm"])
            run.skips.append(row["skipped"])
        for row in trace.rows("evaluations"):
            self.run_of(row, "evaluations").evaluations.append((row["step"], row["loss"]))
        for row in trace.rows("held_out_parts"):
            run = self.run_of(row, "held_out_parts")
            if row["part"] != len(run.parts):
                raise Unfit(f"/held_out_parts: run {run.index} has part {row['part']} where "
                            f"{len(run.parts)} comes")
            run.parts.append(row["loss"])
        for run in self.runs:
            run.part_batches = self.part_batches(run, trace.data)
        self.by_name = {setting.name: setting for setting in self.settings}

    def run_of(self, row, group):
        if row["run"] >= len(self.runs):
            raise Unfit(f"/{group}: a row of run {row['run']}, which is not there")
        return self.runs[row["run"]]

    def part_batches(self, run, data):
        """Number of batches of each held-out part of a run, as the trainer deals them: consecutive batches to each
        part, at most as many as the held-out data have."""
        setting = self.setting_of(run)
        try:
            config = json.loads(setting.config_json)
            sequences = (int(data[setting.level]["held_out_tokens"]) - 1) // config["zeropp"]["model"]["seq_length"]
            batches = min(config["zeropp"]["evaluation_batches"],
                          sequences // (config["train_micro_batch_size_per_gpu"] * run.world_size))
            dealt = [index * len(run.parts) // batches for index in range(batches)]
        except (ValueError, AttributeError, KeyError, TypeError, ZeroDivisionError):  # for the checker to say
            return []
        return [dealt.count(part) for part in range(len(run.parts))]

    def setting_of(self, run):
        return self.settings[run.setting]

    def compared(self):
        """(setting, its baseline) of all that are judged by their loss, are no baseline themselves, and did not
        diverge."""
        return [(setting, self.by_name[setting.baseline]) for setting in self.settings
                if setting.level in TOKEN_LEVELS and setting.baseline and not setting.diverged]

    def differences(self, setting, baseline):
        """Last held-out losses of `setting` minus those of `baseline`, by seed. Both have the same keys."""
        return [setting.runs[key].final_held_out_loss - baseline.runs[key].final_held_out_loss
                for key in sorted(setting.runs)]
