"""Bytes and messages of a replayed run, as in /collectives and /steps of a trace. Shares nothing with the library.

All bytes and messages are sums over ranks.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from zpp_validate.forms.weight_images import KeptImages
from zpp_validate.forms.wire import Bytes


@dataclass(frozen=True)
class Collective:
    """One run of a collective."""

    operation: str
    purpose: str
    algorithm: str
    codec: str
    logical: int  # bytes that ranks receive, uncompressed and without padding
    sent: Bytes
    messages: Bytes  # that carry it
    group: str = "world"


@dataclass
class Row:
    """A row of /collectives; `calls` of one rank."""

    calls: int = 0
    logical: int = 0
    sent: Bytes = Bytes()
    messages: Bytes = Bytes()


@dataclass
class Volume:
    """A whole run."""

    steps: list = field(default_factory=list)  # Bytes of each
    # By (operation, purpose, phase, algorithm, codec, group).
    rows: dict = field(default_factory=lambda: defaultdict(Row))
    # By unit, how often steps gathered its weights from the shards of all ranks.
    gathered: dict = field(default_factory=lambda: defaultdict(int))
    images: KeptImages = None
    refreshes_written: int = 0  # of whole units of one rank, that updates wrote

    def count(self, phase, c):
        """Runs `c` once. Returns the bytes that it sends."""
        row = self.rows[c.operation, c.purpose, phase, c.algorithm, c.codec, c.group]
        row.calls += 1
        row.logical += c.logical
        row.sent += c.sent
        row.messages += c.messages
        return c.sent

    def secondary_gathers(self):
        """Gathers from secondary shards by one rank."""
        return sum(row.calls for key, row in self.rows.items() if key[1] == "weights_secondary")

    def counters(self):
        """Counters of one rank, by name, of work beside the collectives."""
        return {"refreshes_by_updates": self.refreshes_written} | (self.images.counters() if self.images else {})
