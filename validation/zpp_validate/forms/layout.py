"""How units lie over the ranks: their shards, and the buckets in which their gradients are reduced. By the rules of
lib/trace/README.md, "Byte counts in closed form"; shares nothing with the library. All counts are in elements unless a
name says bytes. Source: ZeRO (arXiv 1910.02054), section 5, whose stages divide what a model holds into equal parts
over the ranks.
"""

from zpp_validate.forms import stage3_limits
from zpp_validate.forms.shard_groups import ShardGroups
from zpp_validate.forms.wire import ceil_to

ALIGNMENT = 64  # elements, of the begin of a tensor and of the end of a unit
ENOUGH_FOR_BUCKET = 1 << 24  # elements over all ranks
SLABS = 3  # of gradient shards, where units are updated during backward


def flat_elements(tensor_elements):
    """Elements of a unit's flat buffer: each tensor begins at a multiple of 64 elements, the end is rounded up to
    one."""
    return sum(ceil_to(count, ALIGNMENT) for count in tensor_elements)


def tensor_offsets(tensor_elements):
    """Elements of a unit's flat buffer before each of its tensors."""
    return [flat_elements(tensor_elements[:tensor]) for tensor in range(len(tensor_elements))]


def canonical_elements(flat, world_size, element_bytes, moments="fp32"):
    """Elements of a rank's part of a flat buffer that all ranks share: whole vectors of 16 bytes, with 8-bit moments
    whole blocks of 64."""
    return ceil_to(-(-flat // world_size), 64 if moments == "int8" else 16 // element_bytes)


def finish_order(layers):
    """Units in the order in which backward finishes their gradients: at their first use in forward,
    layers taken in reverse, units of one layer in the order listed."""
    order = []
    for index in reversed(range(len(layers))):
        earlier = {unit for units in layers[:index] for unit in units}
        order += [u for u in dict.fromkeys(layers[index]) if u not in earlier]
    return order


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


def slab_bytes(reduced, shards):
    """Bytes of the slabs that gradient shards take turns in; `reduced`: units of each reduction, in order."""
    room = {unit: ceil_to(shards[unit], ALIGNMENT) for units in reduced for unit in units}
    size = max(sum(room[unit] for unit in units) for units in reduced)
    if sum(room.values()) <= SLABS * size:
        return 4 * sum(room.values())
    turns, used = 1, 0
    for unit in dict.fromkeys(unit for units in reduced for unit in units):
        if used + room[unit] > size:
            turns, used = turns + 1, 0
        used += room[unit]
    return 4 * size * min(turns, SLABS)


class Layout:
    """By unit, in the order of /units: `tensors` (elements of each), `flat`, `shards` (elements a rank holds of a
    copy), `padded` (elements of a copy). `persistent`: units that stage 3 keeps whole. `buckets`: (elements a rank,
    first unit) of each reduction, and `cut`: whether it is of a part of one shard."""

    def __init__(self, settings, topology, unit_tensors, layers, units=()):
        """`unit_tensors[u]`: elements of the tensors of unit u; `layers`: unit indices by layer; `units`: names."""
        s = settings
        self.settings, self.tensors, self.names = s, unit_tensors, units or [""] * len(unit_tensors)
        self.flat = [flat_elements(tensors) for tensors in unit_tensors]
        self.groups = ShardGroups(topology, s.shard_group)
        canonical = [canonical_elements(f, topology.size, s.element_bytes, s.moments) for f in self.flat]
        self.shards = [self.groups.count * count for count in canonical]
        self.padded = [topology.size * count for count in canonical]
        self.persistent = (stage3_limits.persistent_units(map(sum, unit_tensors), *s.persistence)
                           if s.stage == 3 else set())
        if not units and s.schedule:
            raise ValueError("codecs by unit, and no names of units")
        self.reduced = self.reductions(layers)
        self.buckets = [(part, inside[0]) for part, inside in self.reduced]

    def reductions(self, layers):
        """(elements a rank, units) of each reduction of a backward pass."""
        s = self.settings
        quantum = 8 * s.gradient_block()
        capacity = s.bucket_elements // self.groups.size // quantum * quantum
        table = s.table(self.names)

        def may_share(one, other):
            """Gradients of one dtype in memory travel together, where their codecs are the same."""
            return self.narrow(one) == self.narrow(other) and table.may_share(one, other)

        return buckets(finish_order(layers), self.shards, max(quantum, capacity), self.groups.size, may_share)

    def narrow(self, unit):
        """Its gradients lie in 16 bits until they are reduced: those of blocks and head may, which backward writes
        once."""
        return self.settings.narrow_gradients and (self.names[unit] == "head" or self.names[unit].startswith("h."))

    @property
    def updated(self):
        """Elements of each unit that a rank's optimizer updates: from stage 1 on its shard (P_os of ZeRO, section
        5)."""
        return self.shards if self.settings.stage >= 1 else self.padded

    @property
    def sharded(self):
        """Units that are gathered for their uses: all but those that persist."""
        return [unit for unit in range(len(self.shards)) if unit not in self.persistent]
