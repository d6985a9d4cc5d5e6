"""The two objects that FSDP2 calls in place of its own collectives (torch.distributed.fsdp, AllGather and ReduceScatter), for one
module each. Everything is enqueued on the current stream; they return None, for FSDP2 records an event behind them."""

import torch
import torch.distributed as dist

from zeropp.library import UsageError
from zeropp.torch.param_groups import param_groups
from zeropp.torch.shared_plan import DTYPES, Sent


class Hook:
    """What both have in common. `settings` is compress()'s, `name` the module's."""

    def __init__(self, name, module, settings, plans, needs_compression):
        self.name, self.module, self.settings, self.plans = name, module, settings, plans
        self.needs_compression = needs_compression  # (bytes) -> whether so few are worth it
        self._sent = {}  # by (phase, SharedPlan or algorithm, codec, why PyTorch carried it)

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def run(self, plan, phase, codec, source, target):
        plan.run(source, target, source.device)
        self._sent.setdefault((phase, plan, codec, ""), Sent()).calls += 1  # sent() asks the plan for the bytes

    def count(self, phase, algorithm, codec, sent, why=""):
        self._sent.setdefault((phase, algorithm, codec, why), Sent()).add(sent)

    def count_plain(self, phase, part, ranks, why):
        """PyTorch's own collective; its route is not known, so a ring stands for it. `why` it is not the library's."""
        to_next = (ranks.size - 1) * part.numel() * part.element_size()
        bytes_ = (to_next, 0) if ranks.inside_a_node else (0, to_next)
        self.count(phase, "torch", "none", Sent(1, *bytes_, *bytes_), why)

    def sent(self):
        """{(phase, algorithm, codec, why PyTorch carried it): Sent}"""
        found = {}
        for (phase, carrier, codec, why), sent in self._sent.items():
            algorithm = getattr(carrier, "algorithm", carrier)
            each = sent if carrier is algorithm else carrier.sent(sent.calls)
            found.setdefault((phase, algorithm, codec, why), Sent()).add(each)
        return found


def why_plain(size, dtype, few, inside):
    """Why PyTorch carries a collective, in two or three words; the first reason counts."""
    if size == 1:
        return "one rank"
    if dtype is None:
        return "no such type"
    if few:
        return "below min_bytes"
    return "inside a node" if inside else "codec none"


def require_contiguous(what, *tensors):
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise UsageError(f"{what}: memory that is not contiguous cannot be sent: leave the module out (exclude=)")


def part_of_step(module):
    """"forward" or "backward", as FSDP2 keeps it for the module that gathers; "" where this version keeps it elsewhere."""
    try:
        return {"FORWARD": "forward ", "PRE_BACKWARD": "backward "}.get(param_groups(module)[0]._training_state.name, "")
    except (AttributeError, IndexError):
        return ""


class CompressedAllGather(Hook):
    """Gathers weights. What stays inside a node goes uncompressed unless settings.inside_node says otherwise."""

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device)
        inside = ranks.inside_a_node
        codec = self.settings.inside_node if inside else self.settings.weights
        phase = f"{part_of_step(self.module)}gather"
        dtype = DTYPES.get(input_tensor.dtype)
        plain = codec == "none" and (inside or self.settings.transport == "torch")
        few = not self.needs_compression(input_tensor.numel() * input_tensor.element_size() * ranks.size)
        if plain or few or dtype is None or ranks.size == 1:
            self.count_plain(phase, input_tensor, ranks, why_plain(ranks.size, dtype, few, inside))
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group=ranks.group, async_op=async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        plan = self.plans.get(
            ("all_gather", ranks, input_tensor.numel(), dtype, codec),
            lambda: ranks.communicator.plan_all_gather(input_tensor.numel(), dtype, codec,
                                                       algorithm="auto" if inside else self.settings.all_gather_algorithm,
                                                       seed=self.settings.seed))
        self.run(plan, phase, codec, input_tensor, output_tensor)
        return None


class CompressedReduceScatter(Hook):
    """Sums gradients. FSDP2 divides: compress() has it ask for sums (set_force_sum_reduction_for_comms)."""

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device)
        dtype, output = DTYPES.get(input_tensor.dtype), DTYPES.get(output_tensor.dtype)
        codecs = self.settings.gradients
        plain = codecs == ("none", "none") and self.settings.transport == "torch"
        few = not self.needs_compression(input_tensor.numel() * input_tensor.element_size())
        if plain or few or dtype is None or output is None or ranks.size == 1:
            self.count_plain("reduce", output_tensor, ranks, why_plain(ranks.size, dtype and output, few, False))
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, group=group, op=op, async_op=async_op)
        if op == dist.ReduceOp.SUM:
            scale = 1.0
        elif op == dist.ReduceOp.AVG:
            scale = 1.0 / ranks.size
        else:
            raise UsageError(f"{self.name}: a reduction by {op} cannot be compressed: call "
                             "set_force_sum_reduction_for_comms(True) on the module after set_gradient_divide_factor()")
        require_contiguous(self.name, output_tensor, input_tensor)
        feedback = self.settings.error_feedback
        codec, codec_between_nodes = ranks.hop_codecs(*codecs)
        key = ("reduce_scatter", ranks, output_tensor.numel(), dtype, output, scale, self.name if feedback else None)
        plan = self.plans.get(
            key, lambda: ranks.communicator.plan_reduce_scatter(
                output_tensor.numel(), dtype, codec, codec_between_nodes=codec_between_nodes, algorithm=self.settings.reduce_scatter_algorithm,
                output=output, scale=scale, seed=self.settings.seed, error_feedback=feedback))
        self.run(plan, "reduce", codecs[0] if codecs[0] == codecs[1] else ", ".join(codecs), input_tensor, output_tensor)
        return None
