"""Bytes in host memory or in files when the optimizer, or the parameters too, are offloaded there, and bytes that a
step reads and writes. By the rules of lib/trace/README.md; shares nothing with the library."""

import math
from dataclasses import dataclass

from zpp_validate.forms.wire import ceil_to

PAGE = 4096  # arrays in files begin at multiples of it


@dataclass(frozen=True)
class Offload:
    """Offload of the optimizer, and of the parameters, to the memory of the host or to a file."""

    ratio: float
    piece: int
    buffers: int
    optimizer: str  # cpu, nvme
    parameters: str  # the weights that are gathered: none, cpu, nvme
    in_cpu: int = 0  # elements of them that stay there with nvme
    weight_buffers: int = 0  # likewise: units

    @classmethod
    def of(cls, config):
        zero = config["zero_optimization"]
        asked = zero.get("offload_optimizer", {})  # not in old traces
        if asked.get("device", "none") == "none":
            return None
        of_weights = zero.get("offload_param", {})
        return cls(asked["ratio"], min(config["zeropp"]["offload_piece_size"], zero.get("sub_group_size", math.inf)),
                   asked["buffer_count"],
                   asked["device"], of_weights.get("device", "none"), of_weights.get("max_in_cpu", 0),
                   of_weights.get("buffer_count", 0))

    def elements(self, count):
        """Offloaded elements of a unit of which a rank updates `count`."""
        return min(count, ceil_to(math.floor(self.ratio * count), 64))

    def pieces(self, count):
        """Elements of each piece."""
        left = self.elements(count)
        return [min(self.piece, left - at) for at in range(0, left, self.piece)]

    def in_files(self, shards):
        """Whether a unit's weights are gathered from a file: not those of the first units, as many as may stay on the
        host."""
        return [self.parameters == "nvme" and sum(shards[: unit + 1]) > self.in_cpu for unit in range(len(shards))]

    def memory(self, counts, element_bytes, states, moment_bytes):
        """Rows of /memory. `counts`: elements that a rank updates, by unit; `moment_bytes(n)`: of one moment of n
        elements."""
        kept = sum(map(self.elements, counts)) if self.optimizer == "cpu" else 0
        every = [length for count in counts for length in self.pieces(count)]
        longest, filed = max(every, default=0), self.in_files(counts)
        slot = 4 * longest  # gradients
        if self.optimizer == "nvme":
            slot += ceil_to(4 * longest, PAGE) + states * ceil_to(moment_bytes(longest), PAGE)
        if any(filed):
            slot += ceil_to(element_bytes * longest, PAGE)
        elif element_bytes < 4 and self.parameters == "none":
            slot += element_bytes * longest
        rows = {"offloaded_master": 4 * kept, "offloaded_moments": states * moment_bytes(kept),
                "offloaded_staging": min(self.buffers, len(every)) * slot}
        if self.parameters != "none":
            in_memory = sum(count for count, in_file in zip(counts, filed) if not in_file)
            own = element_bytes < 4 or self.parameters != "cpu" or self.optimizer != "cpu"  # else they are the master
            rows["offloaded_weights"] = element_bytes * in_memory if own else 0
        if self.parameters == "nvme":
            longest = max((self.record(count, element_bytes) for count, in_file in zip(counts, filed) if in_file),
                          default=0)
            rows["offloaded_weight_buffers"] = min(self.weight_buffers, sum(filed)) * longest
        return rows

    def record(self, count, element_bytes):
        """Bytes in a file of an array of a unit: each piece takes whole pages."""
        return sum(ceil_to(element_bytes * length, PAGE) for length in self.pieces(count))

    def counters(self, counts, element_bytes, states, moment_bytes, taken, gathered):
        """Counters of one rank over a run: files, and the transfers of its steps. `taken`: steps; `gathered`: number of
        gathers in steps, by unit; `moment_bytes` as for memory()."""
        filed = self.in_files(counts)
        found = dict.fromkeys(("files", "file_bytes_read", "file_bytes_written", "file_reads", "file_writes"), 0)
        if self.optimizer == "nvme":
            found["files"] += 1
            moments = sum(ceil_to(moment_bytes(length), PAGE) for count in counts for length in self.pieces(count))
            for direction in ("read", "written"):
                found[f"file_bytes_{direction}"] += taken * (sum(self.record(count, 4) for count in counts)
                                                             + states * moments)
            for transfers in ("file_reads", "file_writes"):
                found[transfers] += taken * sum(len(self.pieces(count)) for count in counts)
        found["files"] += any(filed)
        for unit, count in enumerate(counts):
            if filed[unit]:
                found["file_bytes_written"] += taken * self.record(count, element_bytes)
                found["file_writes"] += taken * len(self.pieces(count))
                found["file_bytes_read"] += gathered[unit] * self.record(count, element_bytes)
                found["file_reads"] += gathered[unit]
        return found
