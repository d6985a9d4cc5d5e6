"""compress(): the one call that turns compression on."""

import collections.abc
import dataclasses
import fnmatch
import warnings

import torch

from zeropp import library
from zeropp.library import UsageError
from zeropp.torch import arguments
from zeropp.torch.differences import Agreement, DifferenceAllGather, ExactAllGather
from zeropp.torch.frozen import FrozenAllGather
from zeropp.torch.hooks import CompressedAllGather, CompressedReduceScatter, Hook
from zeropp.torch.param_groups import (all_frozen, has_several_ranks, is_sharded, only_group, param_groups,
                                       parameters_of, replica_group, shard_group)
from zeropp.torch.process_groups import Communicators
from zeropp.torch.replicas import CompressedAllReduce, warn_where_replicas_cross_nodes
from zeropp.torch.shared_plan import Plans


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of compress(), checked. `gradients` has the codec inside a node and the one between nodes."""
    weights: str
    gradients: tuple
    inside_node: str
    weight_differences: str | None
    frozen: str | None
    all_gather_algorithm: str
    reduce_scatter_algorithm: str
    error_feedback: tuple | None
    transport: str
    seed: int

    @property
    def compress_nothing(self):
        return {self.weights, *self.gradients, self.inside_node, self.weight_differences or "none",
                self.frozen or "none"} == {"none"}


def require_hooks():
    """FSDPModule, where this PyTorch has it with the hooks for collectives."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        FSDPModule = None
    if FSDPModule is None or not hasattr(FSDPModule, "set_custom_reduce_scatter"):
        raise library.EnvironmentLacks(
            f"torch {torch.__version__} has no hooks for the collectives of FSDP2: install torch 2.9 or newer")
    return FSDPModule


def wrapped_modules(model):
    """(name, module) of what fully_shard() wrapped, by the state of FSDP2, which modules of one fully_shard([...])
    share: the first stands for all."""
    fsdp_module, found = require_hooks(), {}
    for name, module in model.named_modules():
        if isinstance(module, fsdp_module):
            found.setdefault(module._get_fsdp_state(), (name, module))
    return list(found.values())


def without(exclude, wrapped):
    """`wrapped` in two lists: what stays, and what `exclude` leaves to PyTorch."""
    one_alone = isinstance(exclude, (str, torch.nn.Module)) or not isinstance(exclude, collections.abc.Iterable)
    given = (exclude,) if one_alone else tuple(exclude)
    if not all(isinstance(each, (str, torch.nn.Module)) for each in given):
        raise UsageError(f"exclude={exclude!r}: give modules, or patterns of their names, such as [\"*norm*\"]")

    def meant(each, name, module):
        return fnmatch.fnmatchcase(name, each) if isinstance(each, str) else module is each

    for each in given:
        if not any(meant(each, *one) for one in wrapped):
            shown = repr(each) if isinstance(each, str) else f"a {type(each).__name__}"
            raise UsageError(f"exclude={shown} matches no module that fully_shard() wrapped: wrap it by itself, or "
                             "correct the name")
    left = [one for one in wrapped if any(meant(each, *one) for each in given)]
    return [one for one in wrapped if one not in left], left


def roots_of(modules):
    """The modules that are in no other of `modules`."""
    inner = {id(each) for module in modules for each in module.modules() if each is not module}
    return [module for module in modules if id(module) not in inner]


def require_free(shown, name, module):
    """Refuses what FSDP2 takes no hooks for, and hooks of somebody else's, which compress() would replace."""
    remedy = f'leave it to PyTorch: exclude=["{name}"]'
    groups = param_groups(module)
    if len(groups) > 1:
        raise UsageError(f"{shown}: its parameters are on several meshes (shard_placement_fn), for which FSDP2 takes no "
                         f"hooks: {remedy}")
    for group in groups:
        for kind, comm in (("all-gather", group._all_gather_comm), ("reduce-scatter", group._reduce_scatter_comm)):
            of = type(comm)
            of_pytorch = of.__name__.startswith("Default") and of.__module__.startswith("torch.distributed.")
            if not of_pytorch and not isinstance(comm, Hook):
                raise UsageError(f"{shown}: its {kind} is a {of.__name__}, which compress() would replace: {remedy}, "
                                 "or do not set that")


