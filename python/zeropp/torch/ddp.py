"""A communication hook of DistributedDataParallel with the quantized all-reduce.

    model.register_comm_hook(zeropp.torch.AllReduceState("int8:256", "int4:128"), zeropp.torch.allreduce_hook)
"""

import warnings

import torch
import torch.distributed as dist

from zeropp.library import UsageError
from zeropp.torch import arguments
from zeropp.torch.process_groups import Communicators
from zeropp.torch.shared_plan import DTYPES, Plans


class AllReduceState:
    """Codecs and plans of one model. `codec`: inside a node; `codec_between_nodes` [as `codec`]. `process_group`: the
    one that DistributedDataParallel was given [the default group]. It is pickled without the group, as PyTorch's states
    are."""

    def __init__(self, codec="int8:256", codec_between_nodes=None, *, process_group=None, node_size=None,
                 transport="torch", algorithm="auto", seed=0):
        self.codecs = (arguments.codec("codec", codec),
                       arguments.codec("codec_between_nodes",
                                       codec if codec_between_nodes is None else codec_between_nodes))
        self.algorithm = arguments.algorithm("algorithm", algorithm, "reduce_scatter")
        self.group = process_group
        self.seed = arguments.number("seed", seed, 0, "a whole number from 0 to 2**64 - 1", below=1 << 64)
        self._ranks = {"node_size": node_size, "transport": transport}
        self._make_plans()

    def _make_plans(self):
        self.plans = Plans(Communicators(**self._ranks))
        self._key_of = {}  # by the address of a parameter: the key of the plan of its bucket

    def __getstate__(self):
        if self.group is not None:
            warnings.warn("zeropp.torch: AllReduceState is pickled without its process group: set .group where it is "
                          "loaded")
        return {name: value for name, value in vars(self).items() if name not in ("plans", "_key_of")} | {"group": None}

    def __setstate__(self, state):
        vars(self).update(state)
        self._make_plans()

    def plan(self, bucket):
        buffer = bucket.buffer()
        group = self.group if self.group is not None else dist.group.WORLD
        dtype = DTYPES.get(buffer.dtype)
        if dtype is None:
            raise UsageError(f"gradients of {buffer.dtype} have no codec: train in float32, bfloat16 or float16")
        ranks = self.plans.communicators.ranks_of(group, buffer.device)
        key = (ranks, buffer.numel(), dtype)
        if key not in self.plans.made:
            self._forget_former_buckets(bucket.parameters(), key)
        return self.plans.get(
            key, lambda: ranks.plan_all_reduce(buffer.numel(), dtype, ranks.hop_codecs(*self.codecs),
                                               algorithm=self.algorithm, scale=1.0 / ranks.size, seed=self.seed))

    def _forget_former_buckets(self, parameters, key):
        """DistributedDataParallel builds its buckets anew after the first step: ends the plans of those that held these
        parameters before. Buckets of one size share a plan; where it goes too early, the next of them makes another."""
        addresses = [parameter.data_ptr() for parameter in parameters]
        for former in {self._key_of.get(address) for address in addresses} - {None}:
            self.plans.drop(former)
        self._key_of.update(dict.fromkeys(addresses, key))


def allreduce_hook(state, bucket):
    """The mean of a bucket's gradients over ranks, in place, on the current stream."""
    buffer = bucket.buffer()
    if (state.group if state.group is not None else dist.group.WORLD).size() > 1:
        state.plan(bucket).run(buffer, buffer, buffer.device)
    done = torch.futures.Future(devices=[buffer.device] if buffer.device.type == "cuda" else None)
    done.set_result(buffer)
    return done
