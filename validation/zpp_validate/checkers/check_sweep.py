"""Judges a trace of zpp_sweep: everything that follows from samples, sizes and configuration is worked out again here.

Which rows have to be there is that of the configuration; times are those of the samples, by sample_statistics.py; bytes
and bandwidths are sweep_forms.py's. Shares nothing with the library.
"""

import json
import math
import statistics

from zpp_validate.checkers.trace_checker import Invalid, TraceChecker
from zpp_validate.forms import sweep_forms
from zpp_validate.forms.wire import MODELLED, Bytes, Topology
from zpp_validate.problem import reason_of
from zpp_validate.stats import sample_statistics

OVER_RANKS = (lambda times: times[0], statistics.fmean, min, max)  # by the option -a
FEWEST_CYCLES = 3  # where their number is free
CLOSE = 1e-9


def close(a, b):
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-300) or (math.isnan(a) and math.isnan(b))


def chosen(text, known):
    return list(known) if text == "all" else text.split(",")


class SweepChecker(TraceChecker):
    def check(self):
        try:
            self.check_identity()
            self.check_ranks()
            self.check_gpus(self.config.get("gpu_sampling", 0))
            self.rows = self.trace.rows("results")
            self.groups = {name: self.members(name) for name in ("world", "node", "rail")}
            self.read_samples()
            for index, row in enumerate(self.rows):
                self.where = " ".join([f"result {index}:", row["collective"], row["codec"], row["algorithm"],
                                       row["group"],
                                       f"of {row['size']} bytes"])
                self.check_names(row)
                self.check_times(row, self.samples[index])
                self.check_bytes(row)
                self.check_values(row)
            self.check_ratios()
            self.check_coverage()
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def expect(self, row, name, value):
        self.require(close(row[name], value) if isinstance(value, float) else row[name] == value,
                     f"{self.where}: {name} is {row[name]}, should be {value}")

    def check_identity(self):
        a = self.attributes
        self.check_schema()
        try:
            self.config = json.loads(a["config_json"])
            for name in ("seed", "backend", "transport"):
                self.require(self.config[name] == a[name], f"{name} differs from the configuration's")
            declared = self.config["node_size"]
            self.over_ranks = OVER_RANKS[self.config["average"]]
            self.cycles = self.config["run_cycles"] or int(self.config["iterations"] > 0)
            self.iterations, self.link_peak = self.config["iterations"], self.config["link_peak"]
            self.checked_up_to = (self.config["check_maximum_bytes"] or math.inf) if self.config["validation"] else -1
            self.sizes = list(self.sizes_of(*(self.config[name] for name in
                                              ("minimum_bytes", "maximum_bytes", "step_bytes", "step_factor"))))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise Invalid(f"config_json is not the configuration of a sweep: {reason_of(error)}") from error
        self.require(not declared or (a["emulated"] == 1 and a["ranks_per_node"] == declared),
                     "declared nodes are not marked emulated, or have another size")
        self.require(a["interrupted"] == "", f"interrupted by {a['interrupted']}")

    @staticmethod
    def sizes_of(size, last, step, factor):
        while size <= last:
            yield size
            size = size * factor if factor > 1 else size + step

    def members(self, name):
        """The groups of that name: lists of ranks."""
        nodes, locals_ = self.topology.nodes, self.trace.columns["ranks"]["local_rank"]
        key = {"world": lambda rank: 0, "node": lambda rank: nodes[rank], "rail": lambda rank: locals_[rank]}[name]
        found = {}
        for rank in range(self.topology.size):
            found.setdefault(key(rank), []).append(rank)
        return list(found.values())

    def ranks_of(self, group):
        return len(self.groups[group][0])

    def read_samples(self):
        """For each result its cycles, each the times of all ranks, in microseconds."""
        ranks = self.attributes["world_size"]
        self.samples = [[[math.nan] * ranks for _ in range(row["cycles"])] for row in self.rows]
        for sample in self.trace.rows("samples"):
            result, cycle, rank = sample["result"], sample["cycle"], sample["rank"]
            if not (result < len(self.rows) and cycle < self.rows[result]["cycles"] and rank < ranks):
                raise Invalid(f"/samples: result {result}, cycle {cycle}, rank {rank} is of no result")
            if not math.isnan(self.samples[result][cycle][rank]):
                raise Invalid(f"/samples: result {result}, cycle {cycle}, rank {rank} is there twice")
            if not 0 < sample["time"] < math.inf:
                raise Invalid(f"/samples: result {result}, cycle {cycle}, rank {rank} took {sample['time']} s")
            self.samples[result][cycle][rank] = sample["time"] * 1e6
        for index, cycles in enumerate(self.samples):
            if not cycles or any(math.isnan(time) for times in cycles for time in times):
                raise Invalid(f"/samples: result {index} has not every rank of every cycle")

    def check_names(self, row):
        known = (row["collective"] in sweep_forms.COLLECTIVES and row["type"] in sweep_forms.ELEMENT_BYTES
                 and row["group"] in self.groups and row["root"].isdigit() == (row["collective"] == "broadcast"))
        if not known:
            raise Invalid(f"{self.where}: no such collective, type, group or root")
        self.expect(row, "redop", sweep_forms.OPERATIONS.get(row["collective"], "none"))
        self.expect(row, "modelled", int(row["algorithm"] in MODELLED))
        self.expect(row, "size", sweep_forms.size_of(row["collective"], row["count"], row["type"],
                                                     self.ranks_of(row["group"])))

    def check_times(self, row, samples):
        summary = sample_statistics.summarize([max(times) for times in samples])
        for name, value in (("p50", summary.median), ("p50_low", summary.low), ("p50_high", summary.high),
                            ("p95", summary.p95), ("cv", summary.variation),
                            ("time", statistics.median(self.over_ranks(times) for times in samples)),
                            ("alg_bw", row["size"] / row["time"] * 1e-3),
                            ("bus_bw", row["alg_bw"] * sweep_forms.bus_factor(row["collective"],
                                                                              self.ranks_of(row["group"])))):
            self.expect(row, name, value)
        self.require(row["cycles"] == self.cycles if self.cycles else row["cycles"] >= FEWEST_CYCLES,
                     f"{self.where}: {row['cycles']} cycles, {self.cycles or f'{FEWEST_CYCLES} at least'} were "
                     f"asked for")
        self.require(row["iterations"] == self.iterations if self.iterations else row["iterations"] > 0,
                     f"{self.where}: {row['iterations']} iterations, {self.iterations or '1 at least'} were asked for")

    def check_bytes(self, row):
        sent = Bytes()
        try:
            for group in self.groups[row["group"]]:
                nodes = Topology(tuple(self.topology.nodes[rank] for rank in group))
                sent += sweep_forms.sent(nodes, row["collective"], row["codec"], row["algorithm"], row["type"],
                                         row["count"],
                                         int(row["root"] or 0))
        except ValueError as error:
            raise Invalid(f"{self.where}: {reason_of(error)}") from error
        self.expect(row, "wire_bytes_intra", sent.intra)
        self.expect(row, "wire_bytes_inter", sent.inter)
        busiest = sweep_forms.busiest(row["collective"], sent.intra + sent.inter, self.ranks_of(row["group"]),
                                      len(self.groups[row["group"]]))
        self.expect(row, "wire_bus_bw", busiest / row["time"] * 1e-3)
        self.require(not self.link_peak or row["wire_bus_bw"] <= self.link_peak, f"{self.where}: faster than the link")

    def check_values(self, row):
        checked = row["size"] <= self.checked_up_to
        self.expect(row, "checked", int(checked))
        self.expect(row, "wrong", 0)
        self.expect(row, "verdict", "VALID")
        largest = (1.0 if row["codec"] != "none" else 0.0) if checked else math.nan
        self.require(0 <= row["max_error"] <= largest if checked else math.isnan(row["max_error"]),
                     f"{self.where}: max_error is {row['max_error']}, at most {largest} is right")
        self.require(math.isfinite(row["slope"]) == (checked and row["count"] > 0),
                     f"{self.where}: slope is {row['slope']}")

    def check_ratios(self):
        """Over the fastest uncompressed row among those measured together: all ways of a size."""
        for block in self.blocks():
            for in_place in (0, 1):
                rows = [row for row in block if row["in_place"] == in_place]
                fastest = min((row["time"] for row in rows if row["codec"] == "none"), default=math.nan)
                for row in rows:
                    self.where = " ".join([row["collective"], row["codec"], row["algorithm"],
                                           f"of {row['size']} bytes"])
                    self.expect(row, "ratio", fastest / row["time"])

    def blocks(self):
        """Rows in order, parted where a way comes again or another collective begins."""
        block, seen, setting = [], set(), None
        for row in self.rows:
            own = tuple(row[name] for name in ("collective", "group", "type", "root", "size"))
            way = (row["codec"], row["algorithm"], row["in_place"])
            if block and (own != setting or way in seen):
                yield block
                block, seen = [], set()
            block.append(row)
            seen.add(way)
            setting = own
        if block:
            yield block

    def check_coverage(self):
        """Every size of every collective, group, type and root, once for each way."""
        found = {}
        for block in self.blocks():
            first = block[0]
            setting = tuple(first[name] for name in ("collective", "group", "type", "root"))
            found.setdefault(setting, []).append(block)
        for (collective, group, dtype, root), blocks in found.items():
            where = " ".join(filter(None, (collective, group, dtype, root)))
            counts = [sweep_forms.count_of(collective, size, dtype, self.ranks_of(group)) for size in self.sizes]
            self.require([block[0]["count"] for block in blocks] == counts,
                         f"{where}: the sizes are not those asked for")
            ways = {tuple((row["codec"], row["algorithm"], row["in_place"]) for row in block) for block in blocks}
            self.require(len(ways) == 1 and all(len({place for *way, place in each if way == [codec, algorithm]}) == 2
                                                for each in ways for codec, algorithm, _ in each),
                         f"{where}: not every size has every way out of place and in place")
        for column, key, known in (("collective", "collective", sweep_forms.COLLECTIVES),
                                   ("type", "datatype", sweep_forms.ELEMENT_BYTES)):
            asked, ran = set(chosen(self.config[key], known)), {row[column] for row in self.rows}
            self.require(asked == ran, f"{column}: {', '.join(sorted(asked ^ ran))} is not both asked for and there")
