"""Bytes of state that one rank holds, by kind: the rows of /memory but for the arena and what is measured. By the rules
of lib/trace/README.md, "Byte counts in closed form"; shares nothing with the library. w = the elements of a copy of the
model (the sum of `padded`), s = those of a rank's shards, e = the bytes of the compute dtype. Sources: ZeRO (arXiv
1910.02054), section 5, has which stage divides what; ZeRO++ (arXiv 2306.10209), section 3.2, the secondary shards of
hpZ.
"""

from dataclasses import dataclass

from zpp_validate.forms.codec_table import Table
from zpp_validate.forms.error_feedback import ErrorFeedback
from zpp_validate.forms.layout import Layout, slab_bytes, tensor_offsets
from zpp_validate.forms.settings import Settings
from zpp_validate.forms.weight_images import chunks, is_fused, table_bytes
from zpp_validate.forms.wire import UNCUT, codec_block, wire_bytes

MOST_SAMPLED = 1 << 18  # values of a shard that adaptive bits look at


@dataclass(frozen=True)
class Memory:
    """Memory of a run with these settings and this layout of units; `table` has the codecs of its units."""

    settings: Settings
    layout: Layout
    table: Table

    def rows(self):
        """{name: bytes} in the order of /memory."""
        rows = self.model_states() | self.secondary_shards()
        if self.settings.offload:
            rows |= self.offloaded()
        if self.settings.keeps_images:
            rows["weight_images"] = sum(map(self.image_of_shard, self.layout.sharded))
        tables = self.image_tables()
        if tables:
            rows["weight_image_tables"] = tables
        rows |= ErrorFeedback(self.settings, self.layout).memory()
        if self.settings.adaptive:
            rows["adaptive_bits"] = self.sampled()
        return rows

    def model_states(self):
        """ZeRO, section 5: optimizer states are s from stage 1 on (P_os), gradients from stage 2 on (P_g; of stage 1
        too a step leaves a shard), weights at stage 3 (P_p). Master weights and gradients are fp32."""
        s, layout = self.settings, self.layout
        own, whole = sum(layout.shards), sum(layout.padded)
        master = sum(layout.updated) - (sum(map(s.offload.elements, layout.updated)) if s.offload else 0)
        return {
            "master": 4 * master,
            "moments": s.optimizer_states * s.moment_bytes(master),
            "gradient_shard": self.gradient_shards() if s.stage >= 1 else 0,
            # Without offload the master is gathered, rounded on the way; with offload of the parameters they lie on the
            # host.
            "compute_shard": s.element_bytes * own if s.stage >= 1 and s.offload and s.offload.parameters == "none"
            else 0,
            "resident_weights": s.element_bytes * (whole if s.stage < 3 else self.of_persistent()),
            "local_gradients": 4 * whole if s.stage < 2 else 0,
        }

    def gradient_shards(self):
        """4 s; where units are updated during backward the slabs that they take turns in."""
        if not self.settings.update_in_backward:
            return 4 * sum(self.layout.shards)
        return slab_bytes([units for _, units in self.layout.reduced], self.layout.shards)

    def of_persistent(self):
        """Elements of the units that stage 3 keeps whole."""
        return sum(self.layout.padded[unit] for unit in self.layout.persistent)

    def secondary_shards(self):
        """On the device, or of hpZ with zeropp.hpz_device cpu on the host."""
        if self.settings.copies_on_host:
            return {"secondary": 0, "offloaded_secondary": self.shard_of_copy()}
        return {"secondary": self.shard_of_copy()}

    def shard_of_copy(self):
        """Bytes of what a rank holds of its group's copy of the weights: e w / H with hpZ among H ranks (ZeRO++,
        section 3.2)."""
        held = self.settings.partition > 1 or self.settings.on_rails()
        return self.copy_bytes() // self.settings.partition if held else 0

    def copy_bytes(self):
        """Bytes of one whole copy of the weights: what hpZ's secondary shards are parts of, and weight differences are
        added to."""
        kept = self.settings.differences.copy_bytes if self.settings.differences else self.settings.element_bytes
        return kept * (sum(self.layout.padded) - self.of_persistent())

    def offloaded(self):
        s = self.settings
        return s.offload.memory(self.layout.updated, s.element_bytes, s.optimizer_states, s.moment_bytes)

    def encoded_by_updates(self):
        """Units whose updates write images: kept ones, and what is sent of units that persist."""
        kept = self.layout.sharded if self.settings.keeps_images and self.settings.updates_encode() else []
        return [*kept, *(self.layout.persistent if self.settings.updates_encode_refreshes() else [])]

    def image_of_shard(self, unit):
        """Bytes that are kept of what a gather of the unit sends of a rank's shard, in the largest of its codecs."""
        return max((wire_bytes(codec, self.layout.shards[unit], self.settings.element_bytes)
                    for codec in self.table.weight_codecs(unit) if codec != "none"), default=0)

    def image_tables(self):
        """Bytes of the tables by which updates write images: of the first rank's shards, of each unit and each of its
        codecs that they write."""
        total, depth = 0, 1 if self.settings.all_gather in UNCUT else self.settings.pipeline_depth
        for unit in self.encoded_by_updates():
            tensors = list(zip(tensor_offsets(self.layout.tensors[unit]), self.layout.tensors[unit]))
            for codec in filter(is_fused, self.table.weight_codecs(unit)):
                total += sum(table_bytes(tensors, *chunk)
                             for chunk in chunks(self.layout.shards[unit], depth, codec_block(codec)))
        return total

    def sampled(self):
        """Bytes of what adaptive bits measure: at most 2^18 values of each shard, the widest image and the decoded
        values of the largest sample."""
        adaptive = self.settings.adaptive
        value_bytes = 4 if adaptive.values == "gradients" else self.settings.element_bytes
        counts = [min(shard, MOST_SAMPLED) for shard in self.layout.shards]
        widest = max(wire_bytes(adaptive.codec(bits), max(counts), 4) for bits in adaptive.bits)
        return value_bytes * (sum(counts) + max(counts)) + widest
