"""What lies in the memory of the host where the optimizer, or the parameters too, are offloaded there. By the rules of lib/trace/README.md;
shares nothing with the library."""

import math
from dataclasses import dataclass

from wire import ceil_to


@dataclass(frozen=True)
class Offload:
    """Of the optimizer to the memory of the host, and of the parameters."""

    ratio: float
    piece: int
    buffers: int
    parameters: bool  # the weights that are gathered

    @classmethod
    def of(cls, config):
        asked = config["zero_optimization"].get("offload_optimizer", {})  # not in old traces
        if asked.get("device", "none") == "none":
            return None
        return cls(asked["ratio"], config["zeropp"]["offload_piece_size"], asked["buffer_count"],
                   config["zero_optimization"].get("offload_param", {}).get("device", "none") != "none")

    def elements(self, count):
        """Of a unit of which a rank updates `count`."""
        return min(count, ceil_to(math.floor(self.ratio * count), 64))

    def staging(self, counts, element_bytes):
        """Bytes that pieces travel through: gradients of the longest one, and its weights where they are narrower and go back."""
        on_host = [self.elements(count) for count in counts]
        pieces = sum(-(-count // self.piece) for count in on_host)
        return (min(self.buffers, pieces) * min(self.piece, max(on_host, default=0))
                * (4 + (element_bytes if element_bytes < 4 and not self.parameters else 0)))
