"""What ZeRO-0..3 with qwZ, hpZ and qgZ sends and holds, by the rules of lib/trace/README.md.

Shares nothing with the library. Replays which unit is gathered from where, and what is reduced; the bytes
of each collective are wire.py's. Source: ZeRO++ (arXiv 2306.10209), section 3.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from zpp_validate.forms import stage3_limits
from zpp_validate.forms.codec_table import Adaptive, Codecs, Table
from zpp_validate.forms.offload import Offload
from zpp_validate.forms.shard_groups import ShardGroups
from zpp_validate.forms.weight_differences import WeightDifferences
from zpp_validate.forms.weight_images import FUSED_MOMENTS, KeptImages, chunks, is_fused, table_bytes
from zpp_validate.forms.wire import (UNCUT, Bytes, Topology, all_gather, along_rails, ceil_to, codec_block, messages, pieces, reduce_scatter, reduction_codec,
                                     secondary_gather, secondary_messages, wire_bytes)

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


def moment_bytes(kind, count):
    """Of one moment of `count` elements: 8 bits have a scale of 4 bytes for each 64."""
    return {"fp32": 4, "bf16": 2, "int8": 1}[kind] * count + (4 * -(-count // 64) if kind == "int8" else 0)


def element_bytes(config):
    """Of the compute dtype."""
    return 2 if config["bf16"]["enabled"] or config.get("fp16", {}).get("enabled") else 4  # no fp16 in old traces


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
    moments: str = "fp32"  # as these are kept
    feedback: tuple = ()  # hops that feed errors back: intra, inter
    feedback_dtype: str = "fp32"
    pipeline_depth: int = 1
    narrow_gradients: bool = False
    update_in_backward: bool = False
    schedule: tuple = ()  # entries of zeropp.codec_schedule
    adaptive: Adaptive = None
    shard_group: int = 0  # ranks that share a copy; 0: all
    sixteen_bits: str = "bf16"  # the compute dtype, where it has two bytes
    offload: Offload = None  # of the optimizer
    persistence: tuple = (0, 0)  # thresholds of a unit and of all, in parameters
    differences: WeightDifferences = None
    copies_on_host: bool = False  # hpZ's
    reuse: tuple = (0, 0)  # distance, and limit of what is kept, in elements
    keeps_images: bool = False  # of the own shards of weights, as their gathers send them
    on_gpus: bool = False
    peer_stores: bool = False  # reductions encode into the memory of the ranks that sum

    @classmethod
    def of(cls, config):
        zero, own = config["zero_optimization"], config["zeropp"]
        quantized = zero["zero_quantized_gradients"]
        feedback = own.get("error_feedback", {})  # not without qgZ
        hops = feedback.get("hops", "none")
        adaptive = Adaptive.of(own)
        chosen = adaptive.values if adaptive else ""  # these have no codec of their own
        return cls(
            stage=zero["stage"],
            element_bytes=element_bytes(config),
            weight_codec=own["weight_codec"] if zero["zero_quantized_weights"] and chosen != "weights" else "none",
            gradient_codecs=((own["gradient_codec_intra"], own["gradient_codec_inter"])
                             if quantized and chosen != "gradients" else ("none", "none")),
            quantized_gradients=quantized,
            partition=zero["zero_hpz_partition_size"],
            bucket_elements=zero["reduce_bucket_size"],
            accumulation=config["gradient_accumulation_steps"],
            all_gather=own.get("all_gather_algorithm", "two-level"),  # with weight differences nothing may be gathered over all ranks
            reduce_scatter=own["reduce_scatter_algorithm"],
            secondary_gather=own.get("secondary_gather_algorithm", "flat"),  # not in traces before 1.2
            optimizer_states=optimizer_states(config["optimizer"]),
            moments=own.get("moments", "fp32"),  # where the optimizer has some; not in traces before it was there
            feedback={"none": (), "both": ("intra", "inter")}.get(hops, (hops,)),
            feedback_dtype=feedback.get("dtype", "fp32"),
            narrow_gradients=own.get("gradient_dtype", "fp32") != "fp32",  # in traces where it has an effect
            update_in_backward=own.get("update_in_backward", False),
            pipeline_depth=own.get("pipeline_depth", 1),  # it has no effect without an algorithm that cuts
            schedule=tuple(own.get("codec_schedule", ())),  # not in traces before it was there, nor without compression
            adaptive=adaptive,
            shard_group=own.get("shard_group_size", 0),  # at stage 3 only; not in traces before it was there
            sixteen_bits="bf16" if config["bf16"]["enabled"] else "fp16",
            offload=Offload.of(config),
            # At stage 3 only; not in traces before they were there, nor the last without an effect.
            persistence=tuple(zero.get(f"stage3_{of}_persistence_threshold", 0) for of in ("param", "model")),
            differences=WeightDifferences.of(own, element_bytes(config), zero["stage"]),
            copies_on_host=own.get("hpz_device") == "cpu",  # in traces with hpZ; not before it was there
            reuse=(zero.get("stage3_max_reuse_distance", 0), zero.get("stage3_max_live_parameters", 0)),
            keeps_images=own.get("keep_weight_images", False),  # in traces where it has an effect; not before it was there
            on_gpus=own.get("backend") == "cuda",
            peer_stores=own.get("peer_stores", "off") == "on",  # refused where it has no effect; not in traces before it was there
        )

    def moment_bytes(self, count):
        return moment_bytes(self.moments, count)

    def without_compression(self, all_gather_algorithm, reduce_scatter_algorithm="flat"):
        """The ZeRO baseline of the same run: what a saving is relative to."""
        return replace(self, weight_codec="none", gradient_codecs=("none", "none"),
                       quantized_gradients=False, feedback=(), schedule=(), adaptive=None, differences=None, keeps_images=False, peer_stores=False, partition=1, all_gather=all_gather_algorithm,
                       reduce_scatter=reduce_scatter_algorithm)

    def gradient_block(self):
        """The largest of all gradient codecs that the configuration names."""
        if self.adaptive and self.adaptive.values == "gradients":
            return self.adaptive.block
        named = [entry[key] for entry in self.schedule for key in entry if key.startswith("gradient_codec")]
        return max(map(codec_block, (*self.gradient_codecs, *named)))

    def table(self, units, chosen=None):
        """Of units of these names; `chosen` as for Table."""
        return Table(units, Codecs(self.weight_codec, *self.gradient_codecs), self.schedule, self.adaptive, chosen)


def flat_elements(tensor_elements):
    """Of a unit: each tensor begins at a multiple of 64 elements, the end is rounded up to one."""
    return sum(ceil_to(count, 64) for count in tensor_elements)


def canonical_elements(flat, world_size, element_bytes, moments="fp32"):
    return ceil_to(-(-flat // world_size), 64 if moments == "int8" else 16 // element_bytes)


def finish_order(layers):
    """Units in the order in which backward finishes their gradients: at their first use in forward,
    layers taken in reverse, units of one layer in the order listed."""
    order = []
    for index in reversed(range(len(layers))):
        earlier = {unit for units in layers[:index] for unit in units}
        order += [u for u in dict.fromkeys(layers[index]) if u not in earlier]
    return order


ENOUGH_FOR_BUCKET = 1 << 24  # elements over all ranks


def buckets(units, shards, capacity, world_size, may_share):
    """(elements a rank, units) of the reductions of one backward pass over `units`, in this order."""
    parts, held, inside = [], 0, []
    for unit in units:
        if held and (held + shards[unit] > capacity or not may_share(inside[0], unit)):
            parts.append((held, inside))
            held, inside = 0, []
        inside.append(unit)
        held += shards[unit]
        while held > capacity:  # one shard larger than a bucket
            parts.append((capacity, [unit]))
            held -= capacity
        if held * world_size >= ENOUGH_FOR_BUCKET:
            parts.append((held, inside))
            held, inside = 0, []
    return parts + ([(held, inside)] if held else [])


SLABS = 3  # of gradient shards, where units are updated during backward


def slab_bytes(reduced, shards):
    """Bytes of the slabs that gradient shards take turns in; `reduced`: units of each reduction, in order."""
    room = {unit: ceil_to(shards[unit], 64) for units in reduced for unit in units}
    size = max(sum(room[unit] for unit in units) for units in reduced)
    if sum(room.values()) <= SLABS * size:
        return 4 * sum(room.values())
    turns, used = 1, 0
    for unit in dict.fromkeys(unit for units in reduced for unit in units):
        if used + room[unit] > size:
            turns, used = turns + 1, 0
        used += room[unit]
    return 4 * size * min(turns, SLABS)


@dataclass(frozen=True)
class Collective:
    """One run of a collective, in the words of /collectives; bytes are sums over ranks."""

    operation: str
    purpose: str
    algorithm: str
    codec: str
    logical: int
    sent: Bytes
    messages: Bytes  # that carry it
    group: str = "world"


@dataclass
class Row:
    """Of /collectives; `calls` of one rank, bytes are sums over ranks."""

    calls: int = 0
    logical: int = 0
    sent: Bytes = Bytes()
    messages: Bytes = Bytes()


@dataclass
class Volume:
    """A whole run."""

    steps: list = field(default_factory=list)
    # By (operation, purpose, phase, algorithm, codec, group).
    rows: dict = field(default_factory=lambda: defaultdict(Row))
    # By unit, how often steps gathered its weights from the shards of all ranks.
    gathered: dict = field(default_factory=lambda: defaultdict(int))
    images: KeptImages = None
    peer_stores: int = 0  # reductions of one rank that encoded into the memory of others

    def count(self, phase, c):
        """Runs `c` once; what it sends."""
        row = self.rows[c.operation, c.purpose, phase, c.algorithm, c.codec, c.group]
        row.calls += 1
        row.logical += c.logical
        row.sent += c.sent
        row.messages += c.messages
        return c.sent

    def secondary_gathers(self):
        """Of one rank."""
        return sum(row.calls for key, row in self.rows.items() if key[1] == "weights_secondary")


class Run:
    """The schedule: which unit is gathered from where, and what is reduced, when."""

    def __init__(self, settings, topology, unit_tensors, layers, units=(), chosen=None):
        """`unit_tensors[u]`: elements of the tensors of unit u; `layers`: unit indices by layer. `units`: names, which a schedule
        may ask for; `chosen`: {step: bits by unit}, of adaptive bits."""
        s = settings
        self.settings, self.topology, self.layers = s, topology, layers
        self.tensors = unit_tensors
        self.flat = [flat_elements(tensors) for tensors in unit_tensors]
        self.groups = ShardGroups(topology, s.shard_group)
        canonical = [canonical_elements(f, topology.size, s.element_bytes, s.moments) for f in self.flat]
        self.shards = [self.groups.count * count for count in canonical]
        self.padded = [topology.size * count for count in canonical]
        self.persistent = (stage3_limits.persistent_units(map(sum, unit_tensors), *s.persistence) if s.stage == 3 else set())
        elements = [0 if unit in self.persistent else count for unit, count in enumerate(self.padded)]
        uses = stage3_limits.uses_of_step(layers, s.accumulation) if s.stage == 3 else []
        self.step_uses = list(zip(uses, stage3_limits.gathers([use[2] for use in uses], elements, *s.reuse)))
        self.evaluation_uses = list(zip(((0, "evaluation", use) for use in layers),
                                        stage3_limits.gathers(layers, elements, *s.reuse)))
        self.units = units or [""] * len(unit_tensors)
        if not units and s.schedule:
            raise ValueError("codecs by unit, and no names of units")
        quantum = 8 * s.gradient_block()
        capacity = s.bucket_elements // self.groups.size // quantum * quantum
        table = s.table(self.units)
        # Gradients of one dtype in memory travel together, where their codecs are the same.
        reduced = buckets(finish_order(layers), self.shards, max(quantum, capacity), self.groups.size,
                          lambda one, other: self.narrow(one) == self.narrow(other) and table.may_share(one, other))
        self.buckets = [(part, inside[0]) for part, inside in reduced]
        # Gradients of a part of a shard do not lie in one row over the ranks.
        self.cut = [len(inside) == 1 and part < self.shards[inside[0]] for part, inside in reduced]
        self.gradient_bytes = slab_bytes([inside for _, inside in reduced], self.shards) if s.update_in_backward else 4 * sum(self.shards)
        self.sums = [self.gather("gradients", "none", part, 4) for part, _ in self.buckets]
        self.valid = set()  # units whose secondary shard holds the current weights
        self.held = False  # secondary shards hold weights that differences can be added to
        self.codecs = None
        self.choose(chosen)
        self.secondary = [self.gather_secondary(shard) for shard in self.shards]
        self.differences = [self.difference(unit, s.differences) for unit in range(len(self.shards)) if s.differences]

    def narrow(self, unit):
        """Its gradients lie in 16 bits until they are reduced: those of blocks and head may, which backward writes once."""
        return self.settings.narrow_gradients and (self.units[unit] == "head" or self.units[unit].startswith("h."))

    def choose(self, chosen):
        """Widths of adaptive bits, from the first step on."""
        self.table = self.settings.table(self.units, chosen)
        self.take(min(chosen) if chosen else 0)

    def take(self, step):
        """The codecs of the step after `step` others. Where those of weights change, secondary shards are cut again."""
        before, self.codecs = self.codecs, self.table.at(step)
        if before == self.codecs:
            return
        if before and [codecs.weights for codecs in before] != [codecs.weights for codecs in self.codecs]:
            self.valid.clear()
            self.held = False
        self.reductions = [self.reduction(part, self.codecs[unit].gradients) for part, unit in self.buckets]
        self.across = [sums for part, unit in self.buckets if self.groups.count > 1
                       for sums in self.sums_across(part, self.codecs[unit].gradients[1])]
        self.stored = sum(map(self.is_stored, range(len(self.buckets))))
        self.stored_across = sum(map(self.is_stored_across, range(len(self.buckets))))
        self.weights = [self.weight_gather(unit, codecs.weights) for unit, codecs in enumerate(self.codecs)]
        self.copies = [self.along_rail("weights_copy", unit, codecs.weights) for unit, codecs in enumerate(self.codecs) if self.on_rails()]

    def weight_gather(self, unit, codec):
        element_bytes = self.settings.element_bytes
        return self.gather("weights", codec, self.shards[unit], element_bytes)

    def sent_in_a_step(self, values, unit, codec):
        """Bytes of one unit's `values`, weights or gradients, in a step that finds no secondary shard to read."""
        if values == "gradients":
            sent = sum((self.reduction(part, (codec, codec)).sent for part, of in self.buckets if of == unit), Bytes())
            return (sent.intra + sent.inter) * self.settings.accumulation
        sent = self.weight_gather(unit, codec).sent
        uses = sum(gathered for (_, _, units), flags in self.step_uses for of, gathered in zip(units, flags) if of == unit)
        return (sent.intra + sent.inter) * (1 if self.settings.partition > 1 else uses)

    def gathers_of(self, unit, phase):
        """In the first micro-step."""
        return sum(gathered for (micro, of, units), flags in self.step_uses if (micro, of) == (0, phase)
                   for used, gathered in zip(units, flags) if used == unit)

    def logical(self, group_size, part, element_bytes):
        """Every rank receives the uncompressed parts of the others of its group."""
        return self.topology.size * (group_size - 1) * part * element_bytes

    def gather(self, purpose, codec, part, element_bytes):
        algorithm, groups = self.settings.all_gather, self.groups
        return Collective("all_gather", purpose, algorithm, codec,
                          self.logical(groups.size, part, element_bytes),
                          groups.over_groups(all_gather(groups.inside, algorithm, codec, part, element_bytes)),
                          groups.over_groups(messages(groups.inside, algorithm, self.pieces(algorithm, part, codec))),
                          groups.name)

    def gather_secondary(self, shard):
        partition, element_bytes = self.settings.partition, self.settings.element_bytes
        part = shard * self.topology.size // partition // self.secondary_pieces()
        algorithm = self.settings.secondary_gather
        return Collective("all_gather", "weights_secondary", algorithm, "none",
                          self.logical(partition, part, element_bytes),
                          secondary_gather(self.topology, algorithm, partition, part, element_bytes),
                          secondary_messages(self.topology, algorithm, partition, pieces(part, 1, 1)),  # no pipeline
                          "secondary")

    def secondary_pieces(self):
        """Gathers in which a unit is put together from secondary shards: those of a rail's shards, one a node, with weight differences."""
        return self.topology.size // self.settings.partition if self.on_rails() else 1

    def on_rails(self):
        """Weight differences go along the rails."""
        return bool(self.settings.differences) and self.settings.differences.on_rails

    def difference(self, unit, differences):
        """What brings the differences of a unit to its copies."""
        if differences.on_rails:
            return self.along_rail("weights_difference", unit, differences.codec)
        return self.gather("weights_difference", differences.codec, self.shards[unit], self.settings.element_bytes)

    def along_rail(self, purpose, unit, codec):
        """Brings the copies of a unit up to date."""
        shard, element_bytes = self.shards[unit], self.settings.element_bytes
        return Collective("all_gather", purpose, "direct", codec, self.logical(self.topology.node_count, shard, element_bytes),
                          along_rails(self.topology, wire_bytes(codec, shard, element_bytes)),
                          along_rails(self.topology, self.pieces("direct", shard, codec)), "rail")

    def pieces(self, algorithm, part, *codecs):
        """Messages that a part of one rank goes in: those of a pipeline, but in one piece of those that are not cut."""
        depth = 1 if algorithm in UNCUT else self.settings.pipeline_depth
        return pieces(part, depth, max(map(codec_block, codecs)))

    def reduction(self, part, codecs):
        s, groups = self.settings, self.groups
        return Collective("reduce_scatter", "gradients", s.reduce_scatter,
                          reduction_codec(groups.inside, s.reduce_scatter, codecs),
                          self.logical(groups.size, part, s.element_bytes),
                          groups.over_groups(reduce_scatter(groups.inside, s.reduce_scatter, codecs, part,
                                                            s.element_bytes)),
                          groups.over_groups(messages(groups.inside, s.reduce_scatter,
                                                      self.pieces(s.reduce_scatter, part, *codecs))),
                          groups.name)

    def is_stored(self, bucket):
        """Whether the reduction of a bucket encodes into the memory of the ranks that sum: in one hop on one node. What travels as it
        lies in memory is exchanged: uncompressed gradients of the compute dtype, in one row and one piece."""
        s, (part, unit) = self.settings, self.buckets[bucket]
        codec = self.codecs[unit].gradients[0]
        as_it_lies = (codec == "none" and (s.element_bytes == 4 or self.narrow(unit)) and not self.cut[bucket]
                      and self.pieces(s.reduce_scatter, part, codec) == 1)
        return (s.peer_stores and s.reduce_scatter in ("1-hop", "2-hop", "ordered") and self.groups.inside.node_count == 1
                and self.groups.size > 1 and not as_it_lies)

    def is_stored_across(self, bucket):
        """Whether the sum of a bucket's gradient shards over the shard groups does, from fp32, on one node."""
        s, (part, unit) = self.settings, self.buckets[bucket]
        codec = self.codecs[unit].gradients[1]
        part = self.groups.replica_part(part, s.element_bytes)
        as_it_lies = codec == "none" and s.element_bytes == 4 and self.pieces("1-hop", part, codec) == 1
        return s.peer_stores and self.groups.count > 1 and self.topology.node_count == 1 and not as_it_lies

    def sums_across(self, values, codec):
        """The two halves of the sum of a bucket's gradient shards over the shard groups. Without a codec the sums, fp32, are gathered
        in the compute dtype."""
        s, groups = self.settings, self.groups
        part = groups.replica_part(values, s.element_bytes)
        of_sums = "none" if s.element_bytes == 4 else s.sixteen_bits
        of_sums = of_sums if codec == "none" else codec
        return (Collective("reduce_scatter", "gradients_across", "1-hop", codec,
                           self.logical(groups.count, part, s.element_bytes),
                           groups.reduce_across(codec, part, s.element_bytes),
                           groups.exchange(self.pieces("1-hop", part, codec)), "replica"),
                Collective("all_gather", "gradients_across", "direct", of_sums, self.logical(groups.count, part, 4),
                           groups.gather_across(of_sums, part),
                           groups.exchange(self.pieces("direct", part, of_sums)), "replica"))

    def memory(self):
        """State of one rank in bytes, by kind; the arena for activations and workspaces is apart."""
        s = self.settings
        own, padded = sum(self.shards), sum(self.padded)
        persistent = sum(self.padded[unit] for unit in self.persistent)
        counts = self.shards if s.stage >= 1 else self.padded
        on_host = sum(map(s.offload.elements, counts)) if s.offload else 0
        master = sum(counts) - on_host
        weights = s.element_bytes * own if s.stage >= 1 and s.offload else 0  # without offload the master is gathered
        return {
            "master": 4 * master,
            "moments": s.optimizer_states * s.moment_bytes(master),
            "gradient_shard": self.gradient_bytes if s.stage >= 1 else 0,
            "compute_shard": 0 if s.offload and s.offload.parameters != "none" else weights,
            "resident_weights": s.element_bytes * (padded if s.stage < 3 else persistent),
            "local_gradients": 4 * padded if s.stage < 2 else 0,
            "secondary": 0 if s.copies_on_host else self.shard_of_copy(),
        } | ({"offloaded_secondary": self.shard_of_copy()} if s.copies_on_host else {}) | (s.offload.memory(counts, s.element_bytes, s.optimizer_states, s.moment_bytes) if s.offload else {}) | (
            {"weight_images": sum(map(self.image_of_shard, range(len(self.shards))))} if s.keeps_images else {}) | (
            {"weight_image_tables": self.image_tables()} if self.image_tables() else {}) | {
            f"error_feedback_{hop}": self.errors(hop) for hop in self.feedback_inside()} | (
            {"error_feedback_across": self.errors_across()} if self.feeds_back_across() else {}) | (
            {"adaptive_bits": self.sampled()} if s.adaptive else {})

    def image_of_shard(self, unit):
        """Bytes that are kept of what a gather of the unit sends of a rank's shard, in the largest of its codecs."""
        codecs = [] if unit in self.persistent else self.table.weight_codecs(unit)
        return max((wire_bytes(codec, self.shards[unit], self.settings.element_bytes) for codec in codecs if codec != "none"), default=0)

    def updates_write_images(self):
        return self.settings.keeps_images and self.settings.on_gpus and self.settings.optimizer_states == FUSED_MOMENTS

    def image_tables(self):
        """Bytes of the tables by which updates write images of the first rank's shards, of each unit and each of its codecs."""
        if not self.updates_write_images():
            return 0
        total, depth = 0, 1 if self.settings.all_gather in UNCUT else self.settings.pipeline_depth
        for unit in set(range(len(self.shards))) - self.persistent:
            offsets = [sum(ceil_to(count, 64) for count in self.tensors[unit][:i]) for i in range(len(self.tensors[unit]))]
            tensors = list(zip(offsets, self.tensors[unit]))
            total += sum(table_bytes(tensors, *chunk) for codec in filter(is_fused, self.table.weight_codecs(unit))
                         for chunk in chunks(self.shards[unit], depth, codec_block(codec)))
        return total

    def shard_of_copy(self):
        """Bytes of what a rank holds of its node's copy."""
        held = self.settings.partition > 1 or self.on_rails()
        return self.copy_bytes() // self.settings.partition if held else 0

    def copy_bytes(self):
        """Of one whole copy of the weights: what hpZ's secondary shards are parts of, and weight differences are added to."""
        kept = self.settings.differences.copy_bytes if self.settings.differences else self.settings.element_bytes
        return kept * (sum(self.padded) - sum(self.padded[unit] for unit in self.persistent))

    def step_counters(self, volume):
        """Of one rank, by name: what a replay did that `volume` has no collective for."""
        return {"peer_store_reductions": volume.peer_stores} | (volume.images.counters() if volume.images else {})

    def file_counters(self, volume, taken):
        """Of one rank, by name: what `taken` steps read from files and write to them."""
        s = self.settings
        if not s.offload:
            return {}
        counts = self.shards if s.stage >= 1 else self.padded
        return s.offload.counters(counts, s.element_bytes, s.optimizer_states, s.moment_bytes, taken, volume.gathered)

    def errors(self, hop):
        """Both copies of what a hop feeds back: of every part that a rank sends there, all of them in the first hop
        and one a node in the second, each stored as a wire image of its own."""
        parts = {"intra": self.groups.size, "inter": self.groups.inside.node_count}[hop]
        return sum(2 * parts * wire_bytes(self.error_codec(), part, 4) for part, _ in self.buckets)

    def error_codec(self):
        return {"fp32": "none", "int8": "int8:256"}[self.settings.feedback_dtype]

    def errors_across(self):
        return self.groups.errors_across(self.error_codec(), [part for part, _ in self.buckets], self.settings.element_bytes)

    def feedback_inside(self):
        return self.groups.feedback_inside(self.settings.feedback, self.settings.reduce_scatter)

    def feeds_back_across(self):
        return self.groups.count > 1 and "inter" in self.settings.feedback

    def sampled(self):
        """Bytes of what adaptive bits measure: at most 2^18 values of each shard, the widest image and the decoded values of the
        largest sample."""
        adaptive = self.settings.adaptive
        element_bytes = 4 if adaptive.values == "gradients" else self.settings.element_bytes
        counts = [min(shard, 1 << 18) for shard in self.shards]
        return (element_bytes * (sum(counts) + max(counts))
                + max(wire_bytes(adaptive.codec(bits), max(counts), 4) for bits in adaptive.bits))

    def gather_for(self, uses, volume):
        """Stage 3: what uses of layers gather."""
        total, differences = Bytes(), self.settings.differences
        whole = not self.held or differences and differences.refreshes(self.begun)
        for phase, unit in ((phase, unit) for (_, phase, units), flags in uses for unit, gathered in zip(units, flags) if gathered):
            if differences and unit not in self.valid:
                total += volume.count(phase, self.copies[unit] if whole else self.differences[unit])
                volume.gathered[unit] += phase != "evaluation"
                self.valid.add(unit)
                self.held = True
            if unit in self.valid:
                total += sum((volume.count(phase, self.secondary[unit]) for _ in range(self.secondary_pieces())), Bytes())
            else:
                total += volume.count(phase, self.weights[unit])
                volume.gathered[unit] += phase != "evaluation"
                if volume.images:
                    volume.images.gathered(unit, self.codecs[unit].weights)
                if self.settings.partition > 1:
                    self.valid.add(unit)
        return total

    def whole_units(self, phase, volume, differences=False):
        """What stays whole, once: every unit at stages 1 and 2, those that persist at stage 3. `differences`: they are sent."""
        units = {0: (), 3: sorted(self.persistent)}.get(self.settings.stage, range(len(self.weights)))
        for unit in units:
            volume.gathered[unit] += phase == "update"
        sent = self.differences if differences else self.weights
        return sum((volume.count(phase, sent[unit]) for unit in units), Bytes())

    def to_residents(self):
        """Weight differences are added to the weights that every rank holds."""
        return bool(self.settings.differences) and not self.on_rails()

    def step(self, skipped, volume):
        s = self.settings
        total = Bytes()
        for _ in range(s.accumulation if s.stage >= 2 else 1):
            total += sum((volume.count("backward", c) for c in self.reductions), Bytes())
            volume.peer_stores += self.stored
        total += sum((volume.count("backward", c) for c in self.across), Bytes())
        volume.peer_stores += self.stored_across
        total += self.gather_for(self.step_uses, volume)
        if s.stage == 0:
            total += sum((volume.count("backward", c) for c in self.sums), Bytes())
        if not skipped:
            total += self.whole_units("update", volume, self.to_residents() and not s.differences.refreshes(self.begun))
        if not skipped:
            self.valid.clear()
            if volume.images:
                volume.images.updated({unit: codecs.weights for unit, codecs in enumerate(self.codecs) if unit not in self.persistent})
        return total

    def replay(self, skipped, evaluations, first=0, averaged_batches=0, found="none"):
        """`skipped`: one flag a step; `evaluations`: for each, (steps before it, batches). `first`: steps of the runs that this one
        goes on from; `found`: what copies of the weights it goes on from, as in /weight_copies. `averaged_batches`: of an
        evaluation after all steps, for which every rank is given other weights."""
        volume, stage = Volume(images=KeptImages(self.updates_write_images()) if self.settings.keeps_images else None), self.settings.stage
        if self.settings.adaptive and not self.table.chosen:
            raise ValueError("the widths of adaptive bits are not known: choose() them")
        # Resident weights that differences are added to are those of a checkpoint, where it had some.
        if not self.to_residents() or found != "current":
            self.whole_units("initial", volume, self.to_residents() and found == "behind" and not self.settings.differences.refreshes(first - 1))
        if found != "none":  # copies of the weights are of the step before, with its codecs
            self.take(first - 1)
        self.held = found != "none"
        self.valid = {unit for unit in range(len(self.shards)) if found == "current"}
        for step in range(len(skipped) + 1):
            self.begun = first + step
            self.take(self.begun)
            for before, batches in evaluations:
                if before == step and stage == 3:
                    for _ in range(batches):
                        self.gather_for(self.evaluation_uses, volume)
            if step < len(skipped):
                volume.steps.append(self.step(skipped[step], volume))
        if averaged_batches:
            self.whole_units("initial", volume)
            self.valid.clear()
            if volume.images:
                volume.images.forget()
            for _ in range(averaged_batches if stage == 3 else 0):
                self.gather_for(self.evaluation_uses, volume)
        return volume
