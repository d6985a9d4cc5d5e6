"""What several shard groups (MiCS, hybrid sharding) send and keep beside what each sends among its own ranks: the sum
of gradient shards over the groups, once a step. By the rules of lib/trace/README.md; shares nothing with the
library."""

from zpp_validate.forms.wire import Bytes, Topology, all_to_all, ceil_to, codec_block, wire_bytes
from zpp_validate.problem import Unfit


class ShardGroups:
    """Of a job of `topology` whose copies are each sharded among `size` consecutive ranks; 0: among all."""

    def __init__(self, topology, size):
        self.topology = topology
        self.size = size or topology.size
        self.count = topology.size // self.size
        if size and (topology.ranks_per_node is None or topology.size % self.size):
            raise Unfit(f"shard groups of {size} ranks do not fit {topology.size}")
        self.inside = Topology(topology.nodes[:self.size])
        self.name = "shard" if self.count > 1 else "world"

    def over_groups(self, sent):
        """Bytes of all groups, of those of the first: they are alike."""
        return sent * self.count

    def replica_part(self, values, element_bytes):
        """Values of a rank's part of a bucket that each of its replicas adds up."""
        return ceil_to(-(-values // self.count), 16 // element_bytes)

    def exchange(self, image):
        """An image from each rank to each of its replicas: so both halves of the sum, in one step each."""
        return sum((all_to_all(self.topology, image, list(range(first, self.topology.size, self.size)))
                    for first in range(self.size)), Bytes())

    def reduce_across(self, codec, part, element_bytes):
        return self.exchange(wire_bytes(codec, ceil_to(part, codec_block(codec)), element_bytes))

    def gather_across(self, codec, part):
        return self.exchange(wire_bytes(codec, part, 4))

    def feedback_inside(self, hops, algorithm):
        """Of the hops that feed errors back, those of a reduction inside a group; the other is the sum over groups."""
        if self.count == 1:
            return hops
        second = algorithm == "2-hop" and self.inside.node_count > 1
        first = not second or self.inside.ranks_per_node > 1
        return tuple(hop for hop, there in (("intra", first), ("inter", second)) if there and hop in hops)

    def errors_across(self, codec, values, element_bytes):
        """Both copies of what the sums of buckets feed back: of every replica's part, and of the sum."""
        parts = (self.replica_part(count, element_bytes) for count in values)
        return sum(2 * (self.count + 1) * wire_bytes(codec, part, 4) for part in parts)
