"""Hybrid sharding and replicate(): FSDP2 all-reduces the gradients of what several ranks hold alike, by PyTorch's own
collective, for which it has no hook."""

import warnings

from zeropp.torch.hooks import Hook
from zeropp.torch.param_groups import only_group, replica_group, shard_group


class WholeReduce(Hook):
    """For a module that every rank has whole, in place of FSDP2's reduce-scatter, which reduces nothing then: FSDP2
    asks it for memory alone, twice in each reduction, for what goes in and what comes out. So the all-reduces that
    follow are counted."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        there = only_group(module)._reduce_scatter_comm
        self.own = there.own if isinstance(there, WholeReduce) else there
        self._allocations = 0

    def allocate(self, size, *, dtype, device):
        memory = self.own.allocate(size, dtype=dtype, device=device)
        self._allocations += 1
        if self._allocations % 2 == 0:
            self.count_replicas(memory)
        return memory

    def __call__(self, *arguments, **named):
        return self.own(*arguments, **named)


def warn_where_replicas_cross_nodes(groups, communicators):
    """Of the groups that are compressed: where all lie inside nodes, and only what PyTorch carries crosses them."""
    replicas = [(replica_group(group), group.device) for group in groups if replica_group(group) is not None]
    if not replicas or any(not communicators.inside_a_node(shard_group(group), group.device) for group in groups):
        return
    if any(not communicators.inside_a_node(*each) for each in replicas):
        warnings.warn("zeropp.torch: compress() saves nothing between nodes here: every shard group lies inside a node, "
                      "and the all-reduce of the replicas, which crosses nodes, is PyTorch's: shard over all ranks, "
                      "with reshard_after_forward=N for N ranks a node, or leave compress() out", stacklevel=3)
