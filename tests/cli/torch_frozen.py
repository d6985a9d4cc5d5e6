# ctest: name=torch_frozen timeout=600 labels=cli,torch processors=2
"""A replica of frozen weights is never stale: however weights change, also on one rank alone, results equal plain
FSDP2, and unchanged weights are not gathered again. A group has a replica while none of its parameters is trained and
if it is large enough; groups without a replica are counted and named."""

import shutil
import sys
import tempfile
import unittest
import warnings

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.fsdp import fully_shard

WIDTH = 64
SETTINGS = {"weights": "none", "gradients": "none", "min_bytes": 0, "node_size": 2}


def one_layer():
    """A model of one linear layer, frozen, whose outputs are WIDTH times the value of its equal weights."""
    import zeropp.torch

    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH, bias=False)).requires_grad_(False).to(ranks.DEVICE)
    torch.nn.init.ones_(model[0].weight)
    fully_shard(model[0])
    fully_shard(model)
    return zeropp.torch.compress(model, frozen="bf16", **SETTINGS)


@torch.no_grad()
def output(model):
    return (model(torch.ones(1, WIDTH, device=ranks.DEVICE)) / WIDTH)[0].tolist()


def calls(model, phase):
    import zeropp.torch

    return sum(row.calls for row in zeropp.torch.report(model) if row.phase == phase)


def load_in_place(model):
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    checkpoint.save({"0.weight": model[0].weight * 2}, checkpoint_id=folder[0])
    checkpoint.load(model.state_dict(), checkpoint_id=folder[0])
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])


def replace(model):
    """FSDP2 takes a new parameter where it is told to look."""
    from zeropp.torch.param_groups import param_groups

    model[0].weight = torch.nn.Parameter(model[0].weight.detach() * 2, requires_grad=False)
    for group in param_groups(model[0]):
        for each in group.fsdp_params:
            each.reset_sharded_param()


def with_numpy(model):
    model[0].weight.to_local().detach().cpu().numpy()[:] *= 2


WAYS = {
    "copy_": lambda model: model[0].weight.copy_(model[0].weight * 2),
    "load in place": load_in_place,
    "foreach": lambda model: torch._foreach_mul_([model[0].weight], 2),
    "foreach of the shard": lambda model: torch._foreach_mul_([model[0].weight.to_local()], 2),
    ".data": lambda model: model[0].weight.data.mul_(2),
    ".data of the shard": lambda model: model[0].weight.to_local().data.mul_(2),
    "the storage": lambda model: torch.tensor([], device=ranks.DEVICE).set_(
        model[0].weight.to_local().untyped_storage()).mul_(2),
    "another parameter": replace,
}
if ranks.DEVICE == "cpu":
    WAYS["numpy"] = with_numpy


def updates():
    """Outputs after a change by each way; and how often all gathered, in two forwards before it and two after it."""
    found = {}
    for name, change in WAYS.items():
        model = one_layer()
        before = [output(model), output(model)]
        with torch.no_grad():
            change(model)
        after = [output(model), output(model)]
        found[name] = ([set(each) for each in (*before, *after)], calls(model, "gather of a frozen replica"))
    return found


def on_one_rank():
    """Outputs where the last rank alone changes its shard, out of sight of version counters, again and again."""
    model, found = one_layer(), []
    for _ in range(3):
        if dist.get_rank() == dist.get_world_size() - 1:
            model[0].weight.to_local().data.mul_(2)
        found.append([output(model), output(model)])
    return found, calls(model, "gather of a frozen replica")


def refreshed_on_one_rank():
    import zeropp.torch

    model = one_layer()
    output(model)
    if dist.get_rank() == 0:
        zeropp.torch.refresh(model)
    return output(model)


