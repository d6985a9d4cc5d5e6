"""Weight differences: every node keeps a copy of the weights, of which a rank holds the shards of its rail (the ranks
with its number in their nodes). After a change the owner of a shard sends along the rail how it differs from the copy,
and every rank of the rail adds that to its part. All other gathers stay inside the node, so that hpZ comes with it. What
encoding loses is part of the next difference."""

import torch
import torch.distributed as dist

from zeropp.torch.hooks import CompressedAllGather, of_pytorch, require_contiguous
from zeropp.torch.param_groups import only_group, parameters_of, shard_group
from zeropp.torch.shared_plan import DTYPES, KeptTensor

BITS = {2: torch.int16, 4: torch.int32}  # by bytes of an element


class Copy:
    """This rank's part of the node's copy of a module's weights: shape (nodes, elements of a shard). `sent`: the own
    parameters at the last exchange, which say whether they have changed since."""

    def __init__(self, shards, sent):
        self.shards, self.sent = KeptTensor(shards), sent

    def fits(self, part):
        return (self.shards.tensor.shape[1], self.shards.tensor.dtype) == (part.numel(), part.dtype)


class Agreement:
    """Ranks agree on which modules have changed weights, in one message for each forward and each backward of the roots
    among the modules, since the host waits for it. Contents decide: a weight may change without a trace. Gathers
    outside of both, such as those of unshard(), have an agreement of their own."""

    def __init__(self, roots):
        self.hooks = []
        self._forward_calls = self._depth = 0
        self._of, self._changed = None, {}  # the pass that was agreed on; {(hook, ranks): whether}, each used once
        self._handles = [handle for root in roots for handle in
                         (root.register_forward_pre_hook(self._begin, prepend=True),
                          root.register_forward_hook(self._end, always_call=True))]

    def close(self):
        for handle in self._handles:
            handle.remove()

    @torch.compiler.disable
    def _begin(self, *_):
        self._depth += 1
        self._forward_calls += 1

    @torch.compiler.disable
    def _end(self, *_):
        self._depth -= 1

    def changed(self, hook, ranks):
        backward = torch._C._current_graph_task_id()  # -1 outside of a backward
        now = ("backward", backward) if backward != -1 else ("forward", self._forward_calls) if self._depth else None
        if now is None:
            return self._ask([hook], ranks)[hook, ranks]
        if now != self._of:
            self._of, self._changed = now, {}
        if (hook, ranks) not in self._changed:
            self._changed.update(self._ask([each for each in self.hooks if ranks in each.copies], ranks))
        return self._changed.pop((hook, ranks))

    def _ask(self, hooks, ranks):
        flags = torch.stack([hook.has_changed(ranks) for hook in hooks]).to(torch.int32)
        dist.all_reduce(flags, group=ranks.group)
        hooks[0].count_all_reduce("check of weights", flags, ranks, "agreement of ranks")
        return {(hook, ranks): flag > 0 for hook, flag in zip(hooks, flags.tolist())}


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
        self.copies.clear()

    @torch.no_grad()
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        communicators = self.plans.communicators
        ranks = communicators.ranks_of(group, input_tensor.device)
        of_owners = ranks is communicators.ranks_of(shard_group(only_group(self.module)), input_tensor.device)
        if ranks.inside_a_node or not of_owners or self.why_left(ranks, ranks.size, input_tensor):
            return super().__call__(output_tensor, input_tensor, group, async_op)
        require_contiguous(self.name, output_tensor, input_tensor)
        rail = communicators.rail_of(ranks, input_tensor.device)
        copy = self.copies.get(ranks)
        if copy is None or not copy.fits(input_tensor):
            with torch.inference_mode(False):  # else the copy could not be changed outside of that mode
                copy = self.copies[ranks] = Copy(self.whole(rail, input_tensor), self.parameters(input_tensor.dtype))
        elif self.plans.agreement.changed(self, ranks):
            self.add_differences(rail, input_tensor, copy.shards.used_here())
            copy.sent = self.parameters(input_tensor.dtype)
            copy.shards.written_here()
        self.gather_inside(ranks, copy.shards.used_here(), output_tensor)
        return None

    def parameters(self, dtype):
        """The own shards, as they are sent."""
        return [each.to_local().detach().to(dtype, copy=True) for each in parameters_of(self.module)]

    def has_changed(self, ranks):
        """A flag on the device of the ranks, whether any bit of the own shards, as they are sent, is another."""
        copy = self.copies[ranks]
        shards = copy.shards.used_here()  # after what wrote both
        bits = BITS[shards.dtype.itemsize]
        now = [each.to_local().detach().to(shards.dtype) for each in parameters_of(self.module)]
        if [each.shape for each in now] != [each.shape for each in copy.sent]:
            return torch.ones((), dtype=torch.bool, device=shards.device)
        flags = [(a.view(bits) != b.view(bits)).any() for a, b in zip(now, copy.sent)]
        return torch.stack(flags).any().to(shards.device)

    def whole(self, rail, part):
        """The shards of the rail, sent whole in the codec of weights."""
        shards = torch.empty(rail.size, part.numel(), dtype=part.dtype, device=part.device)
        self.all_gather("exchange of weights", rail, self.settings.weights, part, shards.view(-1),
                        self.settings.transport == "torch")
        return shards

    def add_differences(self, rail, part, shards):
        """A value of the copy that is not finite counts as zero, so that the copy recovers with the weights. Without a
        codec the weights go themselves: they are no larger, and a sum may be rounded."""
        if self.settings.weight_differences == "none":
            self.all_gather("exchange of differences", rail, "none", part, shards.view(-1))
            return
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

    def all_gather(self, phase, ranks, codec, part, whole, by_pytorch=False):
        """`by_pytorch`: without a codec PyTorch carries it."""
        if by_pytorch and codec == "none":
            self.count_plain(phase, part, ranks, "inside a node" if ranks.inside_a_node else "codec none")
            of_pytorch("all_gather_single", "all_gather_into_tensor")(whole, part, group=ranks.group)
            return
        plan = self.plans.get(
            (phase, ranks, part.numel(), part.dtype, codec),
            lambda: ranks.communicator.plan_all_gather(part.numel(), DTYPES[part.dtype], codec,
                                                       seed=self.settings.seed))
        self.run(plan, phase, codec, part, whole)
