"""The objects that FSDP2 calls instead of its own collectives (torch.distributed.fsdp, AllGather and ReduceScatter).
Each serves one module. All work is enqueued on the current stream. The objects return None: FSDP2 records an event
after them."""

import dataclasses

import torch
import torch.distributed as dist

from zeropp.library import UsageError
from zeropp.torch.param_groups import has_reductions_apart, only_group, reduced_parameters, shard_group
from zeropp.torch.shared_plan import DTYPES, Ring, Sent


def shown(codecs):
    """The codecs of a reduction's hops."""
    return ", ".join(dict.fromkeys(codec for codec in codecs if codec is not None))


def ring_bytes(ranks, part):
    """Bytes that a rank sends along a ring for a gather of such a part of each."""
    return (ranks.size - 1) * part.numel() * part.element_size()


def all_reduce_ring_bytes(ranks, tensor):
    """Bytes that a rank sends along a ring for an all-reduce of a tensor."""
    return 2 * (ranks.size - 1) * -(-tensor.numel() * tensor.element_size() // ranks.size)


def of_pytorch(name, former_name):
    """The collective that FSDP2 itself calls. It is looked up at each call, so that the replacement of a user or a test
    is called too."""
    return getattr(dist, name, None) or getattr(dist, former_name)


@dataclasses.dataclass
class Saved:
    """Bytes between nodes of the calls that the library carried: `of_fsdp2`, which rings of PyTorch's would have sent,
    as a mean over ranks; and `replicas`, which were sent for frozen replicas, likewise. The rest is in sent()."""
    of_fsdp2: float = 0
    replicas: float = 0


class Hook:
    """Common part of the gathers and reductions. `settings` is compress()'s, `name` the module's."""

    def __init__(self, name, module, settings, plans, needs_compression):
        self.name, self.module, self.settings, self.plans = name, module, settings, plans
        self.param_group = only_group(module)
        self.needs_compression = needs_compression  # (bytes) -> whether so few are worth it
        self._calls = {}  # by (phase, SharedPlan or Ring, codec, why PyTorch carried it)
        self._sent = {}  # by (phase, algorithm, codec, ""): of calls whose bytes differ
        self.saved = Saved()
        self._reduced = {}  # by SharedPlan: which parameters it reduced last

    def leave(self):
        """Another hook has taken its place."""
        self.plans.leave()

    def forget(self):
        """Drops what is kept of weights."""

    def is_stale(self):
        """Whether the last forward or backward computed with old weights; waits for the device."""
        return False

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def why_left(self, ranks, parts, *tensors):
        """Why PyTorch carries a collective whatever the codec is, in two or three words; "" where it does not. The
        first of `tensors` is one of so many parts of what travels."""
        if ranks.size == 1:
            return "one rank"
        if any(tensor.dtype not in DTYPES for tensor in tensors):
            return "no such type"
        bytes_ = parts * tensors[0].numel() * tensors[0].element_size()
        return "" if self.needs_compression(bytes_) else "below min_bytes"

    def why_plain(self, codecs):
        """Why PyTorch carries a reduction with these codecs of hops; "" where it does not."""
        return "codec none" if set(codecs) <= {"none", None} and self.settings.transport == "torch" else ""

    def scale(self, op, ranks):
        """The factor that turns a sum into what FSDP2 asks for."""
        if op == dist.ReduceOp.SUM:
            return 1.0
        if op == dist.ReduceOp.AVG:
            return 1.0 / ranks.size
        raise UsageError(f"{self.name}: a reduction by {op} cannot be compressed: call "
                         "set_force_sum_reduction_for_comms(True) on the module after set_gradient_divide_factor()")

    def reduces_others(self, plan):
        """Whether error feedback keeps errors of other parameters than those of this reduction: FSDP2 reduces those
        that have a gradient, and others of the same size may take their place in the next step."""
        if self.settings.error_feedback is None:
            return False
        parameters = reduced_parameters()
        before = self._reduced.get(plan, parameters)
        self._reduced[plan] = parameters
        return parameters is None or before != parameters

    def run(self, plan, phase, codec, source, target, forget_errors=False, why=""):
        plan.run(source, target, source.device, forget_errors)
        self.count_call(phase, plan, codec, why)

    def count_call(self, phase, carrier, codec, why=""):
        """One call whose bytes its carrier, a SharedPlan or a Ring, knows."""
        key = phase, carrier, codec, why
        self._calls[key] = self._calls.get(key, 0) + 1

    def count(self, phase, algorithm, codec, sent):
        """A call whose bytes differ from those of others."""
        self._sent.setdefault((phase, algorithm, codec, ""), Sent()).add(sent)

    def count_plain(self, phase, part, ranks, why):
        """PyTorch's own collective. `why` it is not the library's."""
        self.count_call(phase, Ring(ring_bytes(ranks, part), ranks.inside_a_node), "none", why)

    def count_all_reduce(self, phase, tensor, ranks, why):
        """PyTorch's own all-reduce."""
        self.count_call(phase, Ring(all_reduce_ring_bytes(ranks, tensor), ranks.inside_a_node), "none", why)

    def count_saved(self, ranks, bytes_):
        """A call that the library carries, for which a rank of PyTorch's ring would send so many bytes."""
        self.saved.of_fsdp2 += ranks.ring_between_nodes(bytes_)

    def sent(self):
        """{(phase, algorithm, codec, why PyTorch carried it): Sent}"""
        found = {key: dataclasses.replace(sent) for key, sent in self._sent.items()}
        for (phase, carrier, codec, why), calls in self._calls.items():
            found.setdefault((phase, carrier.algorithm, codec, why), Sent()).add(carrier.sent(calls))
        return found


def require_contiguous(what, *tensors):
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise UsageError(f"{what}: memory that is not contiguous cannot be sent: leave the module out (exclude=)")


@dataclasses.dataclass
class GatherInBackward:
    """A gather of FSDP2 in backward: the number of the backward, and the event after the gather."""
    backward: int
    done: torch.cuda.Event


def current_backward():
    """A number for the backward that is under way; None outside of one."""
    task = torch._C._current_graph_task_id()
    return None if task == -1 else task


def part_of_step(group):
    """"forward" or "backward", as FSDP2 keeps it for the parameters that are gathered; "" where this version keeps it
    elsewhere."""
    state = getattr(group, "_training_state", None)
    return {"FORWARD": "forward ", "PRE_BACKWARD": "backward "}.get(getattr(state, "name", ""), "")


class CompressedAllGather(Hook):
    """Gathers weights. A gather inside a node is uncompressed unless settings.inside_node names a codec."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        self._done = None  # event after its last gather in backward, on GPUs

    def install(self):
        self.module.set_custom_all_gather(self)

    def is_installed(self):
        return self.param_group._all_gather_comm is self

    def allocate(self, size, *, dtype, device):
        """FSDP2 calls it on the stream that fills this memory. The stream waits for the last gather of an earlier
        backward: backward prefetches the weights of a module that it does not reach, such as a frozen block, and
        PyTorch 2.9 and 2.11 reuse the memory of such a gather before it has ended (torch.Stream.wait_event does not
        wait for a torch.cuda.Event there)."""
        last = self.plans.last_in_backward
        if last is not None and last.backward != current_backward():
            torch.cuda.current_stream(device).wait_event(last.done)
            self.plans.last_in_backward = None
        return super().allocate(size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        work = self.gather(output_tensor, input_tensor, group, async_op)
        if input_tensor.is_cuda and (backward := current_backward()) is not None:
            self._done = torch.cuda.current_stream(input_tensor.device).record_event(self._done)
            self.plans.last_in_backward = GatherInBackward(backward, self._done)
        return work

    def gather(self, output_tensor, input_tensor, group, async_op):
        """The gather that FSDP2 asks for; subclasses gather in other ways."""
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device)
        inside = ranks.inside_a_node
        codec = self.settings.inside_node if inside else self.settings.weights
        phase = part_of_step(self.param_group) + "gather"
        why = self.why_left(ranks, ranks.size, input_tensor)
        if not why and codec == "none" and (inside or self.settings.transport == "torch"):
            why = "inside a node" if inside else "codec none"
        if why:
            self.count_plain(phase, input_tensor, ranks, why)
            gather = of_pytorch("all_gather_single", "all_gather_into_tensor")
            return gather(output_tensor, input_tensor, group=ranks.group, async_op=async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        self.count_saved(ranks, ring_bytes(ranks, input_tensor))
        plan = self.plans.get(
            ("all_gather", ranks, input_tensor.numel(), input_tensor.dtype, codec),
            lambda: ranks.communicator.plan_all_gather(
                input_tensor.numel(), DTYPES[input_tensor.dtype], codec, seed=self.settings.seed,
                algorithm="auto" if inside else self.settings.all_gather_algorithm))
        self.run(plan, phase, codec, input_tensor, output_tensor)
        return None


class CompressedReduceScatter(Hook):
    """Sums gradients. FSDP2 divides: compress() has it ask for sums (set_force_sum_reduction_for_comms)."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        ranks = plans.communicators.ranks_of(shard_group(self.param_group), self.param_group.device)
        self.codecs = ranks.hop_codecs(*settings.gradients)
        self.leaves_all = bool(self.why_plain(self.codecs))  # to PyTorch

    def install(self):
        """Installs the hook. Reductions that are left to FSDP2 keep the operation that FSDP2 asks for."""
        before = self.param_group._reduce_scatter_comm
        forcing = isinstance(before, CompressedReduceScatter) and not before.leaves_all
        self.sums_before = before.sums_before if forcing else self.param_group.force_sum_reduction_for_comms
        self.module.set_custom_reduce_scatter(self)
        self.module.set_force_sum_reduction_for_comms(self.sums_before or not self.leaves_all)

    def is_installed(self):
        return self.param_group._reduce_scatter_comm is self

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        ranks = self.plans.communicators.ranks_of(group, input_tensor.device, has_reductions_apart(self.param_group, group))
        why = self.why_left(ranks, 1, input_tensor, output_tensor) or self.why_plain(self.codecs)
        if why:
            self.count_plain("reduce", output_tensor, ranks, why)
            reduce = of_pytorch("reduce_scatter_single", "reduce_scatter_tensor")
            return reduce(output_tensor, input_tensor, group=group, op=op, async_op=async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        self.count_saved(ranks, (ranks.size - 1) * output_tensor.numel() * input_tensor.element_size())
        scale, feedback = self.scale(op, ranks), self.settings.error_feedback
        codec, codec_between_nodes = self.codecs
        count, dtypes = output_tensor.numel(), (input_tensor.dtype, output_tensor.dtype)
        plan = self.plans.get(
            ("reduce_scatter", ranks, count, dtypes, scale, self.name if feedback else None),
            lambda: ranks.communicator.plan_reduce_scatter(
                count, DTYPES[dtypes[0]], codec, codec_between_nodes=codec_between_nodes,
                algorithm=self.settings.reduce_scatter_algorithm, output=DTYPES[dtypes[1]], scale=scale,
                seed=self.settings.seed, error_feedback=feedback))
        self.run(plan, "reduce", shown(self.codecs), input_tensor, output_tensor,
                 forget_errors=self.reduces_others(plan))
        return None
