"""Weight differences: every node keeps a copy of the weights. A rank holds the shards of its rail in that copy; the
rail is the ranks with its number in their nodes. After a change the owner of a shard sends the difference from the copy
along the rail, and every rank of the rail adds it to its part. All other gathers stay inside the node, as with hpZ. The
loss of an encoding is part of the next difference; exact differences lose nothing."""

import sys
import warnings

import torch
import torch.distributed as dist

from zeropp.collectives import ExactDifferences
from zeropp.library import EXACT_WIDTHS, Device, UsageError
from zeropp.torch.hooks import CompressedAllGather, current_backward, of_pytorch, require_contiguous, ring_bytes
from zeropp.torch.param_groups import has_extension, part_to_gather, shard_group
from zeropp.torch.process_groups import stream_of
from zeropp.torch.shared_plan import DTYPES, KeptTensor, Sent

BITS = {2: torch.int16, 4: torch.int32}  # by bytes of an element
STALE = ("weights changed after the ranks had agreed on them in the last forward, which computed with the old ones, or "
         "its backward did")


class Copy:
    """This rank's part of the node's copy of a module's weights: shape (nodes, elements of a shard). `sent`: the own
    part at the last exchange, which says whether it has changed since; None where the copy itself says it. `stale`:
    how many gathers since the last agreement found other weights than those that were sent. `outdated`: the next
    exchange sends whole weights."""

    def __init__(self, shards, sent):
        self.shards, self.sent = KeptTensor(shards), sent
        self.stale = torch.zeros(1, dtype=torch.int64, device=shards.device)
        self.outdated = False

    def fits(self, part):
        return (self.shards.tensor.shape[1], self.shards.tensor.dtype) == (part.numel(), part.dtype)


def call_of_module():
    """The frame in which PyTorch calls the module whose hook this is; None where it is compiled."""
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.endswith("torch/nn/modules/module.py"):
        frame = frame.f_back
    return frame


def has_ended(frame):
    """Whether the frame is no longer executed."""
    try:
        if frame is not None:
            frame.clear()
    except RuntimeError:  # it cannot be cleared
        return False
    return frame is not None


class Agreement:
    """Ranks agree on which modules have changed weights, and how much, in one message for each forward of the model,
    since the host waits for it. Contents decide: a weight may change without a trace. Backward takes the weights of the
    forward before. Gathers outside of both, such as those of unshard(), have an agreement of their own. `modules`: those
    whose forward is one. The next agreement finds weights that changed after an agreement and before their last gather,
    and raises an error."""

    def __init__(self, modules):
        self.hooks = []
        self._forward_calls, self._inside = 0, []  # forwards that are under way: (module, frame), the outermost first
        self._of, self._agreed = None, {}  # the forward that was agreed on; {(hook, ranks): numbers}, each used once
        self._handles = [handle for module in modules for handle in
                         (module.register_forward_pre_hook(self._begin, prepend=True),
                          module.register_forward_hook(self._end, always_call=True))]

    def close(self):
        for handle in self._handles:
            handle.remove()

    @torch.compiler.disable
    def _begin(self, module, _):
        if not self._is_inside():
            self._forward_calls += 1
        self._inside.append((module, call_of_module()))

    @torch.compiler.disable
    def _end(self, module, *_):
        while self._is_inside() and self._inside.pop()[0] is not module:
            pass

    def _is_inside(self):
        """PyTorch calls no hook after a forward that KeyboardInterrupt ended."""
        while self._inside and has_ended(self._inside[-1][1]):
            self._inside.pop()
        return bool(self._inside)

    def changes(self, hook, ranks):
        """The largest numbers of all ranks that the hook's changes() has on one; zeros where no weight has changed."""
        if not self._is_inside():
            return self._ask([hook], ranks)[hook, ranks]
        if self._forward_calls != self._of:
            self._of, self._agreed = self._forward_calls, {}
        if (hook, ranks) not in self._agreed:
            self._agreed.update(self._ask([each for each in self.hooks if ranks in each.copies], ranks))
        return self._agreed.pop((hook, ranks))

    def _ask(self, hooks, ranks):
        numbers = torch.stack([torch.cat([hook.changes(ranks), hook.copies[ranks].stale]) for hook in hooks])
        dist.all_reduce(numbers, dist.ReduceOp.MAX, group=ranks.group)
        hooks[0].count_all_reduce("check of weights", numbers, ranks, "agreement of ranks")
        for hook in hooks:
            hook.copies[ranks].stale.zero_()
        agreed = {}
        for hook, (*found, stale) in zip(hooks, numbers.tolist()):  # the host waits here
            agreed[hook, ranks] = found
            if stale:
                raise UsageError(f"module {hook.name or '(model)'}: {STALE}: discard that step, and change weights "
                                 "before a forward, or leave the module to PyTorch (exclude=)")
        return agreed


