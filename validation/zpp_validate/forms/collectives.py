"""Bytes that each collective of a step sends, by the rules of lib/trace/README.md, "Byte counts in closed form". Shares
nothing with the library; wire.py has the bytes of one algorithm. Sizes are in bytes, summed over ranks; parts are in
values per rank. Sources: ZeRO++ (arXiv 2306.10209), sections 3.1, 3.2 and 3.3, for qwZ, hpZ and qgZ.
"""

from zpp_validate.forms.volume import Collective
from zpp_validate.forms.wire import (UNCUT, all_gather, along_rails, codec_block, exact_bytes,
                                     exact_shape_of_bits, gather_images, messages, pieces, reduce_scatter,
                                     reduction_codec, secondary_gather, secondary_messages, wire_bytes)


class Collectives:
    """The collectives of a run with these settings and this layout of units."""

    def __init__(self, settings, topology, layout):
        self.settings, self.topology, self.layout, self.groups = settings, topology, layout, layout.groups

    def logical(self, group_size, part, element_bytes):
        """Every rank receives the uncompressed parts of the others of its group."""
        return self.topology.size * (group_size - 1) * part * element_bytes

    def pieces(self, algorithm, part, *codecs):
        """Messages that carry the part of one rank: the pieces of the pipeline, or one for an algorithm that is not
        cut."""
        depth = 1 if algorithm in UNCUT else self.settings.pipeline_depth
        return pieces(part, depth, max(map(codec_block, codecs)))

    def gather(self, purpose, codec, part, element_bytes):
        """All-gather of `part` values of every rank among those that share a copy; uncompressed they have
        `element_bytes`."""
        algorithm, groups = self.settings.all_gather, self.groups
        return Collective("all_gather", purpose, algorithm, codec,
                          self.logical(groups.size, part, element_bytes),
                          groups.over_groups(all_gather(groups.inside, algorithm, codec, part, element_bytes)),
                          groups.over_groups(messages(groups.inside, algorithm, self.pieces(algorithm, part, codec))),
                          groups.name)

    def weights(self, unit, codec):
        """A unit from the shards of all ranks; with qwZ (ZeRO++, section 3.1) in its codec."""
        return self.gather("weights", codec, self.layout.shards[unit], self.settings.element_bytes)

    def gradient_sums(self, part):
        """Stage 0: a bucket's fp32 sums go back to all ranks."""
        return self.gather("gradients", "none", part, 4)

    # Copies of the weights: hpZ (ZeRO++, section 3.2), and weight differences
    # ------------------------------------------

    def secondary(self, unit):
        """A unit, or with weight differences the shards of one node's ranks of it, from secondary shards inside their
        group."""
        partition, element_bytes = self.settings.partition, self.settings.element_bytes
        part = self.layout.shards[unit] * self.topology.size // partition // self.secondary_pieces()
        algorithm = self.secondary_algorithm()
        return Collective("all_gather", "weights_secondary", algorithm, "none",
                          self.logical(partition, part, element_bytes),
                          secondary_gather(self.topology, algorithm, partition, part, element_bytes),
                          secondary_messages(self.topology, algorithm, partition, pieces(part, 1, 1)),  # no pipeline
                          "secondary")

    def secondary_algorithm(self):
        s = self.settings
        if s.copy_engines and s.partition <= (self.topology.ranks_per_node or 0):
            return s.secondary_gather or "direct"
        return s.secondary_gather or ("native" if s.takes_vendors else "flat")

    def secondary_pieces(self):
        """Number of gathers that put a unit together from secondary shards: with weight differences one for each node's
        shard of the rail, else one."""
        return self.topology.size // self.settings.partition if self.settings.on_rails() else 1

    def difference(self, unit):
        """The collective that brings the differences of a unit to its copies; exact ones in the size that plans
        assume."""
        codec = self.settings.differences.codec
        if self.settings.differences.exact:
            bits = self.settings.differences.planned_bits
            return self.exact_difference(unit, *exact_shape_of_bits(self.layout.shards[unit], bits))
        if self.settings.on_rails():
            return self.along_rail("weights_difference", unit, codec)
        return self.gather("weights_difference", codec, self.layout.shards[unit], self.settings.element_bytes)

    def along_rail(self, purpose, unit, codec):
        """The collective that brings the copies of a unit up to date."""
        shard = self.layout.shards[unit]
        return self.of_images(purpose, unit, codec, wire_bytes(codec, shard, self.settings.element_bytes),
                              self.pieces("direct", shard, codec))

    def exact_difference(self, unit, width, escapes):
        """The collective that brings exact differences of a unit to its copies, in images of this shape."""
        shard, s = self.layout.shards[unit], self.settings
        image = exact_bytes(shard, width, escapes)
        pieces = 1 if image else 0
        if s.on_rails():
            return self.of_images("weights_difference", unit, "exact", image, pieces)
        algorithm = "two-level" if s.all_gather == "two-level" else "direct"
        return Collective("all_gather", "weights_difference", algorithm, "exact",
                          self.logical(self.topology.size, shard, s.element_bytes),
                          gather_images(self.topology, algorithm, image),
                          messages(self.topology, algorithm, pieces))

    def of_images(self, purpose, unit, codec, image, pieces):
        """The all-gather along the rails of images of so many bytes, in so many pieces."""
        return Collective("all_gather", purpose, "direct", codec,
                          self.logical(self.topology.node_count, self.layout.shards[unit], self.settings.element_bytes),
                          along_rails(self.topology, image), along_rails(self.topology, pieces), "rail")

    # Gradients: with qgZ (ZeRO++, section 3.3) in the codecs of one hop or two
    # ------------------------------------------

    def reduction(self, part, codecs):
        """The reduction of a bucket of `part` values per rank; `codecs`: of the first and second hop."""
        s, groups = self.settings, self.groups
        sent = reduce_scatter(groups.inside, s.reduce_scatter, codecs, part, s.element_bytes)
        number = self.pieces(s.reduce_scatter, part, *codecs)
        return Collective("reduce_scatter", "gradients", s.reduce_scatter,
                          reduction_codec(groups.inside, s.reduce_scatter, codecs),
                          self.logical(groups.size, part, s.element_bytes), groups.over_groups(sent),
                          groups.over_groups(messages(groups.inside, s.reduce_scatter, number)), groups.name)

    def sums_across(self, values, codec):
        """The two halves of the sum of a bucket's gradient shards over the shard groups. Without a codec the sums,
        fp32, are gathered in the compute dtype."""
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
