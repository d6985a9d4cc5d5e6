"""compress(): the one call that turns compression on."""

import dataclasses
import fnmatch

import torch

from zeropp import library
from zeropp.library import UsageError
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


def known(name, kind):
    """`name`, where the library has it; codecs are parsed, so that a wrong block size is found here as well."""
    if kind == "codec":
        from zeropp.collectives import image_bytes

        image_bytes(name, library.Dtype.FP32, 1)
    elif name != "auto" and name not in library.names(kind):
        raise UsageError(f"{kind.replace('_', '-')} algorithm '{name}' is unknown: auto, {', '.join(library.names(kind))}")
    return name


def compress(model, weights="int8:256", gradients="int4:128", *, inside_node="none", frozen=None, exclude=(),
             min_bytes=1 << 20, node_size=None, transport="torch", all_gather_algorithm="auto",
             reduce_scatter_algorithm="auto", error_feedback=None, rail_lanes=0, copy_engines=-1, seed=0):
    """Compresses what the modules of `model` that fully_shard() wrapped send. Call it behind the last fully_shard() and before
    the first forward; call it again with a part of the model to give that part other settings. Returns `model`.

    weights         codec of weight gathers that cross nodes (qwZ), or "none"
    gradients       codec of gradient reductions (qgZ), or a pair: inside a node, between nodes
    inside_node     codec of weight gathers inside a node, such as those of reshard_after_forward=8 (hpZ)
    frozen          codec of a replica on every rank of modules of which no parameter is trained; gathered once
    exclude         modules left to PyTorch: names (patterns as of fnmatch, "" is the model itself) or modules
    min_bytes       a collective of fewer uncompressed bytes is left to PyTorch [1 MiB]
    node_size       ranks of a node [LOCAL_WORLD_SIZE]
    transport       "torch": the process groups of FSDP2; "nccl": communicators of the library's own, with lanes between
                    nodes and copy engines inside them (`rail_lanes`, `copy_engines` as of zpp_comm_options)
    all_gather_algorithm, reduce_scatter_algorithm
                    "auto", or an algorithm of the library by name
    error_feedback  (beta, reset period in steps, whether errors are kept in int8) of the hops of gradients; None: none
    seed            of codecs that round stochastically

    Raises zeropp.library.UsageError for what cannot be, EnvironmentLacks for a PyTorch without the hooks."""
    fsdp_module = require_hooks()
    pair = (gradients, gradients) if isinstance(gradients, str) else tuple(gradients)
    if len(pair) != 2:
        raise UsageError(f"gradients={gradients!r}: give one codec, or two: inside a node and between nodes")
    for codec in {weights, inside_node, *pair, *([frozen] if frozen else [])}:
        known(codec, "codec")
    settings = Settings(weights, pair, inside_node, frozen, known(all_gather_algorithm, "all_gather"),
                        known(reduce_scatter_algorithm, "reduce_scatter"), error_feedback, transport, seed)
    plans = Plans(Communicators(node_size, transport, rail_lanes, copy_engines))
    found = {}  # by the state of FSDP2, which modules of one fully_shard([...]) share; the first stands for all
    for name, module in model.named_modules():
        if isinstance(module, fsdp_module):
            found.setdefault(module._get_fsdp_state(), (name, module))
    if not found:
        raise UsageError("compress() finds no module that fully_shard() wrapped: call it behind fully_shard()")
    patterns = [each for each in exclude if isinstance(each, str)]
    modules = [each for each in exclude if not isinstance(each, str)]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name, _ in found.values()):
            raise UsageError(f"exclude={pattern!r} matches no module that fully_shard() wrapped: wrap it by itself, or correct the name")

    def needs_compression(count):
        return count >= min_bytes

    for name, module in found.values():
        if any(module is each for each in modules) or any(fnmatch.fnmatchcase(name, each) for each in patterns):
            continue
        shown = name or "(model)"
        try:
            kind = FrozenAllGather if frozen and all_frozen(module) else CompressedAllGather
            gather = kind(shown, module, settings, plans, needs_compression)
            reduce = CompressedReduceScatter(shown, module, settings, plans, needs_compression)
            module.set_custom_all_gather(gather)
            module.set_custom_reduce_scatter(reduce)
        except ValueError as error:  # several meshes in one module
            raise UsageError(f"{shown}: {error}") from None
        module.set_force_sum_reduction_for_comms(True)
        module._zeropp_hooks = (gather, reduce)
    return model
