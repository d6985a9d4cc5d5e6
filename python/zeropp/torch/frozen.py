"""Weights that are not trained: every rank keeps an encoded replica, which is gathered once and decoded on use, so that a step
sends nothing for them (LoRA, distillation)."""

import torch
import torch.distributed as dist

from zeropp import collectives
from zeropp.library import Device
from zeropp.torch.hooks import Hook, require_contiguous
from zeropp.torch.param_groups import parameters_of
from zeropp.torch.process_groups import stream_of
from zeropp.torch.shared_plan import DTYPES, Sent


class FrozenAllGather(Hook):
    """A replica for each set of ranks: with reshard_after_forward=N backward gathers other parts than forward."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        self.replicas = {}  # by RankSet: (images, versions of the parameters they were made of)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device)
        group, dtype = ranks.group, DTYPES.get(input_tensor.dtype)
        if dtype is None or ranks.size == 1:
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        device, codec = input_tensor.device, self.settings.frozen
        where = Device.CUDA if device.type == "cuda" else Device.HOST
        count = input_tensor.numel()
        versions = [version(parameter) for parameter in parameters_of(self.module)]
        images, made_of = self.replicas.get(ranks, (None, None))
        if made_of != versions:
            padded = -(-collectives.image_bytes(codec, dtype, count) // 16) * 16
            images = torch.empty(ranks.size, padded, dtype=torch.uint8, device=device)
            own = images[group.rank()]
            collectives.encode(codec, dtype, where, input_tensor.data_ptr(), count, own.data_ptr(), stream_of(device))
            dist.all_gather_into_tensor(images.view(-1), own.clone(), group=group)
            to_next = (ranks.size - 1) * padded
            bytes_ = (to_next, 0) if ranks.inside_a_node else (0, to_next)
            self.count("gather of a frozen replica", "torch", codec, Sent(1, *bytes_, *bytes_))
            self.replicas[ranks] = (images, versions)
        for rank, part in enumerate(output_tensor.view(ranks.size, count)):
            collectives.decode(codec, dtype, where, images[rank].data_ptr(), count, part.data_ptr(), stream_of(device))
        self.count("decode of a frozen replica", "local", codec, Sent(1))
        return None


def version(parameter):
    """Grows with every change. A DTensor and its shard count apart: load_state_dict() changes the one, and who takes the shard the
    other."""
    return parameter._version, getattr(parameter, "_local_tensor", parameter)._version


def refresh(model):
    """Forgets the replicas of frozen modules: the next forward gathers them anew. A change in place by PyTorch is noticed without
    it; one behind PyTorch's back is not."""
    for module in model.modules():
        for hook in getattr(module, "_zeropp_hooks", ()):
            if isinstance(hook, FrozenAllGather):
                hook.replicas.clear()
    return model
