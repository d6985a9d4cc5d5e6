"""Judges a trace of any program of the suite: prints VALID, or INVALID: reason, one reason a line.

Reads nothing but the file: is it complete, do its values have their digest, are its numbers sane, and do its counted
and predicted bytes follow from its own units and configuration? A sweep (check_sweep.py): do statistics and bandwidths
follow from the samples, and is every requested row there? A trace of zpp_kernels (kernels_trace.py): do times and
shares follow from the samples and ceilings, and bytes from the shapes? A trace of zpp_converge (converge_checker.py):
is the matrix whole, and do its bounds and contracts hold? A trace of zpp_plan (plan_checker.py): do planned bytes,
messages and memory follow from units and configuration?

Exit codes: 0 valid, 1 invalid, 2 usage, 5 a file cannot be opened: none is judged then.
"""

import json
import math
import re
import sys
from dataclasses import replace

from zpp_validate import command_line
from zpp_validate.checkers import checkpoint_rows, codec_rows, converge_checker, copy_rows, exact_rows, fabric_trace
from zpp_validate.checkers import kernels_trace, plan_checker
from zpp_validate.checkers.check_sweep import SweepChecker
from zpp_validate.checkers.trace_checker import Invalid, TraceChecker
from zpp_validate.forms import error_rows, kept_inputs, learning_rate, loss_scale, model_flops
from zpp_validate.forms.closed_forms import Bytes, Run, Settings
from zpp_validate.forms.transformer import PARTS, Shape
from zpp_validate.forms.wire import MODELLED
from zpp_validate.problem import MALFORMED, reason_of
from zpp_validate.readers import trace_format as fmt
from zpp_validate.readers.trace_file import Trace