def warn_of_frozen_without_replica(frozen, chosen):
    """Where frozen parameters share a group with trained ones."""
    without_, size, of_all = [], 0, 0
    for name, module in chosen:
        frozen_here = sum(each.numel() for each in parameters_of(module) if not each.requires_grad)
        of_all += frozen_here
        if frozen_here and not all_frozen(module):
            without_.append(name or "(model)")
            size += frozen_here
    if without_:
        more = f" and {len(without_) - 1} more" if len(without_) > 1 else ""
        warnings.warn(f"zeropp.torch: frozen={frozen!r}: {size / of_all:.0%} of the frozen parameters get no replica, "
                      f"since parameters of the same group are trained ({without_[0]}{more}): wrap those that are "
                      "trained by a fully_shard() of their own, before that of the block", stacklevel=3)


def smaller_nodes(sharded_groups):
    """The remedy where every group of shards is one node: nodes of half its ranks, or of the next smaller part."""
    ranks = max((shard_group(group).size() for group in sharded_groups), default=1)
    part = next((part for part in range(ranks // 2, 0, -1) if ranks % part == 0), None)
    return f"say how many ranks are a node, such as node_size={part}, or " if part else ""


def install(module, hooks):
    """Puts the hooks into FSDP2, and sends those that they replace away."""
    before = getattr(module, "_zeropp_hooks", None) or ()
    for hook in hooks:
        hook.install()
        hook.plans.users += 1
    remember(module, hooks)
    for hook in before:
        hook.leave()


def remember(module, hooks):
    """For all modules of one fully_shard([...]). `hooks`: None where exclude= leaves the module to PyTorch."""
    group = only_group(module)
    for each in (module,) if group is None else group.modules:
        each._zeropp_hooks = hooks


def compress(model, weights="int8:256", gradients="int4:128", *, inside_node="none", weight_differences=None,
             frozen=None, exclude=(), min_bytes=1 << 20, node_size=None, transport="torch", all_gather_algorithm="auto",
             reduce_scatter_algorithm="auto", error_feedback=None, rail_lanes=0, copy_engines=-1, seed=0):
    """Compresses what the modules of `model` that fully_shard() wrapped send. Call it after the last fully_shard() and
    before the first forward. Another call with a part of the model gives that part all settings anew: what it does not
    name is the default again, node_size= and transport= too. All modules are compressed, or none. Returns `model`.

    weights         codec of weight gathers that cross nodes (qwZ), or "none"; "exact" sends how weights differ from the
                    node's copy, as weight_differences= does, without loss: the weights have the bits of plain FSDP2
    gradients       codec of gradient reductions (qgZ), or a pair: inside a node, between nodes
    inside_node     codec of weight gathers inside a node, such as those of reshard_after_forward=8 (hpZ)
    weight_differences
                    codec of how weights differ from a copy that each node keeps, such as "int4:128": sent between nodes
                    after each change of the weights, whole weights only at first; gathers stay inside nodes. None: none
    frozen          codec of a replica on every rank of modules of which no parameter is trained; gathered where they
                    have changed
    exclude         modules left to PyTorch: names (patterns as of fnmatch, "" is the model itself) or modules, one or
                    several
    min_bytes       a collective of fewer uncompressed bytes is left to PyTorch [1 MiB]
    node_size       ranks of a node [LOCAL_WORLD_SIZE; where it is not set, ranks of one host name]
    transport       "torch": the process groups of FSDP2; "nccl": communicators of the library's own, with lanes between
                    nodes and copy engines inside them (`rail_lanes`, `copy_engines` as of zpp_comm_options)
    all_gather_algorithm, reduce_scatter_algorithm
                    "auto", or an algorithm of the library by name
    error_feedback  (beta, reset period in reductions, whether errors are kept in int8) of the hops of gradients, such
                    as (0.8, 1024, True); None: none
    seed            of codecs that round stochastically

    Raises zeropp.library.UsageError for what cannot be, EnvironmentLacks for a PyTorch without the hooks."""
    arguments.model("compress()", model)
    pair = arguments.codec_pair("gradients", gradients)
    exact = weights == "exact"
    if exact:
        if weight_differences is not None:
            raise UsageError(f"weights=\"exact\" sends differences of its own: leave weight_differences="
                             f"{weight_differences!r} out")
        if inside_node != "none":
            raise UsageError(f"inside_node={inside_node!r} would lose what weights=\"exact\" keeps: leave it out")
        weights, weight_differences = "none", "exact"
    elif weight_differences == "none":
        raise UsageError('weight_differences="none" has no codec: weights="exact" sends differences without loss')
    differences = "weights=" if exact else "weight_differences="
    settings = Settings(arguments.codec("weights", weights), pair, arguments.codec("inside_node", inside_node),
                        weight_differences if weight_differences is None or exact
                        else arguments.codec("weight_differences", weight_differences),
                        None if frozen is None else arguments.codec("frozen", frozen),
                        arguments.algorithm("all_gather_algorithm", all_gather_algorithm, "all_gather"),
                        arguments.algorithm("reduce_scatter_algorithm", reduce_scatter_algorithm, "reduce_scatter"),
                        arguments.error_feedback(error_feedback, pair), transport,
                        arguments.number("seed", seed, 0, "a whole number from 0 to 2**64 - 1", below=1 << 64))
    arguments.number("min_bytes", min_bytes, 0, "a number of bytes, 0 to compress every collective", whole=False)
    plans = Plans(Communicators(node_size, transport, rail_lanes, copy_engines))
    wrapped = wrapped_modules(model)
    if not wrapped:
        raise UsageError("compress() finds no module that fully_shard() wrapped: call it after fully_shard()")
    chosen, left = without(exclude, wrapped)
    if frozen is not None and not any(all_frozen(module) for _, module in chosen):
        raise UsageError(f"frozen={frozen!r} has no effect: every module that fully_shard() wrapped has parameters that are "
                         "trained: freeze them by requires_grad_(False) before compress(), or leave frozen= out")
    sharded_groups = [only_group(module) for _, module in chosen if is_sharded(module)]
    if weight_differences is not None:
        if frozen is not None:
            raise UsageError(f"frozen= is not needed with {differences}{weight_differences!r}, which sends nothing of "
                             "weights that do not change: leave frozen= out")
        if all(plans.communicators.inside_a_node(shard_group(group), group.device) for group in sharded_groups):
            raise UsageError(f"{differences}{weight_differences!r} has no effect: no module shards its weights over "
                             f"several nodes: {smaller_nodes(sharded_groups)}leave it out")

    def needs_compression(count):
        return count >= min_bytes

    gather = (ExactAllGather if exact else DifferenceAllGather if weight_differences is not None
              else FrozenAllGather if frozen is not None else CompressedAllGather)
    made = []
    for name, module in chosen:
        if not param_groups(module):
            continue
        shown, sharded = name or "(model)", is_sharded(module)
        if sharded or only_group(module) is None:
            require_free(shown, name, module)
        kinds = [gather, CompressedReduceScatter] if sharded else []
        if has_several_ranks(replica_group(only_group(module))):
            kinds.append(CompressedAllReduce)
        made.append((module, [kind(shown, module, settings, plans, needs_compression) for kind in kinds]))
    if settings.gradients[1] == "none" and not settings.compress_nothing:
        warn_where_replicas_cross_nodes(sharded_groups, plans.communicators)
    if frozen is not None:
        warn_of_frozen_without_replica(frozen, chosen)
    if weight_differences is not None:
        plans.agreement = Agreement({model, *roots_of([module for _, module in wrapped])})
    # Nothing below is refused: all modules are compressed, or none.
    for _, module in left:  # report() tells them from what compress() did not see
        remember(module, getattr(module, "_zeropp_hooks", None))
    for each in made:
        install(*each)
    return model
