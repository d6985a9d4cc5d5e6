"""What ZeRO-0..3 with qwZ, hpZ and qgZ sends and holds, by the rules of lib/trace/README.md.

Shares nothing with the library. Replays which unit is gathered from where, and what is reduced; the bytes
of each collective are wire.py's. Source: ZeRO++ (arXiv 2306.10209), section 3.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from wire import (Bytes, Topology, all_gather, ceil_to, codec_block, reduce_scatter, reduction_codec,
                  secondary_gather, wire_bytes)

__all__ = ["Bytes", "Run", "Settings", "Topology"]


# fp32 values that an optimizer keeps for a parameter, by its type and parameters.
OPTIMIZER_STATES = {
    "AdamW": lambda parameters: 2,
    "Adam": lambda parameters: 2,
    "SGD": lambda parameters: 1 if parameters["momentum"] > 0 else 0,
    "Lion": lambda parameters: 1,
}


def optimizer_states(optimizer):
    if optimizer["type"] not in OPTIMIZER_STATES:
        raise ValueError(f"no closed form for the optimizer {optimizer['type']!r}")
    return OPTIMIZER_STATES[optimizer["type"]](optimizer["params"])


@dataclass(frozen=True)
class Settings:
    """What decides bytes, from the effective configuration."""

    stage: int
    element_bytes: int
    weight_codec: str
    gradient_codecs: tuple
    quantized_gradients: bool
    partition: int
    bucket_elements: int
    accumulation: int
    all_gather: str
    reduce_scatter: str
    secondary_gather: str = "flat"
    optimizer_states: int = 2
    feedback: tuple = ()  # hops that feed errors back: intra, inter
    feedback_dtype: str = "fp32"

    @classmethod
    def of(cls, config):
        zero, own = config["zero_optimization"], config["zeropp"]
        quantized = zero["zero_quantized_gradients"]
        feedback = own.get("error_feedback", {})  # not without qgZ
        hops = feedback.get("hops", "none")
        return cls(
            stage=zero["stage"],
            element_bytes=2 if config["bf16"]["enabled"] else 4,
            weight_codec=own["weight_codec"] if zero["zero_quantized_weights"] else "none",
            gradient_codecs=((own["gradient_codec_intra"], own["gradient_codec_inter"])
                             if quantized else ("none", "none")),
            quantized_gradients=quantized,
            partition=zero["zero_hpz_partition_size"],
            bucket_elements=zero["reduce_bucket_size"],
            accumulation=config["gradient_accumulation_steps"],
            all_gather=own["all_gather_algorithm"],
            reduce_scatter=own["reduce_scatter_algorithm"],
            secondary_gather=own.get("secondary_gather_algorithm", "flat"),  # not in traces before 1.2
            optimizer_states=optimizer_states(config["optimizer"]),
            feedback={"none": (), "both": ("intra", "inter")}.get(hops, (hops,)),
            feedback_dtype=feedback.get("dtype", "fp32"),
        )

    def without_compression(self, all_gather_algorithm, reduce_scatter_algorithm="flat"):
        """The ZeRO baseline of the same run: what a saving is relative to."""
        return replace(self, weight_codec="none", gradient_codecs=("none", "none"),
                       quantized_gradients=False, feedback=(), partition=1, all_gather=all_gather_algorithm,
                       reduce_scatter=reduce_scatter_algorithm)


def flat_elements(tensor_elements):
    """Of a unit: each tensor begins at a multiple of 64 elements, the end is rounded up to one."""
    return sum(ceil_to(count, 64) for count in tensor_elements)


def shard_elements(flat, world_size, element_bytes):
    return ceil_to(-(-flat // world_size), 16 // element_bytes)


def finish_order(layers):
    """Units in the order in which backward finishes their gradients: at their first use in forward,
    layers taken in reverse, units of one layer in the order listed."""
    order = []
    for index in reversed(range(len(layers))):
        earlier = {unit for units in layers[:index] for unit in units}
        order += [u for u in dict.fromkeys(layers[index]) if u not in earlier]
    return order


ENOUGH_FOR_BUCKET = 1 << 24  # elements over all ranks


def buckets(shards, capacity, world_size):
    """Parts (elements a rank) of the reductions of one backward pass."""
    parts, held = [], 0
    for shard in shards:
        if held and held + shard > capacity:
            parts.append(held)
            held = 0
        held += shard
        while held > capacity:  # one shard larger than a bucket
            parts.append(capacity)
            held -= capacity
        if held * world_size >= ENOUGH_FOR_BUCKET:
            parts.append(held)
            held = 0
    return parts + ([held] if held else [])


@dataclass(frozen=True)
class Collective:
    """One run of a collective, in the words of /collectives; bytes are sums over ranks."""

    operation: str
    purpose: str
    algorithm: str
    codec: str
    logical: int
    sent: Bytes
    group: str = "world"


@dataclass
class Row:
    """Of /collectives; `calls` of one rank, bytes are sums over ranks."""

    calls: int = 0
    logical: int = 0
    sent: Bytes = Bytes()


@dataclass
class Volume:
    """A whole run."""

    steps: list = field(default_factory=list)
    # By (operation, purpose, phase, algorithm, codec, group).
    rows: dict = field(default_factory=lambda: defaultdict(Row))

    def count(self, phase, c):
        """Runs `c` once; what it sends."""
        row = self.rows[c.operation, c.purpose, phase, c.algorithm, c.codec, c.group]
        row.calls += 1
        row.logical += c.logical
        row.sent += c.sent
        return c.sent

    def secondary_gathers(self):
        """Of one rank."""
        return sum(row.calls for key, row in self.rows.items() if key[1] == "weights_secondary")


class Run:
    """The schedule: which unit is gathered from where, and what is reduced, when."""

    def __init__(self, settings, topology, unit_tensors, layers):
        """`unit_tensors[u]`: elements of the tensors of unit u; `layers`: unit indices by layer."""
        s = settings
        self.settings, self.topology, self.layers = s, topology, layers
        self.flat = [flat_elements(tensors) for tensors in unit_tensors]
        self.shards = [shard_elements(f, topology.size, s.element_bytes) for f in self.flat]
        quantum = 8 * max(map(codec_block, s.gradient_codecs))
        capacity = s.bucket_elements // topology.size // quantum * quantum
        self.buckets = buckets([self.shards[u] for u in finish_order(layers)],
                               max(quantum, capacity), topology.size)
        self.reductions = [self.reduction(part) for part in self.buckets]
        self.sums = [self.gather("gradients", "none", part, 4) for part in self.buckets]
        codec = s.weight_codec if s.stage == 3 else "none"
        self.weights = [self.gather("weights", codec, shard, s.element_bytes)
                        for shard in self.shards]
        self.secondary = [self.gather_secondary(shard) for shard in self.shards]
        self.valid = set()  # units whose secondary shard holds the current weights

    def logical(self, group_size, part, element_bytes):
        """Every rank receives the uncompressed parts of the others of its group."""
        return self.topology.size * (group_size - 1) * part * element_bytes

    def gather(self, purpose, codec, part, element_bytes):
        algorithm, topology = self.settings.all_gather, self.topology
        return Collective("all_gather", purpose, algorithm, codec,
                          self.logical(topology.size, part, element_bytes),
                          all_gather(topology, algorithm, codec, part, element_bytes))

    def gather_secondary(self, shard):
        partition, element_bytes = self.settings.partition, self.settings.element_bytes
        part = shard * self.topology.size // partition
        algorithm = self.settings.secondary_gather
        return Collective("all_gather", "weights_secondary", algorithm, "none",
                          self.logical(partition, part, element_bytes),
                          secondary_gather(self.topology, algorithm, partition, part, element_bytes),
                          "secondary")

    def reduction(self, part):
        s, topology = self.settings, self.topology
        return Collective("reduce_scatter", "gradients", s.reduce_scatter,
                          reduction_codec(topology, s.reduce_scatter, s.gradient_codecs),
                          self.logical(topology.size, part, s.element_bytes),
                          reduce_scatter(topology, s.reduce_scatter, s.gradient_codecs, part,
                                         s.element_bytes))

    def memory(self):
        """State of one rank in bytes, by kind; the arena for activations and workspaces is apart."""
        s = self.settings
        own, padded = sum(self.shards), sum(self.shards) * self.topology.size
        master = own if s.stage >= 1 else padded
        return {
            "master": 4 * master,
            "moments": 4 * s.optimizer_states * master,
            "gradient_shard": 4 * own if s.stage >= 1 else 0,
            "compute_shard": s.element_bytes * own if s.stage >= 1 and s.element_bytes != 4 else 0,
            "resident_weights": s.element_bytes * padded if s.stage < 3 else 0,
            "local_gradients": 4 * padded if s.stage < 2 else 0,
            "secondary": s.element_bytes * padded // s.partition if s.partition > 1 else 0,
        } | {f"error_feedback_{hop}": self.errors(hop) for hop in s.feedback}

    def errors(self, hop):
        """Both copies of what a hop feeds back: of every part that a rank sends there, all of them in the first hop
        and one a node in the second, each stored as a wire image of its own."""
        codec = {"fp32": "none", "int8": "int8:256"}[self.settings.feedback_dtype]
        parts = {"intra": self.topology.size, "inter": self.topology.node_count}[hop]
        return sum(2 * parts * wire_bytes(codec, part, 4) for part in self.buckets)

    def uses(self, phase, volume):
        """One pass over the layers at stage 3."""
        total = Bytes()
        for unit in (unit for units in self.layers for unit in units):
            if unit in self.valid:
                total += volume.count(phase, self.secondary[unit])
            else:
                total += volume.count(phase, self.weights[unit])
                if self.settings.partition > 1:
                    self.valid.add(unit)
        return total

    def all_units(self, phase, volume):
        """Stages 1 and 2: every unit once, uncompressed."""
        return sum((volume.count(phase, gather) for gather in self.weights), Bytes())

    def step(self, skipped, volume):
        s = self.settings
        total = Bytes()
        for _ in range(s.accumulation if s.stage >= 2 else 1):
            total += sum((volume.count("backward", c) for c in self.reductions), Bytes())
        if s.stage == 3:
            for _ in range(s.accumulation):
                total += self.uses("forward", volume) + self.uses("backward", volume)
        elif s.stage == 0:
            total += sum((volume.count("backward", c) for c in self.sums), Bytes())
        elif not skipped:
            total += self.all_units("update", volume)
        if not skipped:
            self.valid.clear()
        return total

    def replay(self, skipped, evaluations):
        """`skipped`: one flag a step; `evaluations`: for each, (steps before it, batches)."""
        volume, stage = Volume(), self.settings.stage
        if stage in (1, 2):
            self.all_units("initial", volume)
        for step in range(len(skipped) + 1):
            for before, batches in evaluations:
                if before == step and stage == 3:
                    for _ in range(batches):
                        self.uses("evaluation", volume)
            if step < len(skipped):
                volume.steps.append(self.step(skipped[step], volume))
        return volume
