"""What is wrong with a trace of zpp_sweep --fabric: a link for each pair of ranks, sane numbers, and faults where the verdict says so."""

import math

from zpp_validate.checkers.trace_checker import Invalid, TraceChecker

MEASURES = ("latency", "latency_spread", "bandwidth", "transfer", "transfer_spread")  # NaN where not measured


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
                    self.require(math.isnan(row[name]) or 0 <= row[name] < math.inf, f"{where}: {name} is {row[name]}")
            self.require(len(self.trace.rows("placement")) == ranks, "/placement has not a row for each rank")
            self.require(not self.trace.rows("fabric_faults"), "/fabric_faults names faults, and the run says VALID")
        except Invalid as error:
            self.problems.append(str(error))
        return self.problems


def problems(trace):
    """Reasons why the trace is invalid; none: it is valid."""
    return FabricChecker(trace).check()
