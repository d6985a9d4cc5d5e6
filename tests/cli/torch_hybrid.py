# ctest: name=torch_hybrid timeout=600 labels=cli,torch processors=2
"""Hybrid sharding and replicate(): the all-reduce of gradients over replicas goes through the library. Without a codec
FSDP2's bits stay; with one, gradients are within the codec's bound, all replicas hold the same bits, and the
counted bytes equal the closed form."""

import sys
import unittest

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import torch_models as models

FAST = {"min_bytes": 0, "node_size": 2}
WIDTH, LEVELS = 64, {"int8": 127, "int4": 7}  # the largest magnitude of a code


def linear(shape=(2, 2), reduce_dtype=None, seed=0):
    torch.manual_seed(seed)
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(ranks.DEVICE)
    if shape is not None:
        mesh = init_device_mesh(ranks.DEVICE, shape, mesh_dim_names=("replicas", "shards")[2 - len(shape):])
        fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(reduce_dtype=reduce_dtype))
    return model


def batch(rank, seed=1):
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(seed * 100 + rank)).to(ranks.DEVICE)


def gradient(model, seed=1):
    """Whole, of one backward."""
    model(batch(dist.get_rank(), seed)).pow(2).mean().backward()
    found = next(model.parameters()).grad.full_tensor()
    model.zero_grad()
    return found


def exact_gradients():
    """The gradients of each rank alone."""
    model, found = linear(None), []
    for rank in range(dist.get_world_size()):
        model(batch(rank)).pow(2).mean().backward()
        found.append(model.weight.grad.clone())
        model.zero_grad()
    return found


def train(model, steps, micro_steps, outer):
    """Losses. `outer`: micro-steps reduce inside shard groups, and the last one over the replicas too."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data, losses = torch.Generator().manual_seed(100 + dist.get_rank()), []
    for _ in range(steps):
        for micro in range(micro_steps):
            last = micro + 1 == micro_steps
            (model.set_requires_all_reduce if outer else model.set_requires_gradient_sync)(last)
            loss = model(torch.randn(8, models.WIDTH, generator=data).to(ranks.DEVICE)).float().pow(2).mean()
            (loss / micro_steps).backward()
        losses.append((loss.item(), float(nn.utils.clip_grad_norm_(model.parameters(), 0.5).full_tensor())))
        optimizer.step()
        optimizer.zero_grad()
    return losses


def without_codec():
    """Whether FSDP2's bits stay through 20 steps with accumulation, clipping and mixed precision."""
    import zeropp.torch

    found = {}
    for name, mixed, outer in (("fp32", False, True), ("bf16", True, True), ("gradient sync", True, False)):
        plain, compressed = (models.make(4, shape=(2, 2), mixed=mixed) for _ in range(2))
        zeropp.torch.compress(compressed, weights="none", gradients="none", **FAST)
        same = train(plain, 20, 2, outer) == train(compressed, 20, 2, outer)
        found[name] = same and torch.equal(models.weights(plain), models.weights(compressed))
    return found


def between_nodes_alone():
    """With a codec of gradients between nodes alone: the operations that FSDP2 asks of the reduction inside nodes."""
    import zeropp.torch

    model = zeropp.torch.compress(linear(), weights="none", gradients=("none", "int8:256"), **FAST)
    gradient(model)
    return {(row.phase, row.codec, row.why) for row in zeropp.torch.report(model)}


def bounded(shape, codec, settings):
    """The largest error of a gradient beside the codec's bound, and the report's rows of all-reduces."""
    import zeropp.torch

    model = zeropp.torch.compress(linear(shape), weights="none", gradients=("none", codec), **{**FAST, **settings})
    parts = exact_gradients()
    exact = sum(parts) / len(parts)
    error = (gradient(model) - exact).abs().max().item()
    # Each replica's mean over its shard group is encoded, and the sum of these once more, by half a step each.
    largest = sum(part.abs().max().item() for part in parts) / len(parts) + exact.abs().max().item()
    rows = [(row.calls, row.inside_nodes, row.between_nodes, row.as_predicted) for row in zeropp.torch.report(model)
            if row.phase == "all-reduce" and row.codec == codec]
    return error, 1.01 * largest / (2 * LEVELS[codec[:4]]), rows


