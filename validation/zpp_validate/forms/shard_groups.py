"""Bytes that several shard groups (MiCS, hybrid sharding) send and keep in addition to the traffic inside each group:
the sum of gradient shards over the groups, once per step. By the rules of lib/trace/README.md; shares nothing with the
library."""

from zpp_validate.forms.wire import Bytes, Topology, all_to_all, ceil_to, codec_block, wire_bytes
from zpp_validate.problem import Unfit


class ShardGroups:
    """The shard groups of a job of `topology`: each copy is sharded among `size` consecutive ranks; 0: among all."""

    def __init__(self, topology, size):
        self.topology = topology
        self.size = size or topology.size
        self.count = topology.size // self.size
        if size and (topology.ranks_per_node is None or topology.size % self.size):
            raise Unfit(f"shard groups of {size} ranks do not fit {topology.size}")
        self.inside = Topology(topology.nodes[:self.size])
        self.name = "shard" if self.count > 1 else "world"

    def over_groups(self, sent):
        """Bytes of all groups, from the bytes of the first: the groups are alike."""
        return sent * self.count

    def replica_part(self, values, element_bytes):
        """Values of a rank's part of a bucket that each of its replicas adds up."""
        return ceil_to(-(-values // self.count), 16 // element_bytes)

    def exchange(self, image):
        """Bytes of an image from each rank to each of its replicas: each half of the sum is one such exchange."""
        return sum((all_to_all(self.topology, image, list(range(first, self.topology.size, self.size)))
                    for first in range(self.size)), Bytes())

    def reduce_across(self, codec, part, element_bytes):
        return self.exchange(wire_bytes(codec, ceil_to(part, codec_block(codec)), element_bytes))

    def gather_across(self, codec, part):
        return self.exchange(wire_bytes(codec, part, 4))

    def feedback_inside(self, hops, algorithm):
        """The hops inside a group among `hops`, which feed errors back; the other hop is the sum over groups."""
        if self.count == 1:
            return hops
        second = algorithm == "2-hop" and self.inside.node_count > 1
        first = not second or self.inside.ranks_per_node > 1
        return tuple(hop for hop, there in (("intra", first), ("inter", second)) if there and hop in hops)

    def errors_across(self, codec, values, element_bytes):
        """Bytes of both copies of the errors that the sums of buckets feed back: for every replica's part, and the
        sum."""
        parts = (self.replica_part(count, element_bytes) for count in values)
        return sum(2 * (self.count + 1) * wire_bytes(codec, part, 4) for part in parts)