class DifferenceAllGather(CompressedAllGather):
    """Gathers over several nodes from the node's copy, which it brings up to date before. Inside a node it gathers as
    CompressedAllGather does, and so it does where reshard_after_forward=N names ranks of several nodes: their parts
    have other owners, and are those of the last forward, whatever has changed since."""

    def __init__(self, name, module, settings, plans, needs_compression):
        super().__init__(name, module, settings, plans, needs_compression)
        self.copies = {}  # by RankSet

    def install(self):
        super().install()
        self.plans.agreement.hooks.append(self)

    def leave(self):
        self.plans.agreement.hooks.remove(self)
        super().leave()

    def forget(self):
        for copy in self.copies.values():
            copy.outdated = True

    def is_stale(self):
        return any(copy.stale.item() for copy in self.copies.values())

    @torch.no_grad()
    def gather(self, output_tensor, input_tensor, group, async_op):
        communicators = self.plans.communicators
        ranks = communicators.ranks_of(group, input_tensor.device)
        of_owners = ranks is communicators.ranks_of(shard_group(self.param_group), input_tensor.device)
        if (ranks.inside_a_node or not of_owners or self.why_left(ranks, ranks.size, input_tensor)
                or has_extension(self.module)):
            return super().gather(output_tensor, input_tensor, group, async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        self.count_saved(ranks, ring_bytes(ranks, input_tensor))
        rail = communicators.rail_of(ranks, input_tensor.device)
        copy = self.copies.get(ranks)
        if copy is not None and copy.outdated:
            self.plans.agreement.changes(self, ranks)  # an error of the last step is not forgotten
            copy = None
        if copy is None or not copy.fits(input_tensor):
            with torch.inference_mode(False):  # else the copy could not be changed outside of that mode
                copy = self.copies[ranks] = Copy(self.whole(rail, input_tensor), self.kept(input_tensor))
        elif current_backward() is None and any(changes := self.plans.agreement.changes(self, ranks)):
            self.add_differences(rail, input_tensor, copy.shards.used_here(), changes)
            copy.sent = self.kept(input_tensor)
        shards = copy.shards.used_here()
        bits = BITS[shards.dtype.itemsize]
        sent = shards[rail.group.rank()] if copy.sent is None else copy.sent
        copy.stale += (input_tensor.view(bits) != sent.view(bits)).any()
        copy.shards.written_here()  # and what the copy has beside its shards
        self.gather_inside(ranks, shards, output_tensor)
        return None

    def kept(self, part):
        return part.clone()

    def changes(self, ranks):
        """One number on the device of the ranks: 1 where any bit of the own part is another than it was sent."""
        copy = self.copies[ranks]
        bits = BITS[copy.shards.used_here().dtype.itemsize]  # after what wrote both
        part = part_to_gather(self.module, copy.sent)
        if part.numel() != copy.sent.numel():
            return torch.ones(1, dtype=torch.int64, device=part.device)
        return (part.view(bits) != copy.sent.view(bits)).any().view(1).to(torch.int64)

    def whole(self, rail, part):
        """The shards of the rail, sent whole in the codec of weights."""
        shards = torch.empty(rail.size, part.numel(), dtype=part.dtype, device=part.device)
        self.all_gather("exchange of weights", rail, self.settings.weights, part, shards.view(-1),
                        self.settings.transport == "torch")
        return shards

    def add_differences(self, rail, part, shards, changes):
        """A value of the copy that is not finite counts as zero, so that the copy recovers with the weights."""
        kept = torch.nan_to_num(shards, 0.0, 0.0, 0.0)
        difference = part.float() - kept[rail.group.rank()]
        sums = torch.empty(shards.shape, dtype=torch.float32, device=part.device)
        self.all_gather("exchange of differences", rail, self.settings.weight_differences, difference, sums.view(-1))
        shards.copy_(sums.add_(kept))

    def gather_inside(self, ranks, shards, output):
        """The weights of all ranks, ordered by node and rank, from the parts that the ranks of a node hold."""
        nodes, count = shards.shape
        if ranks.node_size == 1:
            output.view(nodes, count).copy_(shards)
            return
        node = self.plans.communicators.node_of(ranks, shards.device)
        parts = torch.empty(ranks.node_size, nodes, count, dtype=shards.dtype, device=shards.device)
        self.all_gather("gather inside a node", node, self.settings.inside_node, shards.view(-1), parts.view(-1), True)
        output.view(nodes, ranks.node_size, count).copy_(parts.transpose(0, 1))

    def all_gather(self, phase, ranks, codec, part, whole, by_pytorch=False, why=""):
        """`by_pytorch`: without a codec PyTorch carries it. `why` there is none."""
        if by_pytorch and codec == "none":
            self.count_plain(phase, part, ranks, "inside a node" if ranks.inside_a_node else "codec none")
            of_pytorch("all_gather_single", "all_gather_into_tensor")(whole, part, group=ranks.group)
            return
        plan = self.plans.get(
            (phase, ranks, part.numel(), part.dtype, codec),
            lambda: ranks.communicator.plan_all_gather(part.numel(), DTYPES[part.dtype], codec,
                                                       seed=self.settings.seed))
        self.run(plan, phase, codec, part, whole, why=why)


class ExactAllGather(DifferenceAllGather):
    """Differences of 16-bit patterns, in as few bits as all of them take (kernels/codec/exact.hpp): the copy has the
    bits of the weights. Its changes() count the differences that do not fit each width, so that ranks agree on one
    size. A difference that arises after the agreement and has no room is sent next time. Weights of 32 bits are sent
    unchanged."""

    def kept(self, part):
        return None if part.itemsize == 2 else super().kept(part)

    def whole(self, rail, part):
        if part.itemsize != 2:
            warnings.warn(f'zeropp.torch: weights="exact": weights gathered in {8 * part.itemsize} bits are sent whole '
                          "after each change: give fully_shard() "
                          "mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)", stacklevel=2)
        return super().whole(rail, part)

    def changes(self, ranks):
        shards = self.copies[ranks].shards.used_here()
        if shards.dtype.itemsize != 2:
            return super().changes(ranks).expand(EXACT_WIDTHS)
        part = part_to_gather(self.module, shards)
        if part.numel() != shards.shape[1]:
            return torch.full((EXACT_WIDTHS,), shards.shape[1], device=shards.device)
        return self.escapes(part, self.own(ranks, shards))[2]

    def own(self, ranks, shards):
        return shards[self.plans.communicators.rail_of(ranks, shards.device).group.rank()]

    @staticmethod
    def escapes(part, own):
        """The differences, counts for their encoding, and for each width the number of differences that do not fit."""
        differences = ExactDifferences(DTYPES[part.dtype], Device.CUDA if part.is_cuda else Device.HOST, part.numel())
        counts = torch.empty(differences.count_bytes, dtype=torch.uint8, device=part.device)
        escapes = torch.empty(EXACT_WIDTHS, dtype=torch.int64, device=part.device)
        differences.count(part.data_ptr(), own.data_ptr(), counts.data_ptr(), escapes.data_ptr(), stream_of(part.device))
        return differences, counts, escapes

    def add_differences(self, rail, part, shards, changes):
        if shards.dtype.itemsize != 2:
            self.all_gather("exchange of differences", rail, "none", part, shards.view(-1), why="32 bits")
            return
        own, stream = shards[rail.group.rank()], stream_of(part.device)
        differences, counts, _ = self.escapes(part, own)
        shape = differences.shape(changes)
        images = torch.empty(rail.size, shape.bytes, dtype=torch.uint8, device=part.device)
        image = images[rail.group.rank()]
        differences.encode(part.data_ptr(), own.data_ptr(), counts.data_ptr(), shape, image.data_ptr(), stream)
        sent = rail.communicator.all_gather_bytes(images.data_ptr(), shape.bytes, stream)
        differences.decode(images.data_ptr(), rail.size, shape, shards.data_ptr(), stream)
        self.count("exchange of differences", "direct", "exact", Sent(1, *sent, 0, (rail.size - 1) * shape.bytes))
