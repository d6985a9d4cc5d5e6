"""The parameters that FSDP2 gathers together for a module: those of one call of fully_shard(), which may name several
modules, except parameters with a group of their own. PyTorch keeps them in the module's state; the place depends on the
version."""

import sys

import torch


def param_groups(module):
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    return [group for group in groups if group is not None]


def only_group(module):
    """The module's group; None where it has none, or several."""
    groups = param_groups(module) if module is not None else []
    return groups[0] if len(groups) == 1 else None


def parameters_of(module):
    """The sharded parameters."""
    return [each.sharded_param for group in param_groups(module) for each in group.fsdp_params]


@torch.no_grad()
def part_to_gather(module, like):
    """The own shards as FSDP2 gathers them, one after the other with their padding, in the type and on the device of
    the tensor `like`."""
    shards = [each._sharded_param_data for group in param_groups(module) for each in group.fsdp_params]
    sizes = [each.numel() for each in shards]
    part = torch.empty(sum(sizes), dtype=like.dtype, device=like.device)
    torch._foreach_copy_(part.split(sizes), shards)
    return part


def has_extension(module):
    """Whether a parameter says by itself what is gathered of it (fsdp_pre_all_gather)."""
    return any(hasattr(each._sharded_local_tensor, "fsdp_pre_all_gather")
               for group in param_groups(module) for each in group.fsdp_params)


def all_frozen(module):
    parameters = parameters_of(module)
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def shard_group(group):
    """The process group over which the weights are sharded; None where every rank has them whole (replicate())."""
    return getattr(group.mesh_info, "shard_process_group", None)


def replica_group(group):
    """The process group over which FSDP2 all-reduces gradients (hybrid sharding, replicate()), which compress() may
    have covered with one of its own; None where it does not."""
    found = getattr(group.mesh_info, "replicate_process_group", None)
    return getattr(found, "own", found)


def is_sharded(module):
    """Whether FSDP2 gathers the module's weights and reduces its gradients over several ranks, by hooks."""
    group = only_group(module)
    return group is not None and has_several_ranks(shard_group(group))


def has_whole(module):
    """Whether each rank has the module's weights whole: FSDP2 calls no hook for them."""
    group = only_group(module)
    return group is not None and not has_several_ranks(shard_group(group))


def sends(group):
    return has_several_ranks(shard_group(group)) or has_several_ranks(replica_group(group))


def has_several_ranks(process_group):
    return process_group is not None and process_group.size() > 1


def has_reductions_apart(group, process_group):
    """Whether `process_group` was made for reductions alone (set_separate_reduce_scatter_group)."""
    return getattr(group.mesh_info, "reduce_scatter_process_group", None) is process_group


def reduced_parameters():
    """Which parameters the reduction has gradients of, for the hook that FSDP2 calls; None where it cannot be known.
    FSDP2 tells the hook no more than sizes: foreach_reduce(), which calls it, has them as its first argument in all
    versions since 2.9."""
    reduction = sys._getframe(1)
    while reduction is not None and reduction.f_code.co_name != "foreach_reduce":
        reduction = reduction.f_back
    parameters = None if reduction is None else reduction.f_locals.get("fsdp_params")
    return None if parameters is None else tuple(map(id, parameters))
