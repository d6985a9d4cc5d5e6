"""What a compressed model sent so far, of this rank."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    module: str
    phase: str
    algorithm: str
    codec: str
    calls: int
    inside_nodes: int  # bytes to other ranks of the node
    between_nodes: int  # bytes to other nodes
    predicted_inside_nodes: int  # in closed form
    predicted_between_nodes: int
    why: str = ""  # PyTorch carried it

    @property
    def as_predicted(self):
        return (self.inside_nodes, self.between_nodes) == (self.predicted_inside_nodes, self.predicted_between_nodes)


class Report(list):
    """Rows; str() of it is a table. `as_predicted`: whether all counted bytes are those of the closed form."""

    @property
    def as_predicted(self):
        return all(row.as_predicted for row in self)

    def total(self, column):
        return sum(getattr(row, column) for row in self)

    def __str__(self):
        head = ("module", "phase", "algorithm", "codec", "calls", "MB inside", "MB between", "as predicted", "why torch")
        lines = [head] + [(row.module, row.phase, row.algorithm, row.codec, str(row.calls), f"{row.inside_nodes / 1e6:.3f}",
                           f"{row.between_nodes / 1e6:.3f}", "yes" if row.as_predicted else "NO", row.why) for row in self]
        lines.append(("all", "", "", "", str(self.total("calls")), f"{self.total('inside_nodes') / 1e6:.3f}",
                      f"{self.total('between_nodes') / 1e6:.3f}", "yes" if self.as_predicted else "NO", ""))
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = ["  ".join(cell.rjust(width) if 4 <= column < 8 else cell.ljust(width)
                           for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
        if self and all(row.codec == "none" for row in self):
            table.append("zeropp.torch: nothing was compressed: the last column says why (min_bytes=, node_size=, inside_node=)")
        return "\n".join(table)


def report(model):
    """The rows of all modules that compress() found, in the model's order. Bytes of algorithm "torch" are those of a ring:
    PyTorch does not say which route its collectives take."""
    rows = Report()
    for module in model.modules():
        for hook in getattr(module, "_zeropp_hooks", ()):
            for (phase, algorithm, codec, why), sent in hook.sent.items():
                rows.append(Row(hook.name, phase, algorithm, codec, sent.calls, sent.inside_nodes, sent.between_nodes,
                                sent.predicted_inside_nodes, sent.predicted_between_nodes, why))
    return rows