def reduced_in(dtype):
    """Types of the gradient's error, where FSDP2 reduces in `dtype`."""
    import zeropp.torch

    plain, compressed = linear(reduce_dtype=dtype), linear(reduce_dtype=dtype)
    zeropp.torch.compress(compressed, weights="none", gradients=("none", "int8:32"), **FAST)
    exact, found = gradient(plain), gradient(compressed)
    return ((found - exact).abs().max() / exact.abs().max()).item()


def replicas_agree():
    """Whether ranks that hold the same shard have the same bits after training with two-hop int4 reductions, and
    whether the losses fall."""
    import zeropp.torch

    model = zeropp.torch.compress(models.make(4, shape=(2, 2)), weights="none", gradients="int4:128", **FAST)
    losses = models.train(model, dist.get_rank(), steps=8, micro_steps=2)
    mine = torch.cat([each.to_local().detach().flatten() for each in model.parameters()])
    other = mine.clone()
    group = init_device_mesh(ranks.DEVICE, (2, 2)).get_group(0)
    dist.broadcast(other, group_src=0, group=group)
    return torch.equal(mine, other), losses[-1] < losses[0]


def divide_factor():
    """Gradients of flat and of hybrid sharding under a divide factor: they are equal in FSDP2, and stay so."""
    import zeropp.torch

    found = []
    for shape in ((4,), (2, 2), (4, 1)):
        for settings in (None, ("none", "none"), ("none", "int8:32")):
            model = linear(shape)
            model.set_gradient_divide_factor(300.0)
            # gloo lacks the other operation; with it FSDP2 divides twice where one rank has the whole shard.
            model.set_force_sum_reduction_for_comms(shape != (4, 1))
            if settings:
                zeropp.torch.compress(model, weights="none", gradients=settings, **FAST)
            try:
                found.append(gradient(model))
            except RuntimeError as error:  # of an older PyTorch, which asks gloo for that operation here too
                assert shape == (4, 1) and "PREMUL_SUM" in str(error), error
                found.append(found[0])
    reference = found[0]
    return [((each - reference).abs().max() / reference.abs().max()).item() for each in found]


def feedback():
    """How far the mean of 16 equal gradients is from the exact one, without error feedback and with it."""
    import zeropp.torch

    parts, found = exact_gradients(), []
    exact = sum(parts) / len(parts)
    for given in (None, (0.0, 1024, False)):
        model = zeropp.torch.compress(linear(), weights="none", gradients=("none", "int4:128"), error_feedback=given,
                                      **FAST)
        mean = sum(gradient(model) for _ in range(16)) / 16
        found.append((mean - exact).abs().mean().item())
    return found


def settings_anew():
    """Codecs of the all-reduce after each of several calls of compress(), and plans that are left of the first; whether
    torch.distributed still knows the group."""
    import zeropp.torch
    from zeropp.torch.param_groups import only_group

    model, codecs, plans = linear(), [], []
    for gradients in (("none", "int8:256"), ("none", "int4:128"), "none"):
        zeropp.torch.compress(model, weights="none", gradients=gradients, **FAST)
        plans.append(model._zeropp_hooks[0].plans)
        gradient(model)
        codecs.append({row.codec for row in zeropp.torch.report(model) if row.phase == "all-reduce"})
    group = only_group(model).mesh_info.replicate_process_group
    mesh = init_device_mesh(ranks.DEVICE, (2, 2)).get_group(0)
    known = dist.get_process_group_ranks(group) == dist.get_process_group_ranks(mesh)
    return codecs, len(plans[0].made), known and dist.get_backend(group) == dist.get_backend(mesh)


