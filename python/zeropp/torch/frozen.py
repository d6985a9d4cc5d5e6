"""Weights that are not trained: every rank keeps an encoded replica, which is gathered once and decoded on use, so that
a step sends next to nothing for them (LoRA, distillation)."""

import torch
import torch.distributed as dist

from zeropp import collectives
from zeropp.library import Device, UsageError
from zeropp.torch import arguments
from zeropp.torch.hooks import CompressedAllGather, require_contiguous, ring_bytes
from zeropp.torch.param_groups import all_frozen
from zeropp.torch.process_groups import stream_of
from zeropp.torch.shared_plan import DTYPES, KeptTensor, Ring, Sent


class Replica:
    """The encoded images of all ranks' parts of a group's weights, each of which has `count` elements."""

    def __init__(self, images, count, dtype):
        self.images, self.count, self.dtype = KeptTensor(images), count, dtype


class FrozenAllGather(CompressedAllGather):
    """Gathers as CompressedAllGather does, but for a replica while no parameter of the module is trained. Weights may
    change without a trace (`.data`, loading in place, foreach functions), so their contents decide: at each use a rank
    encodes its own part anew and compares the images, and where one rank's has changed all gather again. The ranks
    agree on it by the sum of one number, which costs a small message and a wait of the host. A replica for each set of
    ranks: with reshard_after_forward=N backward gathers other parts than forward."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        self.replicas = {}  # by RankSet

    def forget(self):
        self.replicas.clear()

    def gather(self, output_tensor, input_tensor, group, async_op):
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device)
        if not all_frozen(self.module) or self.why_left(ranks, ranks.size, input_tensor):
            self.replicas.clear()
            return super().gather(output_tensor, input_tensor, group, async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        self.count_saved(ranks, ring_bytes(ranks, input_tensor))
        count, dtype, codec = input_tensor.numel(), DTYPES[input_tensor.dtype], self.settings.frozen
        device, where = input_tensor.device, Device.CUDA if input_tensor.is_cuda else Device.HOST
        padded = -(-collectives.image_bytes(codec, dtype, count) // 16) * 16
        image = torch.zeros(padded, dtype=torch.uint8, device=device)
        collectives.encode(codec, dtype, where, input_tensor.data_ptr(), count, image.data_ptr(), stream_of(device))
        replica = self.replicas.get(ranks)
        if self.changed_on_any(ranks, replica, image, count, dtype):
            replica = self.replicas[ranks] = self.gather_images(ranks, image, count, dtype)
        images = replica.images.used_here()
        for rank, part in enumerate(output_tensor.view(ranks.size, count)):
            collectives.decode(codec, dtype, where, images[rank].data_ptr(), count, part.data_ptr(), stream_of(device))
        self.count("decode of a frozen replica", "local", codec, Sent(1))
        return None

    def changed_on_any(self, ranks, replica, image, count, dtype):
        """Whether the replica lacks what a rank has now; the same answer on all ranks, which call it together."""
        if replica is None or (replica.count, replica.dtype) != (count, dtype):
            changed = torch.ones(1, dtype=torch.int32, device=image.device)
        else:
            kept = replica.images.used_here()[ranks.group.rank()]
            changed = (image.view(torch.int64) != kept.view(torch.int64)).any().to(torch.int32).view(1)
        dist.all_reduce(changed, group=ranks.group)
        self.count_all_reduce("check of frozen weights", changed, ranks, "agreement of ranks")
        return changed.item() > 0

    def gather_images(self, ranks, image, count, dtype):
        images = torch.empty(ranks.size, image.numel(), dtype=torch.uint8, device=image.device)
        dist.all_gather_into_tensor(images.view(-1), image, group=ranks.group)
        ring = Ring(ring_bytes(ranks, image), ranks.inside_a_node)
        self.count_call("gather of a frozen replica", ring, self.settings.frozen)
        self.saved.replicas += ranks.ring_between_nodes(ring.bytes_)
        return Replica(images, count, dtype)


def refresh(model):
    """Forgets the replicas of frozen modules and the copies that weight differences are added to: the next forward
    sends whole weights. Correct results do not need it. Raises UsageError where nothing of `model` is compressed."""
    compressed = [module for module in arguments.model("refresh()", model).modules() if hasattr(module, "_zeropp_hooks")]
    if not compressed:
        raise UsageError("refresh(): this model is not compressed: call it after compress(), on the same model")
    for module in compressed:
        for hook in module._zeropp_hooks or ():
            hook.forget()
    return model
