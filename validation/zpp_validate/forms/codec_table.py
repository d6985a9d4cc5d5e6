"""Which codecs a unit's weights and gradients take in which step, by the rules of lib/trace/README.md.

Shares nothing with the library: derived from the configuration and, of adaptive bits, from the choices that a trace
recorded.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from zpp_validate.forms.error_rows import unit_kind

KEYS = ("weight_codec", "gradient_codec_intra", "gradient_codec_inter")


@dataclass(frozen=True)
class Codecs:
    """Codecs of one unit in one step; `none` without qwZ or qgZ."""

    weights: str = "none"
    intra: str = "none"
    inter: str = "none"

    @property
    def gradients(self):
        return self.intra, self.inter


@dataclass(frozen=True)
class Adaptive:
    """zeropp.adaptive_bits where it is on."""

    values: str
    bits: tuple
    block: int
    budget_bytes: int
    budget_codec: str
    interval: int

    @classmethod
    def of(cls, own):
        """Adaptive bits by the object zeropp of a configuration; None where they are off."""
        found = own.get("adaptive_bits", {})
        if found.get("values", "none") == "none":
            return None
        return cls(found["values"], tuple(range(found["minimum_bits"], found["maximum_bits"] + 1)), found["block"],
                   found["budget_bytes"], found.get("budget_codec", ""), found["interval"])

    def codec(self, bits):
        return f"int{bits}:{self.block}"


def fits(entry, unit):
    """Whether an entry of the schedule holds for the unit of this name."""
    patterns = entry.get("units", ["*"])
    return any(fnmatchcase(unit, pattern) or fnmatchcase(unit_kind(unit), pattern) for pattern in patterns)


class Table:
    """`first`: Codecs that every unit begins with. `chosen`: of adaptive bits, {step: bits by unit} from that step
    on."""

    def __init__(self, units, first, schedule=(), adaptive=None, chosen=None):
        self.units, self.first, self.schedule, self.adaptive = units, first, schedule, adaptive
        self.chosen = chosen or {}

    def at(self, step):
        """By unit, in the step after `step` others and in evaluations before it."""
        return [self.unit_at(index, step) for index in range(len(self.units))]

    def unit_at(self, index, step):
        names = dict(zip(KEYS, (self.first.weights, *self.first.gradients)))
        for entry in self.schedule:
            if entry["from_step"] <= step and fits(entry, self.units[index]):
                names.update((key, entry[key]) for key in KEYS if key in entry)
        if self.adaptive and self.chosen:
            codec = self.adaptive.codec(self.chosen[max(s for s in self.chosen if s <= step)][index])
            names.update((key, codec) for key in KEYS if key.startswith(self.adaptive.values[:-1]))
        return Codecs(*(names[key] for key in KEYS))

    def weight_codecs(self, index):
        """All that a unit's weights may take in some step."""
        if self.adaptive and self.adaptive.values == "weights":
            return {self.adaptive.codec(bits) for bits in self.adaptive.bits}
        return {self.unit_at(index, step).weights for step in self.changes()}

    def changes(self):
        """Steps at which codecs may change, the first among them."""
        return {0, *(entry["from_step"] for entry in self.schedule)}

    def may_share(self, one, other):
        """Whether gradients of two units may travel in one message: never with adaptive gradients, else where their
        codecs are the same in all steps."""
        if self.adaptive and self.adaptive.values == "gradients":
            return one == other
        return all(self.unit_at(one, step).gradients == self.unit_at(other, step).gradients
                   for step in self.changes())

    def rows(self, steps):
        """(step, unit, Codecs) in order: all units at first, then those whose codecs are others than before. `steps`:
        those that looked, in order."""
        before, rows = [None] * len(self.units), []
        for step in steps:
            now = self.at(step)
            rows += [(step, unit, codecs) for unit, codecs in enumerate(now) if codecs != before[unit]]
            before = now
        return rows
