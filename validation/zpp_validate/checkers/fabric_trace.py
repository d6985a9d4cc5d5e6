"""Checks a trace of zpp_fabric: a link for each pair of ranks, sane numbers, summaries of classes that follow from
their links, and faults where the verdict says so."""

import math
import statistics

from zpp_validate.checkers.trace_checker import Invalid, TraceChecker

MEASURES = ("latency", "latency_spread", "bandwidth", "transfer", "transfer_spread")


class FabricChecker(TraceChecker):
    def check(self):
        try:
            self.check_schema()
            self.check_ranks()
            ranks = self.attributes["world_size"]
            links = self.trace.rows("fabric")
            self.require([(row["sender"], row["receiver"]) for row in links]
                         == [(sender, receiver) for sender in range(ranks) for receiver in range(ranks)],
                         "/fabric has not a link for each pair of ranks, in row order")
            for row in links:
                where = f"link {row['sender']} to {row['receiver']}"
                same = row["sender"] == row["receiver"]
                nodes = {self.topology.nodes[row[end]] for end in ("sender", "receiver") if row[end] < ranks}
                kind = "self" if same else "intra-node" if len(nodes) == 1 else "inter-node"
                self.require(row["link"] == kind, f"{where} is {row['link']}, should be {kind}")
                self.require(row["corrupted"] == 0, f"{where}: {row['corrupted']} words arrived wrong")
                for name in MEASURES:
                    self.require(0 <= row[name] < math.inf, f"{where}: {name} is {row[name]}")
            self.check_classes(links)
            self.require(len(self.trace.rows("placement")) == ranks, "/placement has not a row for each rank")
            self.require(not self.trace.rows("fabric_faults"), "/fabric_faults names faults, and the run says VALID")
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems

    def check_classes(self, links):
        """Count, median and worst value of each class, worked out again from its links."""
        worst_of = {"latency": max, "bandwidth": min}
        values = {}
        for row in links:
            for metric in worst_of:
                if not math.isnan(row[metric]):
                    values.setdefault((row["link"], metric), []).append(row[metric])
        rails = {}
        for row in self.trace.rows("fabric_rails"):  # a rail is as slow as the slowest of its ranks
            for metric, worst in worst_of.items():
                rails[metric, row["rail"]] = worst(row[metric], rails.get((metric, row["rail"]), row[metric]))
        for (metric, _), value in rails.items():
            values.setdefault(("rail", metric), []).append(value)
        classes = {(row["class"], row["metric"]): row for row in self.trace.rows("fabric_typical")}
        self.require(set(classes) == set(values),
                     f"/fabric_typical has {sorted(classes)}, its links are of {sorted(values)}")
        for (name, metric), row in classes.items():
            own = values[name, metric]
            self.require(row["count"] == len(own), f"{name} {metric}: a count of {row['count']}, there are {len(own)}")
            for what, right in (("median", statistics.median(own)), ("worst", worst_of[metric](own))):
                self.require(math.isclose(row[what], right, rel_tol=1e-9),
                             f"{name} {metric}: the {what} is {row[what]}, that of its links is {right}")


def problems(trace):
    """Reasons why the trace is invalid; none: it is valid."""
    return FabricChecker(trace).check()