def trained_later():
    """Losses of a model that is frozen at first and trained later, and of plain FSDP2; and which replicas it has."""
    import zeropp.torch

    found = []
    for compressed in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))).to(ranks.DEVICE)
        model.requires_grad_(False)
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        if compressed:
            zeropp.torch.compress(model, frozen="none", **SETTINGS)
        losses = []
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1)).to(ranks.DEVICE)
        for step in range(6):
            if step == 2:
                model[0].requires_grad_(True)
            if step == 4:  # and the other way round
                model[0].requires_grad_(False)
                model[1].requires_grad_(True)
            optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad] or
                                        [torch.nn.Parameter(torch.zeros(1))], lr=1.0)
            loss = model(x).pow(2).mean()
            if loss.requires_grad:
                loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found.append(losses)
    kept = [len(layer._zeropp_hooks[0].replicas) for layer in model]
    return *found, kept


def left_to_pytorch():
    """Rows of frozen groups whose type has no codec, and of groups that are too small for a replica."""
    import zeropp.torch

    class Doubles(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x.double()).float()

    model = torch.nn.Sequential(Doubles(WIDTH, WIDTH, bias=False, dtype=torch.float64).requires_grad_(False),
                                torch.nn.Linear(WIDTH, WIDTH).requires_grad_(False),
                                torch.nn.Linear(WIDTH, 8)).to(ranks.DEVICE)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    zeropp.torch.compress(model, frozen="int8:64", node_size=2, min_bytes=17000)
    model(torch.ones(2, WIDTH, device=ranks.DEVICE)).sum().backward()
    return {(row.module, row.phase, row.why, row.judged, row.calls, row.between_nodes)
            for row in zeropp.torch.report(model) if row.module in ("0", "1")}


def adapters_in_the_group():
    """Messages if adapters share the group of the block, and if they have their own group."""
    import zeropp.torch

    said = []
    for apart in (False, True):
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)).to(ranks.DEVICE)
        block = torch.nn.Sequential(model, torch.nn.Linear(WIDTH, WIDTH).to(ranks.DEVICE)).requires_grad_(False)
        model[1].requires_grad_(True)
        if apart:
            fully_shard(model[1])
        fully_shard(model)
        fully_shard(block)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            zeropp.torch.compress(block, frozen="int8:64", **SETTINGS)
        said.append([str(each.message) for each in caught if "zeropp.torch" in str(each.message)])
    return said


def all_of_them():
    return {function.__name__: function() for function in (updates, on_one_rank, refreshed_on_one_rank, trained_later,
                                                           left_to_pytorch, adapters_in_the_group)}


class Frozen(unittest.TestCase):
    def test_a_replica_is_never_stale(self):
        for found in ranks.run(4, 2, all_of_them, timeout=500):
            for way, (outputs, gathers) in found["updates"].items():
                with self.subTest(way):
                    self.assertEqual([sorted(each) for each in outputs], [[1.0], [1.0], [2.0], [2.0]])
                    self.assertEqual(gathers, 2, "once at first and once for the change")

            outputs, gathers = found["on_one_rank"]
            rows = WIDTH * 3 // 4
            for times, both in enumerate(outputs, start=1):
                for each in both:
                    self.assertEqual(each, [1.0] * rows + [2.0 ** times] * (WIDTH - rows))
            self.assertEqual(gathers, 3)
            self.assertEqual(found["refreshed_on_one_rank"], [1.0] * WIDTH)

            plain, compressed, kept = found["trained_later"]
            self.assertEqual(plain, compressed)
            self.assertEqual(len(set(plain)), 4, "training changes the losses of the last three steps")
            self.assertEqual(kept, [1, 0], "a replica of what is frozen now, none of what is trained")

            rows = found["left_to_pytorch"]
            sent = 3 * WIDTH * WIDTH // 4
            self.assertIn(("0", "forward gather", "no such type", "modelled", 1, sent * 8), rows)
            self.assertIn(("1", "forward gather", "below min_bytes", "modelled", 1, sent * 4 + 3 * WIDTH), rows)

            together, apart = found["adapters_in_the_group"]
            self.assertEqual(len(together), 1)
            for words in ("frozen='int8:64'", "50% of the frozen parameters get no replica", "(0)", "fully_shard()"):
                self.assertIn(words, together[0])
            self.assertEqual(apart, [])


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
