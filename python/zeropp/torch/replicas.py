"""The all-reduce of gradients over replicas: hybrid sharding, whose shard groups hold equal copies, and replicate().
FSDP2 has no hook for it. It calls all_reduce() of torch.distributed with a process group of the module's mesh, and
compress() puts a ReplicaGroup in that group's place."""

import copy
import warnings

import torch.distributed as dist

from zeropp.torch.hooks import Hook, all_reduce_ring_bytes, require_contiguous, shown
from zeropp.torch.param_groups import replica_group, shard_group
from zeropp.torch.shared_plan import DTYPES


class ReplicaGroup(dist.ProcessGroup):
    """Process group `own` whose all-reduce calls `reduce(tensor, options)`. Dictionaries of torch.distributed find what
    they keep for `own`, since both compare equal."""

    def __init__(self, own, reduce):
        super().__init__(own.rank(), own.size())
        self.own, self.reduce = own, reduce

    def __eq__(self, other):
        return other is self or self.own == other

    def __hash__(self):
        return hash(self.own)

    def allreduce(self, tensors, options):
        tensor, = tensors
        return self.reduce(tensor, options)


class CompressedAllReduce(Hook):
    """Sums a module's gradients over its replicas, in place: FSDP2 calls it on its all-reduce stream. Every replica
    gets the same bits."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        self.own = replica_group(self.param_group)

    def install(self):
        group = self.param_group
        group.mesh_info = copy.copy(group.mesh_info)  # modules may share it
        group.mesh_info.replicate_process_group = ReplicaGroup(self.own, self)

    def is_installed(self):
        return getattr(self.param_group.mesh_info.replicate_process_group, "reduce", None) is self

    def __call__(self, tensor, options):
        ranks = self.plans.communicators.ranks_of(self.own, tensor.device)
        codecs = ranks.hop_codecs(*self.settings.gradients)
        why = self.why_left(ranks, 1, tensor) or self.why_plain(codecs)
        if why:
            self.count_all_reduce("all-reduce", tensor, ranks, why)
            return self.own.allreduce([tensor], options)
        require_contiguous(self.name, tensor)
        self.count_saved(ranks, all_reduce_ring_bytes(ranks, tensor))
        scale, feedback = self.scale(options.reduceOp, ranks), self.settings.error_feedback
        plan = self.plans.get(
            ("all_reduce", ranks, tensor.numel(), tensor.dtype, scale, self.name if feedback else None),
            lambda: ranks.plan_all_reduce(
                tensor.numel(), DTYPES[tensor.dtype], codecs, algorithm=self.settings.reduce_scatter_algorithm,
                scale=scale, seed=self.settings.seed, error_feedback=feedback))
        self.run(plan, "all-reduce", shown(codecs), tensor, tensor, forget_errors=self.reduces_others(plan))
        return None


def warn_where_replicas_cross_nodes(groups, communicators):
    """Warns where all compressed groups lie inside nodes: then only PyTorch's own collectives cross nodes."""
    replicas = [(replica_group(group), group.device) for group in groups if replica_group(group) is not None]
    if not replicas or any(not communicators.inside_a_node(shard_group(group), group.device) for group in groups):
        return
    if any(not communicators.inside_a_node(*each) for each in replicas):
        warnings.warn("zeropp.torch: compress() saves nothing between nodes here: every shard group lies inside a node, "
                      'and only gradients cross nodes, which gradients="none" leaves to PyTorch: give them a codec, '
                      'such as gradients=("none", "int4:128"), or leave compress() out', stacklevel=3)
