"""Judges a trace of zpp_converge: is the matrix whole, do its sums follow from its curves, were the predicted bytes
sent, did the quadratic keep its bound, do the contracts hold that its runs show?

converge.py judges codecs by the losses; this module only says whether a matrix is fit to be judged.
"""

import json
import math
import operator
import statistics

from zpp_validate.checkers.trace_checker import Invalid, TraceChecker
from zpp_validate.forms import error_rows
from zpp_validate.problem import reason_of
from zpp_validate.readers import trace_format as fmt
from zpp_validate.readers.converge_file import Study

MEANINGFUL = 0.05  # of the bound: what the largest distance has to reach, or the bound says nothing
CLOSE = 1e-9


def close(a, b):
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))


class ConvergeChecker(TraceChecker):
    def check(self):
        try:
            self.check_schema()
            self.require(self.attributes["interrupted"] == "",
                         f"interrupted by {self.attributes['interrupted']}: start the same matrix again, it runs "
                         f"what is missing")
            self.check_ranks()
            try:
                self.study = Study(self.trace)
            except ValueError as error:
                raise Invalid(reason_of(error)) from error
            self.check_settings()
            for run in self.study.runs:
                self.check_run(run)
            self.check_matrix()
            self.check_quadratic()
            self.check_contracts()
            self.check_errors()
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def check_bits(self, setting, own, where):
        """NaN where they depend on the sizes of units: a schedule names some, or a budget is in bytes."""
        for values in ("weight", "gradient"):
            adaptive = own.get("adaptive_bits", {})
            by_units = any("units" in entry and any(key.startswith(f"{values}_codec") for key in entry)
                           for entry in own.get("codec_schedule", ()))
            by_units |= adaptive.get("values") == f"{values}s" and adaptive["budget_bytes"] > 0
            bits = getattr(setting, f"{values}_bits")
            self.require(math.isnan(bits) if by_units else 0 < bits < math.inf, f"{where}: {values}_bits is {bits}")

    def check_settings(self):
        names = [setting.name for setting in self.study.settings]
        for name in sorted({name for name in names if names.count(name) > 1}):
            raise Invalid(f"/settings names {name} twice")
        for setting in self.study.settings:
            where = f"setting {setting.name}"
            self.require(setting.level in fmt.LEVELS,
                         f"{where}: level {setting.level!r} is none of {', '.join(fmt.LEVELS)}")
            try:
                own = json.loads(setting.config_json).get("zeropp", {})
                self.check_bits(setting, own, where)
            except (ValueError, AttributeError):
                self.require(False, f"{where}: config_json is no JSON of an object")
            self.require(setting.runs, f"{where}: has no run")
            if setting.baseline:
                other = self.study.by_name.get(setting.baseline)
                if not other:
                    raise Invalid(f"{where}: its baseline {setting.baseline} is not there")
                self.require((other.level, other.model) == (setting.level, setting.model) and not other.baseline,
                             f"{where}: its baseline {setting.baseline} is of another level or model, or has a "
                             f"baseline itself")

    def check_run(self, run):
        setting = self.study.setting_of(run)
        where = f"setting {setting.name}, seed {run.seed}"
        self.require((run.verdict == "VALID") != run.diverged,
                     f"{where}: the run says {run.verdict}" + (", but its curves diverged" if run.diverged else ""))
        self.require(run.bytes_inter_node == run.bytes_predicted_inter_node,
                     f"{where}: sent {run.bytes_inter_node} bytes per step between nodes, "
                     f"{run.bytes_predicted_inter_node} were predicted")
        self.require(run.diverged or run.planned in (0, run.steps),
                     f"{where}: the run has {run.steps} of its {run.planned} steps")
        virtual = json.loads(setting.config_json).get("zeropp", {}).get("virtual_ranks", 0)
        self.require(run.world_size == virtual if virtual else 0 < run.world_size <= self.attributes["world_size"],
                     f"{where}: ran on {run.world_size} ranks, the job has {virtual or self.attributes['world_size']}")
        self.require(run.seconds > 0 and run.seconds_per_step > 0, f"{where}: its times are not positive")
        if run.losses or setting.level in fmt.TOKEN_LEVELS:
            self.check_curves(run, where)
        if setting.level in fmt.TOKEN_LEVELS and not run.diverged:
            self.check_evaluations(run, where)

    def seeds_of(self, level):
        """That the matrix asks for of every setting of the level; none where settings have their own."""
        try:
            matrix = json.loads(self.attributes["config_json"])
            own = any("seeds" in entry for entry in matrix.get("settings", ()) if entry.get("level") == level)
            return set() if own else set(matrix.get("levels", {}).get(level, {}).get("seeds", matrix.get("seeds", ())))
        except (ValueError, AttributeError, TypeError) as error:
            raise Invalid(f"config_json is no matrix: {reason_of(error)}") from error

    def check_curves(self, run, where):
        if not self.require(len(run.losses) == run.steps and run.step_numbers == list(range(run.steps)),
                            f"{where}: /steps has {len(run.losses)} of its {run.steps} steps, or not in order"):
            return
        self.require(sum(run.skips) == run.skipped and set(run.skips) <= {0, 1},
                     f"{where}: {sum(run.skips)} steps of /steps were skipped, {run.skipped} of the run")
        if run.diverged:
            return
        norms = [norm for norm, skipped in zip(run.grad_norms, run.skips) if not skipped]
        self.require(all(0 <= norm < math.inf for norm in norms),
                     f"{where}: the gradient norm of a step that was taken is not finite")
        last = [loss for loss, skipped in list(zip(run.losses, run.skips))[-max(1, run.steps // 10):] if not skipped]
        self.require(last and close(run.final_train_loss, statistics.fmean(last)),
                     f"{where}: final_train_loss is {run.final_train_loss}, not the mean of the last tenth of "
                     f"its steps")

    def check_evaluations(self, run, where):
        steps = [step for step, _ in run.evaluations]
        if not self.require(steps and steps == sorted(set(steps)) and steps[-1] == run.steps,
                            f"{where}: /evaluations does not go forward to the last step"):
            return
        self.require(all(math.isfinite(loss) and loss >= 0 for _, loss in run.evaluations),
                     f"{where}: a held-out loss is no loss")
        self.require(close(run.final_held_out_loss, run.evaluations[-1][1]),
                     f"{where}: final_held_out_loss is {run.final_held_out_loss}, its last evaluation "
                     f"{run.evaluations[-1][1]}")
        if run.parts:
            self.check_parts(run, where)
        if self.study.setting_of(run).tokens_are_bytes:
            self.require(close(run.bits_per_byte, run.final_held_out_loss / math.log(2)),
                         f"{where}: bits_per_byte is not its loss / ln 2")
        else:
            self.require(math.isnan(run.bits_per_byte),
                         f"{where}: bits_per_byte is a number, but the loss is not of bytes")

    def check_parts(self, run, where):
        if not self.require(run.part_batches and min(run.part_batches) > 0,
                            f"{where}: /held_out_parts has {len(run.parts)} parts, and config_json and the held-out "
                            f"data do not have a "
                            "batch for each"):
            return
        mean = math.fsum(map(operator.mul, run.parts, run.part_batches)) / sum(run.part_batches)
        self.require(close(run.final_held_out_loss, mean),
                     f"{where}: final_held_out_loss is {run.final_held_out_loss}, and the mean of its parts in "
                     f"/held_out_parts {mean}")

    def check_matrix(self):
        """Every setting of a level has the seeds of the matrix, and those that any setting of it has, and saw on as
        many ranks the data that its baseline saw."""
        for level in fmt.TOKEN_LEVELS:
            settings = [setting for setting in self.study.settings if setting.level == level]
            seeds = self.seeds_of(level) | {run.seed for setting in settings for run in setting.runs.values()}
            for setting in settings:
                missing = sorted(seeds - set(setting.seeds))
                self.require(not missing, f"missing runs: setting {setting.name}, seed {', '.join(map(str, missing))}")
        for setting, baseline in self.study.compared():
            self.require(not baseline.diverged, f"setting {setting.name}: its baseline {baseline.name} diverged")
            ranks = {(run.world_size, run.node_size) for side in (setting, baseline) for run in side.runs.values()}
            self.require(len(ranks) == 1, f"setting {setting.name} and its baseline {baseline.name} ran on other ranks "
                         f"or nodes")
            other = sorted({seed for seed, _ in setting.runs.keys() ^ baseline.runs.keys()} & set(setting.seeds)
                           & set(baseline.seeds))
            self.require(not other, f"setting {setting.name} saw other data than its baseline {baseline.name} "
                         f"from seed "
                                    f"{', '.join(map(str, other))}: such runs are no pairs")

    def check_quadratic(self):
        own = {run.index for run in self.study.runs if self.study.setting_of(run).level == "quadratic"}
        summaries = {row["run"]: row for row in self.trace.rows("quadratic_runs")}
        self.require(set(summaries) == own, "/quadratic_runs has not every run of the level quadratic once")
        shown = {}
        for row in self.trace.rows("quadratic"):
            shown.setdefault(row["run"], []).append(row)
        for index in sorted(own & set(summaries)):
            run, summary, rows = self.study.runs[index], summaries[index], shown.get(index, [])
            where = f"setting {self.study.setting_of(run).name}, seed {run.seed}"
            self.require(summary["steps"] == run.steps and summary["steps"] > 0,
                         f"{where}: the bound was not looked at in every step")
            self.require(summary["violations"] == 0,
                         f"{where}: the quadratic left its bound in {summary['violations']} steps")
            self.require(MEANINGFUL <= summary["largest_ratio"] <= 1,
                         f"{where}: the largest distance is {summary['largest_ratio']:.3g} of the bound, not within "
                         f"{MEANINGFUL} and 1")
            self.require(rows and all(0 <= row["distance"] <= row["bound"] < math.inf for row in rows),
                         f"{where}: a row of /quadratic is beyond its bound, or there is none")

    def check_contracts(self):
        """`difference` again from the runs: of parameters by their hash, of losses where these may differ."""
        rows, runs = self.trace.rows("checks"), self.study.runs
        if any(setting.level == "contract" for setting in self.study.settings):
            self.require(rows, "/checks is empty, and the matrix has settings of the level contract")
        for row in rows:
            if max(row["first"], row["second"]) >= len(runs):
                raise Invalid(f"/checks: {row['name']} is of a run that is not there")
            first, second = runs[row["first"]], runs[row["second"]]
            names = " / ".join(self.study.setting_of(run).name for run in (first, second))
            where = f"check {row['name']} of {names}"
            if not self.require(not first.diverged and not second.diverged,
                                f"{where}: a run diverged, which shows nothing"):
                continue
            same = bool(first.parameters_hash) and first.parameters_hash == second.parameters_hash
            found = row["difference"]
            self.require(math.isfinite(found) and found >= 0 and (found == 0) == same,
                         f"{where}: difference {found}, but the parameters are "
                         f"{'the same' if same else 'not the same'}")
            if not same:
                apart = abs(first.final_train_loss - second.final_train_loss) / abs(first.final_train_loss)
                self.require(row["limit"] == 0 or math.isclose(found, apart, rel_tol=1e-6, abs_tol=1e-12),
                             f"{where}: difference {found}, the runs' losses say {apart}")
            within = same or found <= row["limit"] and row["limit"] > 0
            self.require(row["passed"] == within, f"{where}: passed is {row['passed']}, should be {int(within)}")
            self.require(within, f"{where}: differs by {found}, allowed is {row['limit']}")

    def check_errors(self):
        """Rows of /errors belong to runs, are sane, and there are some of every step that was to be measured."""
        every = [json.loads(setting.config_json).get("zeropp", {}).get("measure_quantization_error", 0)
                 for setting in self.study.settings]
        found = {}
        for row in self.trace.rows("errors"):
            if row["run"] >= len(self.study.runs):
                raise Invalid(f"/errors: a row of run {row['run']}, which is not there")
            run = self.study.runs[row["run"]]
            found.setdefault(run.index, set()).add(row["step"])
            setting = self.study.setting_of(run)
            exact = row["kind"] == "weights" and setting.weights_are_exact
            problem = None if run.diverged else error_rows.problem(row, exact)
            self.require(not problem, f"setting {setting.name}, seed {run.seed}: /errors: {problem}")
        for run in self.study.runs:
            skipped = {step for step, was in enumerate(run.skips) if was}
            wanted = set(range(0, run.steps, every[run.setting])) - skipped if every[run.setting] else set()
            self.require(run.diverged or wanted <= found.get(run.index, set()),
                         f"setting {self.study.setting_of(run).name}, seed {run.seed}: /errors lacks a step that was "
                         f"to be measured")


def problems(trace):
    """Reasons why the trace is invalid; none: it is valid."""
    return ConvergeChecker(trace).check()
