"""Checks a trace of zpp_plan. Bytes, messages and memory of an estimate are derived again from its units and
configuration. The numbers of a search, a step in time, a comparison and break-even rates have to fit each other."""

import json
import math

from zpp_validate.checkers.trace_checker import Invalid, TraceChecker
from zpp_validate.forms import kept_inputs
from zpp_validate.forms.closed_forms import Bytes, Run, Settings
from zpp_validate.forms.wire import MODELLED, Topology
from zpp_validate.problem import reason_of

PHASES = ("forward", "backward", "update")
FASTEST_LINK = 1e13  # bytes/s: of those that are tried
FEATURES = ["none", "qwZ", "hpZ", "qgZ", "qwZ+qgZ", "hpZ+qgZ", "all"]
# Rows of a comparison after FEATURES, in this order; those of a line together or not at all: all parts may have weight
# differences already, nodes one rank, stages 1 and 2 too little memory, and the trainer refuses some.
OTHERS = [["all+differences"], ["hpZ+exact", "hpZ+qgZ+exact"], ["hpZ+qgZ+exact+int8"], ["hybrid", "hybrid+qgZ"],
          ["stage 2"], ["stage 1"]]
IN_TURN = ["hybrid", "stage 2", "stage 1"]  # of these the rows of micro-steps one after the other
CLOSE = 1e-9  # of what is added up in another order


class PlanChecker(TraceChecker):
    def check(self):
        try:
            self.check_schema()
            self.check_ranks()
            self.require(self.attributes["world_size"] == 1, "a plan is made by one process")
            self.check_plan()
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def group(self, name):
        return self.trace.plan[name]


class Estimate(PlanChecker):
    def check_plan(self):
        self.check_job()
        self.check_traffic()
        self.check_collectives()
        self.check_memory()

    def check_job(self):
        job = self.group("job")
        nodes, local, size = (int(job[name]) for name in ("node_count", "ranks_per_node", "world_size"))
        if not (nodes > 0 and local > 0 and nodes * local == size):
            raise Invalid("/job: world_size is not node_count times ranks_per_node")
        tensors = [[] for _ in self.trace.rows("units")]
        try:
            config = json.loads(self.attributes["config_json"])
            tokens = config["train_batch_size"] * config["zeropp"]["model"]["seq_length"]
            settings = Settings.of(config)
            self.kept = kept_inputs.memory(config, config["zeropp"]["backend"], settings.element_bytes)
            for row in self.trace.rows("tensors"):
                tensors[row["unit"]].append(row["elements"])
            layers = [[int(unit) for unit in row["units"].split(",") if unit] for row in self.trace.rows("layers")]
            self.run = Run(settings, Topology.uniform(nodes, local), tensors, layers,
                           self.trace.columns["units"]["name"])
            # At stage 3 the weights of a step were updated by the one before; an evaluation gathers them first.
            step = config["plan"]["step"]
            found = "behind" if step > 0 and settings.stage == 3 else "none"
            ordinary, self.evaluated = (self.run.replay([False], evaluations, step, found=found)
                                        for evaluations in ([], [(0, 1)]))
            interval = config["zeropp"].get("evaluation_interval", 0)
            self.planned = self.evaluated if interval and step % interval == 0 else ordinary
        except (ValueError, KeyError, TypeError, IndexError, ArithmeticError) as error:
            raise Invalid(f"no plan follows from units and configuration: {reason_of(error)}") from error
        elements = [sum(unit) for unit in tensors]
        self.require(self.trace.columns["units"]["elements"] == elements, "/units/elements are not those of /tensors")
        for name, value in (("parameters", sum(elements)), ("tokens_per_step", tokens)):
            self.require(job[name] == value, f"/job: {name} is {job[name]}, should be {value}")
        self.require(job["flops_per_step"] > 0, "/job: flops_per_step is not positive")

    def expected_traffic(self):
        """{phase: (bytes, messages)}"""
        def total(volume, wanted):
            rows = [row for key, row in volume.rows.items() if wanted(key)]
            return sum((row.sent for row in rows), Bytes()), sum((row.messages for row in rows), Bytes())

        in_step = lambda key: key[2] in PHASES
        return {**{phase: total(self.planned, lambda key, phase=phase: key[2] == phase)
                   for phase in (*PHASES, "initial")},
                "step": total(self.planned, in_step), "step, weights unchanged": total(self.evaluated, in_step),
                "step, modelled": total(self.planned, lambda key: in_step(key) and key[3] in MODELLED),
                "evaluation": total(self.evaluated, lambda key: key[2] == "evaluation")}

    def check_traffic(self):
        expected = self.expected_traffic()
        self.require(sorted(self.trace.columns["traffic"]["phase"]) == sorted(expected),
                     f"/traffic has not exactly the phases {', '.join(expected)}")
        for row in self.trace.rows("traffic"):
            for kind, value in zip(("bytes", "messages"), expected.get(row["phase"], ())):
                found = Bytes(row[f"{kind}_intra_node"], row[f"{kind}_inter_node"])
                self.require(found == value, f"/traffic: {kind} of {row['phase']}: {found} should be {value}")

    def check_collectives(self):
        left = {key: row for key, row in self.planned.rows.items() if key[2] in PHASES}
        for row in self.trace.rows("collectives"):
            key = tuple(row[name] for name in ("operation", "purpose", "phase", "algorithm", "codec", "group"))
            where = f"/collectives: {' '.join(key)}"
            expected = left.pop(key, None)
            if not self.require(expected, f"{where}: does not run with this configuration, or is twice"):
                continue
            for name, value in (("calls", expected.calls), ("wire_bytes_intra", expected.sent.intra),
                                ("wire_bytes_inter", expected.sent.inter),
                                ("messages_intra", expected.messages.intra),
                                ("messages_inter", expected.messages.inter)):
                self.require(row[name] == value, f"{where}: {name} is {row[name]}, should be {value}")
            self.require(row["modelled"] == (row["algorithm"] in MODELLED), f"{where}: modelled is wrong")
        for key in left:
            self.require(False, f"/collectives: {' '.join(key)}: is missing")

    def check_memory(self):
        found = {row["name"]: row["bytes"] for row in self.trace.rows("memory")}
        expected = self.run.memory()
        names = [*expected, *["measurement"] * ("measurement" in found), "arena", "activations", *self.kept]
        expected |= self.kept
        self.require([*found] == names, f"/memory does not name exactly {', '.join(names)}")
        for name, value in expected.items():
            self.require(found.get(name) == value, f"/memory: {name} is {found.get(name)}, should be {value}")
        total = self.group("job")["memory_bytes"]
        on_device = sum(size for name, size in found.items() if not name.startswith("offloaded_"))
        self.require(on_device == total, f"/job: memory_bytes is {total}, not the sum of what /memory has on "
                     f"the device")