class Checker(TraceChecker):
    def __init__(self, trace):
        super().__init__(trace)
        self.steps = trace.rows("steps")

    def check(self):
        try:
            self.check_identity()
            self.check_ranks()
            self.check_gpus(self.config["zeropp"].get("gpu_sampling", 0))
            self.check_steps()
            self.check_evaluations()
            self.check_data()
            self.check_flops()
            self.check_structure()
            self.check_memory()
            self.problems += codec_rows.problems(self.trace, self.run, self.steps, self.first, dict(self.evaluations))
            if "weight_copies" in self.trace.columns:
                holders = (self.topology.node_count, "nodes") if self.settings.on_rails() else (self.topology.size,
                                                                                                "ranks")
                self.problems += copy_rows.problems(self.trace.columns["weight_copies"]["hash"], *holders,
                                                    self.trace.copies_found, self.first)
            if "exact_differences" in self.trace.columns:
                rows = self.trace.rows("exact_differences")
                wrong = exact_rows.problem(rows, self.run.layout.shards)
                if wrong:  # without shapes no bytes follow
                    raise Invalid(wrong)
                self.run.shapes = exact_rows.shapes(rows)
            volume = self.run.replay([row["skipped"] for row in self.steps],
                                     self.evaluations, self.first, self.trace.copies_found)
            self.require(not self.run.shapes, "/exact_differences has rows of exchanges that there were not")
            self.check_step_bytes(volume)
            self.check_collectives(volume)
            self.check_timers()
            self.check_counters(volume)
            if self.error_interval:
                self.check_errors()
            if "checkpoints" in self.trace.columns:
                self.check_checkpoints()
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def check_identity(self):
        a = self.attributes
        self.check_schema()
        try:
            self.config = json.loads(a["config_json"])
            # Programs from before updates wrote images in this case have no tables for them.
            tables = "weight_image_tables" in self.trace.columns["memory"]["name"]
            self.settings = replace(Settings.of(self.config), fused_updates=tables)
            own = self.config["zeropp"]
            used = [name for name, without_effect in fmt.REMOVED_OPTIONS.items()
                    if own.get(name, without_effect) != without_effect]
            used += ["model.name " + own["model"]["name"]] if own["model"]["name"] in fmt.REMOVED_MODELS else []
            if used:
                raise Invalid(f"the run used zeropp.{used[0]}, which this version does not know: judge the trace with "
                              f"the zpp-validate of the version that wrote it, {a['version']}")
            self.require(own["seed"] == a["seed"], "seed differs from the configuration's")
            self.require(int(own["deterministic"]) == a["deterministic"],
                         "deterministic differs from the configuration's")
            self.expected_steps = own["train_steps"]
            self.rate_problem = learning_rate.problem(self.config, a["first_step"],
                                                      [row["skipped"] for row in self.steps],
                                                      [row["learning_rate"] for row in self.steps])
            self.scale_problem = loss_scale.problem(self.config, a["first_step"],
                                                    [row["skipped"] for row in self.steps],
                                                    [row["loss_scale"] for row in self.steps])
            self.evaluation_interval = int(own.get("evaluation_interval", 0))
            self.error_interval = int(own.get("measure_quantization_error", 0))
            self.verify_interval = int(own.get("verify_interval", 0))
            # Nats a token are not negative; the quadratic model's loss may be.
            self.is_likelihood = own["model"]["name"] != "quadratic"
            self.tokens_are_bytes = self.is_likelihood and own["data"]["source"] == "text"
            self.tokens = self.config["train_batch_size"] * own["model"]["seq_length"]
            parts = (self.config["train_micro_batch_size_per_gpu"] * self.settings.accumulation
                     * a["world_size"])
            hashed = own.get("hash_parameters", True)
        except (ValueError, KeyError, TypeError) as error:
            raise Invalid(f"config_json is not an effective configuration: {reason_of(error)}") from error
        self.require(re.fullmatch("[0-9a-f]{64}" if hashed else "", a["parameters_hash"]),
                     "parameters_hash is no SHA-256 in hexadecimal digits" if hashed else
                     "parameters_hash is there without zeropp.hash_parameters")
        self.require(own.get("backend", a["backend"]) == a["backend"] and
                     own.get("transport", a["transport"]) == a["transport"],
                     "backend or transport differs from the configuration's")
        self.require(parts == self.config["train_batch_size"], "the batch sizes do not agree")
        self.require(not own["node_size"] or
                     (a["emulated"] == 1 and a["ranks_per_node"] == own["node_size"]),
                     "declared nodes are not marked emulated, or have another size")

    def check_steps(self):
        signal, count = self.attributes["interrupted"], len(self.steps)
        self.interrupted = signal != ""
        self.require(signal in ("", "SIGTERM", "SIGUSR1"), f"interrupted by {signal!r}")
        self.first = self.attributes["first_step"]  # steps that an earlier run did
        done = self.first + count
        self.require(done < self.expected_steps if self.interrupted else done == self.expected_steps,
                     f"{done} steps of {self.expected_steps}" + f", interrupted by {signal}" * self.interrupted)
        if self.steps and not self.interrupted:
            every = self.first == 0 and all(row["skipped"] for row in self.steps)
            # A dynamic loss scale may try one that is too large in the last step.
            self.require(not every and (not self.steps[-1]["skipped"] or loss_scale.is_dynamic(self.config)),
                         "all steps were skipped" if every else "the last step was skipped")
        self.require(not self.scale_problem, self.scale_problem)
        self.require(not self.rate_problem, self.rate_problem)
        for i, row in enumerate(self.steps):
            where = f"step {i}"
            self.require(row["skipped"] in (0, 1), f"{where}: skipped is no flag")
            for name in ("loss", "grad_norm"):
                self.require(row["skipped"] or math.isfinite(row[name]),
                             f"{where}: {name} is not finite, and the step was not skipped")
            self.require(not (self.is_likelihood and row["loss"] < 0), f"{where}: loss < 0")
            self.require(not row["grad_norm"] < 0, f"{where}: grad_norm < 0")
            if self.require(math.isfinite(row["time"]) and row["time"] > 0,
                            f"{where}: time is not positive"):
                rate = row["tokens_per_second"] * row["time"]
                self.require(math.isclose(rate, self.tokens, rel_tol=1e-6),
                             f"{where}: tokens_per_second * time is not {self.tokens} tokens")
            self.check_parts(i, row, where)

    def check_parts(self, index, row, where):
        """Checks the parts of a step's time. On a GPU the work after the gradients overlaps the next step; after the
        last step it has no bound here."""
        for name in ("time_forward", "time_backward", "time_communication_exposed", "time_reduce"):
            self.require(0 <= row[name] <= row["time"] * 1.001, f"{where}: {name} is not within the step's time")
        longest = row["time"]
        if self.attributes["backend"] == "cuda":
            longest += self.steps[index + 1]["time"] if index + 1 < len(self.steps) else math.inf
        for name in ("time_gather", "time_agreement", "time_optimizer", "time_offload_wait"):
            if name not in row:  # of differences that are not exact
                continue
            self.require(0 <= row[name] <= longest * 1.001, f"{where}: {name} is not within the time of the "
                         f"step{' and the next' * (longest > row['time'])}")
        # One thread, no maximum over ranks.
        if self.attributes["world_size"] == 1 and self.attributes["backend"] == "host":
            after = 0 if self.settings.update_in_backward else row["time_optimizer"]  # else part of backward
            parts = row["time_forward"] + row["time_backward"] + after
            self.require(parts <= row["time"] * 1.001, f"{where}: forward, backward and the optimizer take longer than "
                         f"the step")
        offload = self.settings.offload
        self.require((row["time_optimizer"] > 0) != bool(row["skipped"]),
                     f"{where}: time_optimizer of a step that was {'skipped' if row['skipped'] else 'taken'}")
        if offload is None or row["skipped"] or offload.ratio > 0:
            self.require((row["time_offload_wait"] > 0) == (offload is not None and not row["skipped"]),
                         f"{where}: time_offload_wait does not fit what is offloaded")

    def check_evaluations(self):
        """Before the run's first step, after every evaluation_interval steps, and after the last that was asked for. A
        signal may have cut off the last of an interrupted run. self.evaluations has its batches too; it counts from the
        run's first step."""
        rows, interval, first = self.trace.rows("evaluations"), self.evaluation_interval, self.first
        last = first + len(self.steps)
        self.evaluations = [(row["step"] - first, row["batches"]) for row in rows]
        ends = set() if self.interrupted else {last}
        due = {step for step in range(first, last + 1) if step % interval == 0} if interval else set()
        expected = sorted({first, *due, *ends}) if interval else []
        cut_off = expected[:-1] if self.interrupted and expected and expected[-1] == last > first else expected
        self.require([row["step"] for row in rows] in (expected, cut_off),
                     f"/evaluations/step does not follow the interval {interval}")
        largest, batches = self.config["zeropp"].get("evaluation_batches", 0), {row["batches"] for row in rows}
        if len(batches) > 1 or not all(0 < each <= largest for each in batches):
            raise Invalid("/evaluations/batches is not one number within zeropp.evaluation_batches")
        if self.trace.cut_off:
            if len(rows) == len(expected) or self.trace.cut_off >= max(batches, default=0):
                raise Invalid(f"/evaluations: cut_off is {self.trace.cut_off}, and no evaluation was cut off there")
            self.evaluations.append((last - first, self.trace.cut_off))
        for row in rows:
            where = f"evaluation after step {row['step']}"
            self.require(math.isfinite(row["loss"]) and not (self.is_likelihood and row["loss"] < 0),
                         f"{where}: loss {row['loss']}")
            if self.tokens_are_bytes:
                self.require(math.isclose(row["bits_per_byte"], row["loss"] / math.log(2), rel_tol=1e-9),
                             f"{where}: bits_per_byte is not loss / ln 2")
            else:
                self.require(math.isnan(row["bits_per_byte"]),
                             f"{where}: bits_per_byte is a number, but the loss is not of bytes")

    def check_data(self):
        data = self.trace.data
        for name in ("train_tokens", "held_out_tokens", "vocab_size"):
            self.require(data[name] > 0, f"/data: {name} is not positive")
        self.require(0 <= data["unigram_entropy_bits"] <= math.log2(max(1, data["vocab_size"])) + 1e-6,
                     "/data: unigram_entropy_bits is not within 0 and log2 of vocab_size")
        self.require(math.isnan(data["source_entropy_bits"]) or data["source_entropy_bits"] >= 0,
                     "/data: source_entropy_bits < 0")

    def check_flops(self):
        a, model = self.attributes, self.config["zeropp"]["model"]
        expected = [a["flops_per_token"]] * 2  # of a model that recomputes nothing
        if model["name"] in PARTS:
            try:
                shape = Shape.of(model, int(self.trace.data["vocab_size"]))
                again = (model_flops.blocks_recomputed(shape.layers, model.get("recompute_interval", 1))
                         if model["recompute_activations"] else 0)
                expected = [model_flops.flops_per_token(shape), model_flops.hardware_flops_per_token(shape, again)]
            except (KeyError, TypeError, ValueError, ArithmeticError) as error:
                raise Invalid(f"config_json is not the configuration of a transformer: {reason_of(error)}") from error
        layers = self.trace.rows("layers")
        for name in ("flops_per_token", "hardware_flops_per_token"):
            self.require(all(row[name] >= 0 for row in layers) and math.isclose(sum(row[name] for row in layers),
                                                                                a[name], rel_tol=1e-9),
                         f"/layers/{name} does not add up to {name}")
        for name, value in zip(("flops_per_token", "hardware_flops_per_token"), expected):
            self.require(a[name] > 0 and math.isclose(a[name], value, rel_tol=1e-12),
                         f"{name} is {a[name]:.0f}, should be {value:.0f}")

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
            self.run = Run(self.settings, self.topology, self.unit_tensors, self.layers, [row["name"] for row in units])
        except (ValueError, TypeError, ArithmeticError, IndexError) as error:
            raise Invalid(f"no schedule follows from the configuration: {reason_of(error)}") from error
        for i, row in enumerate(units):
            expected = {"elements": sum(self.unit_tensors[i]), "flat": self.run.layout.flat[i],
                        "shard": self.run.layout.shards[i],
                        "padded": self.run.layout.padded[i],
                        "gathers_forward": self.run.gathers_of(i, "forward"),
                        "gathers_backward": self.run.gathers_of(i, "backward")}
            for name, value in expected.items():
                self.require(row[name] == value,
                             f"unit {row['name']}: {name} is {row[name]}, should be {value}")

    def check_memory(self):
        rows = self.trace.rows("memory")
        expected = self.run.memory()
        names = [*expected, *["measurement"] * bool(self.error_interval),
                 *["verification"] * bool(self.verify_interval), "arena", "activations"]
        # Digests of 8 bytes: of a unit 11 (lib/trace/README.md).
        expected["verification"] = 88 * len(self.unit_tensors)
        try:
            kept = kept_inputs.memory(self.config, self.attributes["backend"], self.settings.element_bytes)
        except (KeyError, TypeError, ArithmeticError) as error:
            raise Invalid(f"config_json does not say what inputs of blocks take: {reason_of(error)}") from error
        names += kept
        expected |= kept
        measured = ["buffers_peak", "gpu_used"] if self.attributes["backend"] == "cuda" else []
        self.require([row["name"] for row in rows] == names + measured,
                     f"/memory does not name exactly {', '.join(names + measured)}")
        total = sum(row["bytes_predicted"] for row in rows if row["name"] in names
                    and not row["name"].startswith("offloaded_"))
        total *= self.config["zeropp"].get("virtual_ranks", 0) or 1  # a process has the memory of its ranks
        for row in rows:
            predicted = row["bytes_predicted"]
            if row["name"] in measured:
                self.require(predicted == total, f"/memory: {row['name']} is not predicted as the sum")
                # The context of CUDA, NCCL's buffers and other processes are in gpu_used, which is told, not judged.
                self.require(row["name"] == "gpu_used" or
                             abs(row["bytes_actual"] - predicted) <= 0.05 * predicted + 2**20,
                             f"/memory: {row['name']} is {row['bytes_actual']}, more than 5 % from {predicted}")
                continue
            self.require(row["bytes_actual"] == predicted,
                         f"/memory: {row['name']} takes {row['bytes_actual']} of {predicted} bytes predicted")
            self.require(predicted == expected.get(row["name"], predicted),
                         f"/memory: {row['name']} is {predicted}, should be {expected.get(row['name'])}")

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

    def check_collectives(self, volume):
        """Exactly the rows that the replay has, each with its calls and bytes."""
        left = dict(volume.rows)
        for row in self.trace.rows("collectives"):
            key = tuple(row[name] for name in ("operation", "purpose", "phase", "algorithm", "codec",
                                               "group"))
            where = f"/collectives: {' '.join(key)}"
            expected = left.pop(key, None)
            if not self.require(expected, f"{where}: did not run with this configuration, or is twice"):
                continue
            for name, value in (("calls", expected.calls), ("logical_bytes", expected.logical),
                                ("wire_bytes_intra", expected.sent.intra),
                                ("wire_bytes_inter", expected.sent.inter)):
                self.require(row[name] == value, f"{where}: {name} is {row[name]}, should be {value}")
            self.require(row["modelled"] == (row["algorithm"] in MODELLED), f"{where}: modelled is wrong")
            self.require(row["path"] in self.paths(row), f"{where}: path {row['path']!r}")
            self.require(math.isfinite(row["seconds"]) and row["seconds"] >= 0, f"{where}: seconds")
        for key in left:
            self.require(False, f"/collectives: {' '.join(key)}: is missing")

    def paths(self, row):
        """Between two hops a sum is encoded again, in one pass or in several; errors are fed back in several."""
        hops = ()
        if row["purpose"] == "gradients_across":
            hops = ("inter",) * self.run.feedback.across
        elif row["purpose"] == "gradients" and row["operation"] == "reduce_scatter":
            hops = self.run.feedback.inside
        between = () if "/" not in row["codec"] else ("composed",) if "inter" in hops else ("fused", "composed")
        feedback = "feedback:" + ",".join(hops) if hops else ""
        return ["+".join(filter(None, (path, feedback))) for path in between or ("",)]

    def check_timers(self):
        """Every category of every rank once; a rank that trained took time."""
        rows = self.trace.rows("timers")
        found = sorted((row["rank"], row["category"]) for row in rows)
        self.require(found == sorted((rank, category) for rank in range(self.attributes["world_size"])
                                     for category in fmt.TIMER_CATEGORIES),
                     "/timers has not every category of every rank once")
        for row in rows:
            self.require(math.isfinite(row["seconds"]) and row["seconds"] >= 0,
                         f"timer {row['category']} of rank {row['rank']}")
        for rank in sorted({row["rank"] for row in rows}):
            self.require(sum(row["seconds"] for row in rows if row["rank"] == rank) > 0,
                         f"/timers: rank {rank} took no time")

    @property
    def alarms(self):
        """Damage that verified steps found, counted on each rank."""
        counters = self.trace.columns["counters"]
        return dict(zip(counters["name"], counters["value"])).get("verification_alarms", 0)

    def check_counters(self, volume):
        """Sums over ranks; what never happened has no row."""
        names = self.trace.columns["counters"]["name"]
        found = dict(zip(names, self.trace.columns["counters"]["value"]))
        self.require(len(found) == len(names), "/counters names one twice")
        once = {"secondary_gathers": volume.secondary_gathers(),
                "nonfinite_steps": sum(row["skipped"] for row in self.steps)}
        once |= volume.counters()
        if self.verify_interval:
            once["verified_steps"] = sum(step == self.first or (step + 1) % self.verify_interval == 0
                                         for step in range(self.first, self.first + len(self.steps)))
            found.pop("verification_alarms", 0)
            self.require(self.alarms % self.attributes["world_size"] == 0, "ranks count other verification_alarms")
            self.require(self.alarms == 0 or self.config["zeropp"]["verify_action"] == "warn",
                         "a step was found damaged (verification_alarms)")
        once |= self.run.file_counters(volume, sum(not row["skipped"] for row in self.steps))
        expected = {name: value * self.attributes["world_size"] for name, value in once.items() if value}
        files = expected.get("files", 0)
        for name, most in (("files_io_uring", files), ("files_direct", files),
                           ("file_wait_ns", math.inf if files else 0)):
            self.require(0 <= found.get(name, 0) <= most,
                         f"counter {name} is {found.get(name)}, should be at most {most}")
            found.pop(name, None)
        for name in sorted({*found, *expected}):
            self.require(found.get(name, 0) == expected.get(name, 0),
                         f"counter {name} is {found.get(name, 0)}, should be {expected.get(name, 0)}")

    def check_errors(self):
        """Exactly the rows that were asked for, with numbers that fit each other."""
        rows, s = self.trace.rows("errors"), self.settings
        units = [row["name"] for row in self.trace.rows("units")]
        expected = error_rows.expected_rows(self.steps, self.first, self.error_interval, s.stage, units)
        if not self.require([(row["step"], row["kind"], row["unit_kind"]) for row in rows] == expected,
                            "/errors has not exactly a row for each kind of weights and gradients in every "
                            "measured step"):
            return
        lossless = s.differences is None or s.differences.exact
        for row in rows:
            exact = row["kind"] == "weights" and lossless and self.codecs_of_weights(row, units) == {"none"}
            why = error_rows.problem(row, exact)
            self.require(why is None, f"/errors: {row['kind']} {row['unit_kind']} of step {row['step']}: {why}")

    def codecs_of_weights(self, row, units):
        """Codecs that may have brought the weights of a row of /errors. Below stage 3 an earlier step sent them."""
        table = self.run.table
        return {codec for index, name in enumerate(units) if error_rows.unit_kind(name) == row["unit_kind"]
                for codec in ([table.unit_at(index, row["step"]).weights] if self.settings.stage == 3
                              else table.weight_codecs(index))}

    def check_checkpoints(self):
        """Checks that all requested checkpoints are there, each with all arrays of all ranks."""
        options, rows = self.config["zeropp"]["checkpoint"], self.trace.rows("checkpoints")
        saved = [row["step"] for row in rows]
        expected = checkpoint_rows.expected_steps(self.first, self.first + len(self.steps), options.get("interval", 0))
        # A step that was found damaged has no checkpoint.
        self.require(saved == expected if not self.alarms else set(saved) <= set(expected),
                     f"/checkpoints is of steps {saved}, should be of {expected}")
        memory = self.run.memory()
        # One of two copies.
        errors = sum(memory.get(f"error_feedback_{hop}", 0) for hop in ("intra", "inter", "across")) // 2
        units = self.trace.columns["units"]["flat"]
        moments = self.settings.optimizer_states * sum(map(self.settings.moment_bytes, units))
        expected = checkpoint_rows.array_bytes(units, moments,
                                               errors * self.attributes["world_size"],
                                               len(units) * self.trace.is_adaptive(),
                                               self.run.copy_bytes() + 8 if self.settings.differences else 0)
        for row in rows:
            why = checkpoint_rows.problem(row, expected)
            self.require(why is None, f"/checkpoints: of step {row['step']}: {why}")


