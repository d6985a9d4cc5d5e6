"""compress(): the one call that turns compression on."""

import collections.abc
import dataclasses
import fnmatch

import torch

from zeropp import library
from zeropp.library import UsageError
from zeropp.torch import arguments
from zeropp.torch.frozen import FrozenAllGather
from zeropp.torch.hooks import CompressedAllGather, CompressedReduceScatter
from zeropp.torch.param_groups import all_frozen
from zeropp.torch.process_groups import Communicators
from zeropp.torch.shared_plan import Plans


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of compress(), checked. `gradients` has the codec inside a node and the one between nodes."""
    weights: str
    gradients: tuple
    inside_node: str
    frozen: str | None
    all_gather_algorithm: str
    reduce_scatter_algorithm: str
    error_feedback: tuple | None
    transport: str
    seed: int


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


def compress(model, weights="int8:256", gradients="int4:128", *, inside_node="none", frozen=None, exclude=(),
             min_bytes=1 << 20, node_size=None, transport="torch", all_gather_algorithm="auto",
             reduce_scatter_algorithm="auto", error_feedback=None, rail_lanes=0, copy_engines=-1, seed=0):
    """Compresses what the modules of `model` that fully_shard() wrapped send. Call it behind the last fully_shard() and before
    the first forward. Another call with a part of the model gives that part all settings anew: what it does not name
    is the default again, node_size= and transport= too. Returns `model`.

    weights         codec of weight gathers that cross nodes (qwZ), or "none"
    gradients       codec of gradient reductions (qgZ), or a pair: inside a node, between nodes
    inside_node     codec of weight gathers inside a node, such as those of reshard_after_forward=8 (hpZ)
    frozen          codec of a replica on every rank of modules of which no parameter is trained; gathered once
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
    pair = arguments.codec_pair("gradients", gradients)
    settings = Settings(arguments.codec("weights", weights), pair, arguments.codec("inside_node", inside_node),
                        None if frozen is None else arguments.codec("frozen", frozen),
                        arguments.algorithm("all_gather_algorithm", all_gather_algorithm, "all_gather"),
                        arguments.algorithm("reduce_scatter_algorithm", reduce_scatter_algorithm, "reduce_scatter"),
                        arguments.error_feedback(error_feedback, pair), transport,
                        arguments.number("seed", seed, 0, "a whole number from 0 to 2**64 - 1", below=1 << 64))
    arguments.number("min_bytes", min_bytes, 0, "a number of bytes, 0 to compress every collective", whole=False)
    plans = Plans(Communicators(node_size, transport, rail_lanes, copy_engines))
    wrapped = wrapped_modules(model)
    if not wrapped:
        raise UsageError("compress() finds no module that fully_shard() wrapped: call it behind fully_shard()")
    chosen, left = without(exclude, wrapped)
    if frozen is not None and not any(all_frozen(module) for _, module in chosen):
        raise UsageError(f"frozen={frozen!r} has no effect: every module that fully_shard() wrapped has parameters that are "
                         "trained: freeze them by requires_grad_(False) before compress(), or leave frozen= out")

    def needs_compression(count):
        return count >= min_bytes

    for _, module in left:  # report() tells them from what compress() did not see
        module._zeropp_hooks = getattr(module, "_zeropp_hooks", ())
    for name, module in chosen:
        shown = name or "(model)"
        try:
            kind = FrozenAllGather if frozen is not None and all_frozen(module) else CompressedAllGather
            gather = kind(shown, module, settings, plans, needs_compression)
            reduce = CompressedReduceScatter(shown, module, settings, plans, needs_compression)
            module.set_custom_all_gather(gather)
            module.set_custom_reduce_scatter(reduce)
        except ValueError as error:  # several meshes in one module
            raise UsageError(f"{shown}: {error}") from None
        module.set_force_sum_reduction_for_comms(True)
        module._zeropp_hooks = (gather, reduce)
    return model