class Search(PlanChecker):
    def check_plan(self):
        sizes = {}
        for row in self.trace.rows("searches"):
            sizes[row["nodes"]] = row
            self.require(row["fitting"] <= row["possible"] <= row["considered"],
                         f"/searches: {row['nodes']} nodes: more fit than were considered")
        rows = self.trace.rows("candidates")
        self.require({row["nodes"] for row in rows} <= set(sizes),
                     "/candidates has a number of nodes that was not searched")
        for nodes, size in sizes.items():
            own = [row for row in rows if row["nodes"] == nodes]
            self.require(len(own) <= size["fitting"] and bool(own) == bool(size["fitting"]),
                         f"/candidates: {len(own)} with {nodes} nodes, of {size['fitting']} that fit")
            self.check_candidates(nodes, own)

    def check_candidates(self, nodes, rows):
        timed = not any(math.isnan(row["seconds"]) for row in rows)
        costs = [tuple(row[name] for name in ("bytes_inter_node", "bytes_intra_node", "hardware_flops", "memory"))
                 + (-row["weight_bits"], -row["gradient_bits"]) + ((row["seconds"],) if timed else ()) for row in rows]
        for index, row in enumerate(rows):
            where = f"/candidates: row {index} of {nodes} nodes"
            self.require(all(math.isfinite(value) for value in costs[index]) and row["memory"] > 0
                         and row["hardware_flops"] > 0,
                         f"{where}: numbers that cannot be")
            self.require(not timed or row["seconds"] > 0, f"{where}: takes {row['seconds']} s")
            self.require(nodes > 1 or not row["bytes_inter_node"],
                         f"{where}: bytes between nodes, of which there is one")
        for index, own in enumerate(costs):
            beaten = any(other != index and all(a <= b for a, b in zip(theirs, own))
                         for other, theirs in enumerate(costs))
            self.require(not beaten, f"/candidates: row {index} of {nodes} nodes is beaten by another")


class Time(PlanChecker):
    def check_plan(self):
        time, rows = self.group("time"), self.trace.rows("timeline")
        step = time["step_seconds"]
        if not 0 < step < math.inf:
            raise Invalid(f"/time: step_seconds is {step}")
        for parts in (("optimizer", "forward", "backward"), ("compute", "exposed")):
            total = sum(time[f"{part}_seconds"] for part in parts)
            # Where an engine hides only a part, computing is that of a full overlap.
            self.require(math.isclose(total, step, rel_tol=1e-6) or parts[0] == "compute",
                         f"/time: {' and '.join(parts)} are not the step")
        self.require(all(time[f"{name}_seconds"] >= 0 for name in ("optimizer", "forward", "backward", "compute",
                                                                   "exposed")), "/time: less than no time")
        self.require(time["tokens_per_second"] > 0 and 0 < time["mfu"] <= 1,
                     "/time: tokens_per_second or mfu cannot be")
        for index, row in enumerate(rows):
            self.require(0 <= row["begin"] <= row["started"] <= row["end"] <= step * (1 + 1e-6),
                         f"/timeline: row {index} is not in order within the step")
        self.require(any(row["operation"] == "forward" for row in rows), "/timeline has no forward")