def a_failed_reduction():
    """The error of a rank whose all-reduce is refused: zeropp's text, not the text of torch.distributed's log."""
    import zeropp.torch

    model = zeropp.torch.compress(linear(), weights="none", gradients=("none", "int8:256"), **FAST)

    def refuse(*_, **__):
        raise zeropp.library.UsageError("the very reason")

    model._zeropp_hooks[-1].run = refuse
    try:
        gradient(model)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def replicated():
    """replicate() with a codec: the gradient's error beside the bound, and rows."""
    import zeropp.torch
    from torch.distributed._composable.replicate_with_fsdp import replicate

    model = linear(None)
    try:
        replicate(model, mesh=init_device_mesh(ranks.DEVICE, (4,), mesh_dim_names=("replicas",)))
    except Exception:  # of an older PyTorch, which wants two dimensions
        model = linear(None)
        replicate(model, device_mesh=init_device_mesh(ranks.DEVICE, (4, 1), mesh_dim_names=("replicas", "shards")))
    zeropp.torch.compress(model, gradients="int8:256", **FAST)
    parts = exact_gradients()
    exact = sum(parts) / len(parts)
    error = (gradient(model) - exact).abs().max().item()
    hops = 2 * sum(part.abs().max().item() for part in parts) / len(parts) + exact.abs().max().item()
    return error, 1.01 * hops / (2 * LEVELS["int8"]), {(row.phase, row.codec, row.as_predicted)
                                                       for row in zeropp.torch.report(model)}


def all_of_them():
    found = {function.__name__: function() for function in
             (without_codec, between_nodes_alone, replicas_agree, divide_factor, feedback, settings_anew,
              a_failed_reduction, replicated)}
    found["bounds"] = {(shape, codec): bounded(shape, codec, settings) for codec in ("int8:256", "int4:128")
                       for shape, settings in (((2, 2), {}), ((4, 1), {"node_size": 1}))}
    found["dtypes"] = {str(dtype): reduced_in(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)}
    return found


def image_bytes(codec, count):
    """An integer for each element and an fp16 scale for each block, padded to 16 bytes."""
    kind, block = codec.split(":")
    bytes_ = count * int(kind[3]) // 8 + 2 * (count // int(block))
    return -(-bytes_ // 16) * 16


class Hybrid(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.of_ranks = ranks.run(4, 2, all_of_them, timeout=500)
        cls.found = cls.of_ranks[1]

    def test_without_a_codec_the_bits_are_those_of_fsdp2(self):
        for found in self.of_ranks:
            self.assertEqual(found["without_codec"], {"fp32": True, "bf16": True, "gradient sync": True})

    def test_gradients_are_within_the_bound_and_bytes_in_closed_form(self):
        for (shape, codec), (error, bound, rows) in self.found["bounds"].items():
            with self.subTest(shape=shape, codec=codec):
                self.assertGreater(error, 0)
                self.assertLess(error, bound)
                replicas, part = shape[0], WIDTH * WIDTH // shape[1]
                # In both halves a rank sends each other replica the image of one part of the shard.
                sent = 2 * (replicas - 1) * image_bytes(codec, part // replicas)
                self.assertEqual(rows, [(1, 0, sent, True)])

    def test_every_type_of_reduction(self):
        for dtype, error in self.found["dtypes"].items():
            self.assertLess(error, 0.03, dtype)

    def test_replicas_hold_the_same_bits(self):
        for found in self.of_ranks:
            self.assertEqual(found["replicas_agree"], (True, True))

    def test_inside_nodes_without_codec_nothing_changes(self):
        self.assertEqual(self.found["between_nodes_alone"],
                         {("forward gather", "none", "inside a node"), ("reduce", "none", "codec none"),
                          ("all-reduce", "int8:256", "")})

    def test_a_divide_factor_divides_once(self):
        plain, none, int8 = self.found["divide_factor"][::3], *(self.found["divide_factor"][k::3] for k in (1, 2))
        self.assertEqual(plain, none)
        self.assertLess(max(plain), 1e-5)
        self.assertLess(max(int8), 0.02)
        self.assertGreater(min(int8[:2]), 0)

    def test_error_feedback(self):
        without, with_feedback = self.found["feedback"]
        self.assertLess(with_feedback, without / 2)

    def test_settings_are_replaced(self):
        self.assertEqual(self.found["settings_anew"], ([{"int8:256"}, {"int4:128"}, {"none"}], 0, True))

    def test_an_error_keeps_its_words(self):
        self.assertEqual(self.found["a_failed_reduction"], "UsageError: the very reason")

    def test_replicate(self):
        error, bound, rows = self.found["replicated"]
        self.assertLess(error, bound)
        self.assertEqual(rows, {("all-reduce", "int8:256", True)})


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
