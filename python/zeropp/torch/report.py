"""What a compressed model sent so far, of this rank."""

import dataclasses

from zeropp.torch.compress import wrapped_modules
from zeropp.torch.param_groups import param_groups


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
    def counted(self):
        """Whether its bytes were counted. Those of PyTorch's own collectives are a model; what is decoded here sends
        nothing."""
        return self.algorithm not in ("torch", "local")

    @property
    def as_predicted(self):
        """Whether the bytes counted are those of the closed form; None where none were counted."""
        if not self.counted:
            return None
        return (self.inside_nodes, self.between_nodes) == (self.predicted_inside_nodes, self.predicted_between_nodes)

    @property
    def judged(self):
        if self.algorithm == "torch" and self.calls:
            return "modelled"
        return {True: "yes", False: "NO", None: "-"}[self.as_predicted]


class Report(list):
    """Rows; str() of it is a table. `compressed`: whether compress() has seen any module."""

    compressed = True

    @property
    def as_predicted(self):
        """Whether all bytes counted are those of the closed form; None where none were counted."""
        judged = [row.as_predicted for row in self if row.counted]
        return all(judged) if judged else None

    def total(self, column):
        return sum(getattr(row, column) for row in self)

    def sums(self):
        """(label, rows): all, and what of them was counted and what is modelled, where there are both."""
        parts = [("all", self), ("counted", Report(row for row in self if row.counted)),
                 ("modelled", Report(row for row in self if row.judged == "modelled"))]
        return parts if all(part for _, part in parts) else parts[:1]

    def __str__(self):
        head = ("module", "phase", "algorithm", "codec", "calls", "MB inside", "MB between", "as predicted", "why torch")
        lines = [head] + [(row.module, row.phase, row.algorithm, row.codec, str(row.calls), f"{row.inside_nodes / 1e6:.3f}",
                           f"{row.between_nodes / 1e6:.3f}", row.judged, row.why) for row in self]
        for label, rows in self.sums():
            judged = {row.judged for row in rows} - {"-"}
            lines.append((label, "", "", "", str(rows.total("calls")), f"{rows.total('inside_nodes') / 1e6:.3f}",
                          f"{rows.total('between_nodes') / 1e6:.3f}",
                          next((word for word in ("NO", "yes", "modelled") if word in judged), "-"), ""))
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = ["  ".join(cell.rjust(width) if 4 <= column < 8 else cell.ljust(width)
                           for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
        if not self.compressed:
            table.append("zeropp.torch: this model is not compressed: call compress() behind its last fully_shard()")
        elif self and all(row.codec == "none" for row in self):
            table.append("zeropp.torch: nothing was compressed: the last column says why (min_bytes=, node_size=, inside_node=)")
        return "\n".join(table)


def report(model):
    """The rows of all modules that fully_shard() wrapped, in the model's order and by their names in `model`; without
    those that exclude= leaves to PyTorch. Bytes of algorithm "torch" are those of a ring: PyTorch does not say which route
    its collectives take. A module that compress() has not seen has a row without calls, which says so."""
    rows = Report()
    wrapped = wrapped_modules(model)
    rows.compressed = any(hasattr(module, "_zeropp_hooks") for _, module in wrapped)
    for name, module in wrapped:
        shown = name or "(model)"
        for hook in getattr(module, "_zeropp_hooks", ()):
            for (phase, algorithm, codec, why), sent in hook.sent().items():
                rows.append(Row(shown, phase, algorithm, codec, sent.calls, sent.inside_nodes, sent.between_nodes,
                                sent.predicted_inside_nodes, sent.predicted_between_nodes, why))
        if rows.compressed and not hasattr(module, "_zeropp_hooks") and param_groups(module):
            rows.append(Row(shown, "all", "torch", "none", 0, 0, 0, 0, 0, "wrapped behind compress()"))
    return rows