class BreakEven(PlanChecker):
    def check_plan(self):
        rows = self.trace.rows("break_even")
        self.require([row["feature"] for row in rows] == FEATURES, f"/break_even has not exactly {', '.join(FEATURES)}")
        for row in rows:
            where = f"/break_even: {row['feature']}"
            self.require(0 <= row["link_rate"] <= FASTEST_LINK and row["gpu_rate"] >= 0,
                         f"{where}: a rate that was not tried")
            self.require(0 < row["step_seconds"] < math.inf, f"{where}: step_seconds is {row['step_seconds']}")
            self.require(math.isclose(row["speedup"] * row["step_seconds"], rows[0]["step_seconds"], rel_tol=CLOSE),
                         f"{where}: speedup is not that over {rows[0]['feature']}")


class Comparison(PlanChecker):
    def check_plan(self):
        rows = self.trace.rows("comparison")
        features = [row["feature"] for row in rows]
        others = [name for line in OTHERS if line[0] in features for name in line]
        if features != [*FEATURES, *others]:
            raise Invalid(f"/comparison has not exactly {', '.join(FEATURES)}, and then perhaps "
                          f"{', '.join(name for line in OTHERS for name in line)}")
        timed = not any(math.isnan(row["step_seconds"]) for row in rows)
        for row in rows:
            where = f"/comparison: {row['feature']}"
            self.require(row["memory"] > 0, f"{where}: no memory")
            self.require(math.isclose(row["reduction"] * row["bytes_out_of_node"], rows[0]["bytes_out_of_node"],
                                      rel_tol=CLOSE),
                         f"{where}: reduction is not that of {rows[0]['feature']} over it")
            if timed:
                self.check_times(where, row, rows[0])
            else:
                self.require(all(math.isnan(row[name]) for name in ("step_seconds", "speedup", "link_rate"))
                             and not row["bound"],
                             f"{where}: times of some rows alone")
        self.check_in_turn(rows, timed)

    def check_in_turn(self, rows, timed):
        """A step whose micro-steps run one after the other sends no less than one whose micro-steps know of each
        other."""
        in_turn = self.trace.rows("in_turn")
        together_by_feature = {row["feature"]: row for row in rows}
        expected = [*FEATURES, *[name for name in IN_TURN if name in together_by_feature]]
        if [row["feature"] for row in in_turn] != expected:
            raise Invalid(f"/in_turn has not exactly {', '.join(expected)}")
        for row in in_turn:
            together = together_by_feature[row["feature"]]
            where = f"/in_turn: {row['feature']}"
            self.require(row["bytes_out_of_node"] >= together["bytes_out_of_node"],
                         f"{where}: fewer bytes than /comparison has")
            self.require(math.isclose(row["reduction"] * row["bytes_out_of_node"], in_turn[0]["bytes_out_of_node"],
                                      rel_tol=CLOSE),
                         f"{where}: reduction is not that of {in_turn[0]['feature']} over it")
            if timed:
                self.require(0 < row["step_seconds"] < math.inf, f"{where}: step_seconds is {row['step_seconds']}")
                self.require(math.isclose(row["speedup"] * row["step_seconds"], in_turn[0]["step_seconds"],
                                          rel_tol=CLOSE),
                             f"{where}: speedup is not that over {in_turn[0]['feature']}")
            else:
                self.require(math.isnan(row["step_seconds"]) and math.isnan(row["speedup"]),
                             f"{where}: times without a cluster")

    def check_times(self, where, row, before):
        self.require(0 < row["step_seconds"] < math.inf, f"{where}: step_seconds is {row['step_seconds']}")
        self.require(math.isclose(row["speedup"] * row["step_seconds"], before["step_seconds"], rel_tol=CLOSE),
                     f"{where}: speedup is not that over {before['feature']}")
        self.require(0 <= row["link_rate"] <= FASTEST_LINK, f"{where}: link_rate was not tried")
        self.require(row["bound"], f"{where}: bound is empty")


# By what zpp_plan was asked for, as trace_file names it.
CHECKERS = {"plan": Estimate, "plan search": Search, "plan time": Time, "plan breakeven": BreakEven,
            "plan compare": Comparison}


def problems(trace):
    """Reasons why the trace is invalid; none: it is valid."""
    return CHECKERS[trace.app](trace).check()
