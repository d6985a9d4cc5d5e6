"""Bytes that ZeRO-0..3 with qwZ, hpZ and qgZ sends, derived from the rules of lib/trace/README.md.

Shares nothing with the library. All byte counts are sums over ranks, as Bytes(intra, inter): sent to
another rank of the same node, sent across nodes. Source: ZeRO++ (arXiv 2306.10209), section 3.
"""

from dataclasses import dataclass, field, replace


def ceil_to(value, multiple):
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Bytes:
    intra: int = 0
    inter: int = 0

    def __add__(self, other):
        return Bytes(self.intra + other.intra, self.inter + other.inter)

    def __mul__(self, times):
        return Bytes(self.intra * times, self.inter * times)


@dataclass(frozen=True)
class Topology:
    """`nodes[r]` is the node of rank r; ranks are grouped by node."""

    nodes: tuple

    @classmethod
    def uniform(cls, node_count, ranks_per_node):
        return cls(tuple(r // ranks_per_node for r in range(node_count * ranks_per_node)))

    @property
    def size(self):
        return len(self.nodes)

    @property
    def node_count(self):
        return len(set(self.nodes))

    @property
    def ranks_per_node(self):
        """Of equal nodes; None where they differ."""
        sizes = {self.nodes.count(node) for node in set(self.nodes)}
        return sizes.pop() if len(sizes) == 1 else None

    def sent(self, source, target, count):
        if source == target:
            return Bytes()
        return Bytes(intra=count) if self.nodes[source] == self.nodes[target] else Bytes(inter=count)


# Wire images -------------------------------------------------------------------------------------

# By format: bytes a value of the casts; bits a value and bytes a scale of the others. `none` sends the
# compute dtype.
CASTS = {"none": None, "bf16": 2, "fp16": 2}
SCALED = {"int4": (4, 2), "int8": (8, 2)}


def parse_codec(codec):
    """'int8:256' -> ('int8', 256); the block, of values that share a scale, is 1 for casts."""
    name, _, block = codec.partition(":")
    if name in CASTS and not block:
        return name, 1
    if name in SCALED and block.isdigit() and int(block) > 0:
        return name, int(block)
    raise ValueError(f"no closed form for the codec {codec!r}")


def codec_block(codec):
    return parse_codec(codec)[1]


def wire_bytes(codec, count, element_bytes):
    """Of `count` values; `element_bytes`: what `none` sends a value."""
    name, block = parse_codec(codec)
    if name in CASTS:
        return ceil_to(count * (CASTS[name] or element_bytes), 16)
    bits, scale_bytes = SCALED[name]
    blocks = -(-count // block)
    return ceil_to(-(-blocks * block * bits // 8), 16) + ceil_to(blocks * scale_bytes, 16)


# Collectives -------------------------------------------------------------------------------------

# The vendor's route is its own: bytes are modelled as a ring's, not counted.
MODELLED = ("native",)


def ring(topology, image, group=None):
    """Every rank of `group` sends size - 1 images to the next."""
    group = list(range(topology.size)) if group is None else group
    total = Bytes()
    for i, rank in enumerate(group):
        total += topology.sent(rank, group[(i + 1) % len(group)], (len(group) - 1) * image)
    return total


def all_to_all(topology, image, group=None):
    """Every rank of `group` sends one image to each other."""
    group = list(range(topology.size)) if group is None else group
    total = Bytes()
    for source in group:
        for target in group:
            total += topology.sent(source, target, image)
    return total


def equal_nodes(topology, algorithm):
    if topology.ranks_per_node is None:
        raise ValueError(f"{algorithm} on nodes of unequal size")
    return topology.node_count, topology.ranks_per_node


def all_gather(topology, algorithm, codec, count, element_bytes):
    """Of a part of `count` values a rank, over the world."""
    image = wire_bytes(codec, count, element_bytes)
    if algorithm in ("flat", "native"):
        return ring(topology, image)
    if algorithm == "two-level":
        nodes, local = equal_nodes(topology, algorithm)
        return Bytes((local - 1) * nodes * image, (nodes - 1) * image) * topology.size
    raise ValueError(f"no closed form for the all-gather {algorithm!r}")


def reduce_scatter(topology, algorithm, codecs, count, element_bytes):
    """Of parts of `count` values; `codecs`: of the first and second hop."""
    padded = ceil_to(count, max(map(codec_block, codecs)))
    image = wire_bytes(codecs[0], padded, element_bytes)
    if algorithm in ("flat", "native"):
        return ring(topology, image)
    if algorithm in ("ordered", "1-hop"):
        return all_to_all(topology, image)
    if algorithm == "2-hop":
        nodes, local = equal_nodes(topology, algorithm)
        first = wire_bytes(codecs[0], nodes * padded, element_bytes)
        second = wire_bytes(codecs[1], padded, element_bytes)
        return Bytes((local - 1) * first, (nodes - 1) * second) * topology.size
    raise ValueError(f"no closed form for the reduce-scatter {algorithm!r}")


def secondary_gather(topology, partition, count, element_bytes):
    """hpZ: a ring inside each group of `partition` consecutive ranks."""
    image = wire_bytes("none", count, element_bytes)
    total = Bytes()
    for begin in range(0, topology.size, partition):
        total += ring(topology, image, list(range(begin, begin + partition)))
    return total


# The engine --------------------------------------------------------------------------------------

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

    @classmethod
    def of(cls, config):
        zero, own = config["zero_optimization"], config["zeropp"]
        quantized = zero["zero_quantized_gradients"]
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
        )

    def without_compression(self, all_gather_algorithm, reduce_scatter_algorithm="flat"):
        """The ZeRO baseline of the same run: what a saving is relative to."""
        return replace(self, weight_codec="none", gradient_codecs=("none", "none"),
                       quantized_gradients=False, partition=1, all_gather=all_gather_algorithm,
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


def buckets(shards, capacity):
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
    return parts + ([held] if held else [])


@dataclass
class Volume:
    """Bytes of a whole run."""

    steps: list = field(default_factory=list)
    evaluations: Bytes = Bytes()
    weights: Bytes = Bytes()  # global gathers, evaluations included
    secondary: Bytes = Bytes()  # gathers of the secondary partition, evaluations included
    gradients: Bytes = Bytes()


class Run:
    """Replays which unit is gathered from where, and what is reduced."""

    def __init__(self, settings, topology, unit_tensors, layers):
        """`unit_tensors[u]`: elements of the tensors of unit u; `layers`: unit indices by layer."""
        s = settings
        self.settings, self.topology, self.layers = s, topology, layers
        self.flat = [flat_elements(tensors) for tensors in unit_tensors]
        self.shards = [shard_elements(f, topology.size, s.element_bytes) for f in self.flat]
        quantum = 8 * max(map(codec_block, s.gradient_codecs))
        capacity = s.bucket_elements // topology.size // quantum * quantum
        self.buckets = buckets([self.shards[u] for u in finish_order(layers)],
                               max(quantum, capacity))
        self.reduction = sum((reduce_scatter(topology, s.reduce_scatter, s.gradient_codecs, part,
                                             s.element_bytes) for part in self.buckets), Bytes())
        self.gather = [all_gather(topology, s.all_gather, s.weight_codec, shard, s.element_bytes)
                       for shard in self.shards]
        self.local = [secondary_gather(topology, s.partition,
                                       shard * topology.size // s.partition, s.element_bytes)
                      for shard in self.shards]
        self.valid = set()  # units whose secondary shard holds the current weights

    def uses(self, volume):
        """One pass over the layers at stage 3."""
        total = Bytes()
        for unit in (unit for units in self.layers for unit in units):
            if unit in self.valid:
                total += self.local[unit]
                volume.secondary += self.local[unit]
            else:
                total += self.gather[unit]
                volume.weights += self.gather[unit]
                if self.settings.partition > 1:
                    self.valid.add(unit)
        return total

    def all_units(self):
        """Stages 1 and 2: every unit once, uncompressed."""
        s = self.settings
        return sum((all_gather(self.topology, s.all_gather, "none", shard, s.element_bytes)
                    for shard in self.shards), Bytes())

    def step(self, skipped, volume):
        s = self.settings
        total = Bytes()
        reductions = s.accumulation if s.stage >= 2 else 1
        volume.gradients += self.reduction * reductions
        total += self.reduction * reductions
        if s.stage == 3:
            for _ in range(2 * s.accumulation):  # forward, and backward
                total += self.uses(volume)
        elif s.stage == 0:
            gathered = sum((all_gather(self.topology, s.all_gather, "none", part, 4)
                            for part in self.buckets), Bytes())
            volume.gradients += gathered
            total += gathered
        elif not skipped:
            volume.weights += self.all_units()
            total += self.all_units()
        if not skipped:
            self.valid.clear()
        return total

    def initial(self):
        """Before the first step: stages 1 and 2 gather all weights."""
        return self.all_units() if self.settings.stage in (1, 2) else Bytes()

    def evaluation(self, batches, volume):
        total = Bytes()
        if self.settings.stage == 3:
            for _ in range(batches):
                total += self.uses(volume)
        return total

    def replay(self, skipped, evaluations):
        """`skipped`: one flag a step; `evaluations`: for each, (steps before it, batches)."""
        volume = Volume()
        for step in range(len(skipped) + 1):
            for before, batches in evaluations:
                if before == step:
                    volume.evaluations += self.evaluation(batches, volume)
            if step < len(skipped):
                volume.steps.append(self.step(skipped[step], volume))
        return volume