MOST_REASONS = 20  # that are said of one trace
# By program: the reasons why a trace of it is invalid.
CHECKERS = {"train": lambda trace: Checker(trace).check(), "sweep": lambda trace: SweepChecker(trace).check(),
            "fabric": fabric_trace.problems, "kernels": kernels_trace.problems, "converge": converge_checker.problems,
            **dict.fromkeys(plan_checker.CHECKERS, plan_checker.problems)}


def judge(path):
    """Reasons why the trace is invalid; none: it is valid."""
    return reasons_of(Trace(path))


def reasons_of(trace):
    if trace.app not in (*CHECKERS, ""):
        return [f"a trace of zpp_{trace.app}: those of {', '.join(f'zpp_{app}' for app in CHECKERS)} are judged here"]
    try:
        reasons = trace.problems or CHECKERS[trace.app](trace)
    except MALFORMED as error:
        reasons = [f"its parts do not fit each other: {reason_of(error)}"]
    return reasons + [trace.changed] * (trace.changed is not None)


def verdict(path, prefix=""):
    """(whether the trace is valid, what is said of it, in lines). On standard error, whether a valid one has no
    digest."""
    trace = Trace(path)
    reasons = reasons_of(trace)
    if not reasons and not trace.has_digest:
        print(f"zpp-validate check: {path} has no digest: it is of an earlier version, and damage of values may stay "
              "unfound", file=sys.stderr)
    return not reasons, [f"{prefix}INVALID: {reason}" for reason in reasons[:MOST_REASONS]] or [f"{prefix}VALID"]


def verdicts(paths):
    """verdict() of each of them, under its name where they are several."""
    return (verdict(path, f"{path}: " if len(paths) > 1 else "") for path in paths)


def main(words):
    parser = command_line.parser("check", __doc__)
    parser.add_argument("trace", type=command_line.InputFile, nargs="+", help="HDF5 files that the programs wrote")
    paths = parser.parse_args(words).trace
    status = 0
    for valid, lines in verdicts(paths):
        print("\n".join(lines))
        status = status if valid else 1
    return status
