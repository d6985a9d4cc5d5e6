"""The bytes that this rank sent so far for a compressed model."""

import dataclasses

from zeropp.torch import arguments
from zeropp.torch.compress import wrapped_modules
from zeropp.torch.differences import STALE
from zeropp.torch.param_groups import has_whole, param_groups, sends


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
        """Whether its bytes were counted. The bytes of PyTorch's own collectives are a model, and a local decode sends
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
    """Rows; str() of it is a table. `compressed`: whether compress() has seen any module. `left_out`: (module, why its
    bytes are in no row). `stale`: modules that computed with old weights. `sent_between_nodes`: bytes of this rank in the
    collectives that the library carried; `fsdp2_between_nodes`: what rings of FSDP2 would have sent for them, as
    a mean over ranks."""

    def __init__(self, rows=()):
        super().__init__(rows)
        self.compressed, self.left_out, self.stale = True, [], []
        self.sent_between_nodes = self.fsdp2_between_nodes = 0

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
            lines.append((label, "", "", "", str(rows.total("calls")), f"{rows.total('inside_nodes') / 1e6:.3f}",
                          f"{rows.total('between_nodes') / 1e6:.3f}", rows.judged, ""))
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = ["  ".join(cell.rjust(width) if 4 <= column < 8 else cell.ljust(width)
                           for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
        return "\n".join([*table, *(f"zeropp.torch: {remark}" for remark in self.remarks())])

    @property
    def judged(self):
        """Verdict on all rows: "in part" where some bytes are as predicted and others were not counted."""
        judged = {row.judged for row in self} - {"-"}
        if judged == {"yes", "modelled"}:
            return "in part"
        return next((word for word in ("NO", "yes", "modelled") if word in judged), "-")

    def remarks(self):
        """Lines on what the table leaves out."""
        if not self.compressed:
            yield "this model is not compressed: call compress() after its last fully_shard()"
            return
        if self.left_out:
            first, more = self.left_out[:3], len(self.left_out) - 3
            named = ", ".join(f"{module} ({why})" for module, why in first)
            yield f"the sums leave out what PyTorch sends for {named}{f' and {more} more' if more > 0 else ''}"
        if self.fsdp2_between_nodes and self.sent_between_nodes:
            yield (f"as a mean over ranks, compressed collectives sent {self.sent_between_nodes / 1e6:.3f} MB between "
                   f"nodes so far; rings of FSDP2 would send {self.fsdp2_between_nodes / 1e6:.3f} MB, "
                   f"{self.fsdp2_between_nodes / self.sent_between_nodes:.1f} times as much")
        for module in self.stale:
            yield f"module {module}: {STALE}: discard that step"
        compressed = [row for row in self if row.codec != "none" or row.phase.startswith("exchange of")]
        if self and not compressed:
            yield ("nothing was compressed: the last column says why (min_bytes=0 compresses small collectives too; "
                   "node_size=, inside_node=)")
        elif (any(row.between_nodes for row in self if row.phase == "all-reduce")
              and not any(row.between_nodes for row in compressed)):
            yield "nothing is saved between nodes: the all-reduce of replicas, which crosses them, is PyTorch's"
        if self.total("calls") and not self.total("between_nodes"):
            yield "no bytes crossed nodes: every group of ranks is in one node (node_size=, LOCAL_WORLD_SIZE)"


def report(model):
    """The rows of all modules that fully_shard() wrapped, in the model's order and by their names in `model`; without
    those that exclude= leaves to PyTorch, which the last line names. Bytes of algorithm "torch" are those of a ring:
    PyTorch does not say which route its collectives take. A module that compress() has not seen, or whose hooks were
    replaced, has a row without calls, which says so; so has one that each rank has whole."""
    rows = Report()
    wrapped = wrapped_modules(arguments.model("report()", model))
    rows.compressed = any(hasattr(module, "_zeropp_hooks") for _, module in wrapped)
    uncalled = []
    for name, module in wrapped if rows.compressed else ():
        shown, hooks = name or "(model)", getattr(module, "_zeropp_hooks", None)
        excluded = hooks is None and hasattr(module, "_zeropp_hooks")
        sent = [each for hook in hooks or () for each in hook.sent().items()]
        for hook in hooks or ():
            rows.fsdp2_between_nodes += hook.saved.of_fsdp2
            rows.sent_between_nodes += hook.saved.replicas
        rows.sent_between_nodes += sum(each.between_nodes for of, each in sent
                                       if of[1] not in ("torch", "local") or of[0].startswith("exchange of"))
        rows += [Row(shown, *of[:3], *dataclasses.astuple(each), of[3]) for of, each in sent]
        if any(hook.is_stale() for hook in hooks or ()):
            rows.stale.append(shown)
        why = why_unseen(module, hooks, excluded)
        if not (why or sent) and any(map(sends, param_groups(module))) and not has_whole(module):
            uncalled.append((shown, "never called"))
        if why:
            rows.left_out.append((shown, why))
        if not excluded and (why or not sent and has_whole(module)):
            rows.append(Row(shown, "all", "torch", "none", 0, 0, 0, 0, 0, why or "one rank"))
    if any(row.calls for row in rows):  # what reads weights without calling their module sends them, too
        rows.left_out += uncalled
    return rows


def why_unseen(module, hooks, excluded):
    """Why bytes that FSDP2 sends for a module are in no row; "" where all are."""
    if not any(map(sends, param_groups(module))):
        return ""
    if hooks is None:
        return "exclude=" if excluded else "wrapped after compress()"
    return "" if all(hook.is_installed() for hook in hooks) else "hooks replaced after compress()"
