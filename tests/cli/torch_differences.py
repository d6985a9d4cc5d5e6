# ctest: name=torch_differences timeout=600 labels=cli,torch processors=2
"""weight_differences= and weights="exact": nodes keep copies of the weights, and only differences cross nodes, once
after each change. Exact ones keep FSDP2's bits; with int4 the copies are within the codec's bound, and equal on all
nodes. Any change of a weight is seen, however it is made."""

import gc
import re
import sys
import tempfile
import unittest
import warnings

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import torch_examples
import torch_models as models

EXACT = {"weights": "exact", "gradients": "none", "min_bytes": 0}
INT4 = {**EXACT, "weights": "none", "weight_differences": "int4:128"}
WIDTH = 64


def linear(dtype):
    """`dtype`: of what is gathered."""
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(ranks.DEVICE)
    fully_shard(model, mesh=init_device_mesh(ranks.DEVICE, (dist.get_world_size(),)),
                mp_policy=MixedPrecisionPolicy(param_dtype=dtype, output_dtype=torch.float32))
    return model


def seen(model):
    """The weights that a forward computes with, transposed."""
    with torch.no_grad():
        found = model(torch.eye(WIDTH, device=ranks.DEVICE)).clone()
    model.reshard()  # FSDP2 keeps the weights of a root after a forward
    return found


def truth(model, dtype=torch.float32):
    return model.weight.full_tensor().detach().t().to(dtype).float()


def calls(model, phase):
    import zeropp.torch

    return sum(row.calls for row in zeropp.torch.report(model) if row.phase == phase)


def exact(node_size):
    """Whether FSDP2's bits stay in training of several kinds, in 16 bits."""
    import zeropp.torch

    found = {}
    for name, kind in (("bf16", {}), ("odd", {"odd": True, "unused": True}),
                       ("kept after forward", {"reshard": False}), ("hpZ", {"reshard": 2}),
                       ("nested", {"nested": True}),
                       ("recomputed", {"recompute": True}), ("compiled", {"compile_blocks": True})):
        plain, compressed = (models.make(4, **kind) for _ in range(2))
        zeropp.torch.compress(compressed, node_size=node_size, **EXACT)
        losses = [models.train(each, dist.get_rank(), steps=4, micro_steps=2) for each in (plain, compressed)]
        found[name] = losses[0] == losses[1] and torch.equal(models.weights(plain), models.weights(compressed))
    return found


def fifty_steps():
    """Whether weights after 50 steps have the bits of FSDP2; and the bytes between nodes of an exchange beside the
    bytes of whole weights: fewer bits where the learning rate is small."""
    import zeropp.torch

    plain, compressed = (models.make(4) for _ in range(2))
    zeropp.torch.compress(compressed, node_size=2, **EXACT)
    losses = [models.train(each, dist.get_rank(), steps=50, micro_steps=2) for each in (plain, compressed)]
    rows = [row for row in zeropp.torch.report(compressed) if row.module == "blocks.0"]
    sent = {row.phase: row.between_nodes / row.calls for row in rows if row.phase.startswith("exchange")}
    equal = losses[0] == losses[1] and torch.equal(models.weights(plain), models.weights(compressed))
    return equal, sent["exchange of differences"] / sent["exchange of weights"]


def bounded(node_size):
    """How far what a forward computes with is from the weights, beside half a step of the largest difference, after
    each of some changes; and whether all ranks compute with the same bits."""
    import zeropp.torch

    model = zeropp.torch.compress(linear(torch.float32), node_size=node_size, **INT4)
    found, noise = [(seen(model) - truth(model)).abs().max().item()], torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        before = seen(model)
        with torch.no_grad():
            local = model.weight.to_local()
            local.add_(0.01 * torch.randn(local.shape, generator=noise).to(local.device))
        largest = (truth(model) - before).abs().max().item()
        now = seen(model)
        others = [torch.empty_like(now) for _ in range(4)]
        dist.all_gather(others, now)
        error = (now - truth(model)).abs().max().item()
        found.append((error <= 1.01 * largest / 14, all(torch.equal(now, each) for each in others), error > 0))
    return found


def sent(node_size, reshard):
    """Calls and bytes between nodes of each phase, of 3 steps of 4 micro-steps and one evaluation, and whether they are
    as predicted."""
    import zeropp.torch

    model = models.make(4, reshard=reshard)
    zeropp.torch.compress(model, node_size=node_size, **INT4)
    models.train(model, dist.get_rank(), steps=3, micro_steps=4)
    with torch.no_grad():
        models.batch_loss(model, dist.get_rank())
        models.batch_loss(model, dist.get_rank())
    rows = zeropp.torch.report(model)
    count = sum(each.numel() for each in model.blocks[0].parameters())
    return count, {row.phase: (row.calls, row.between_nodes, row.codec) for row in rows
                   if row.module == "blocks.0" and row.phase != "reduce"}, rows.as_predicted, \
        sum(row.calls for row in rows if row.phase == "check of weights")


def agreements():
    """Messages of 3 steps by which ranks agree, where what fully_shard() wrapped last has no parameters of its own, and
    where nothing wraps all blocks; after a forward that was interrupted too."""
    import zeropp.torch

    found = []
    for wrapped in (True, False):
        model = models.Model().to(ranks.DEVICE)
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)
        for part in (*model.blocks, model.head, *([model] if wrapped else [])):
            fully_shard(part, mesh=init_device_mesh(ranks.DEVICE, (dist.get_world_size(),)), mp_policy=policy)
        zeropp.torch.compress(model, node_size=2, **EXACT)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(model=model, optimizer=optimizer):
            models.batch_loss(model, dist.get_rank()).backward()
            optimizer.step()
            optimizer.zero_grad()

        def interrupted(*_):
            raise KeyboardInterrupt

        for _ in range(3):
            step()
        found.append(calls(model, "check of weights"))
        if not wrapped:
            handle = model.blocks[0].register_forward_pre_hook(interrupted)
            try:
                step()
            except KeyboardInterrupt:
                handle.remove()
            before = calls(model, "check of weights")
            for _ in range(3):
                step()
            found.append(calls(model, "check of weights") - before)
    return found


def changed_within_a_forward():
    """Messages of the next forward about weights that a forward changes after its first gather, like a momentum
    encoder, and about weights that change between a forward and its backward."""
    import zeropp.torch

    class Updating(models.Model):
        scale = 1.0

        def forward(self, x):
            x = self.blocks[0](x)
            with torch.no_grad():
                for each in self.blocks[1].parameters():
                    each.to_local().mul_(self.scale)
            return self.head(self.blocks[1](x))

    found = []
    for settings in (EXACT, INT4):
        torch.manual_seed(0)
        model = Updating().to(ranks.DEVICE)
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)
        for part in (*model.blocks, model):
            fully_shard(part, mesh=init_device_mesh(ranks.DEVICE, (dist.get_world_size(),)), mp_policy=policy)
        zeropp.torch.compress(model, node_size=2, **settings)
        models.batch_loss(model, dist.get_rank()).backward()
        model.scale = 2.0
        models.batch_loss(model, dist.get_rank()).backward()
        model.scale = 1.0
        found.append(said_in_forward(model))
        loss = models.batch_loss(model, dist.get_rank())
        with torch.no_grad():
            model.blocks[0].up.weight.to_local().mul_(2)
        loss.backward()
        found.append([line for line in str(zeropp.torch.report(model)).splitlines() if "old ones" in line][0])
        zeropp.torch.refresh(model)
        found.append(said_in_forward(model))
        found.append(said_in_forward(model))
    return found


def said_in_forward(model):
    """The error of a forward; "" where there is none."""
    try:
        models.batch_loss(model, dist.get_rank())
    except ValueError as error:
        return str(error)
    return ""


def interrupted():
    """Whether unshard() gathers the weights that changed after an interrupted forward."""
    import zeropp.torch

    model = models.make(4)
    zeropp.torch.compress(model, node_size=2, **EXACT)
    models.batch_loss(model, dist.get_rank()).backward()

    def stop(*_):
        raise KeyboardInterrupt

    handle = model.blocks[1].register_forward_pre_hook(stop)
    try:
        models.batch_loss(model, dist.get_rank())
    except KeyboardInterrupt:
        handle.remove()
    model.reshard()
    block = model.blocks[2]
    with torch.no_grad():
        block.up.weight.to_local().mul_(2)
    whole = block.up.weight.full_tensor()
    block.unshard()
    return torch.equal(block.up.weight, whole.bfloat16())


def changes():
    """After each kind of change: whether a forward computes with the changed weights, on every rank; and how many
    exchanges it took."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    import zeropp.torch

    model = zeropp.torch.compress(linear(torch.bfloat16), node_size=2, **EXACT)
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    seen(model)
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=folder[0])
    started = truth(model)

    def of_one_rank():
        if dist.get_rank() == 3:
            model.weight.to_local().data[0, 0] = 5.0

    def foreach():
        torch._foreach_mul_([model.weight.to_local()], 1.5)

    def loaded_in_place():
        state = {"model": get_model_state_dict(model)}
        checkpoint.load(state, checkpoint_id=folder[0])

    def set_state_dict():
        set_model_state_dict(model, {name: value * 2 for name, value in get_model_state_dict(model).items()})

    def by_data():
        model.weight.to_local().data.copy_(torch.full((WIDTH // 4, WIDTH), 0.25))

    def of_one_bit():
        if dist.get_rank() == 0:
            model.weight.to_local().view(torch.int32)[0, 0] ^= 1 << 16  # the last bit of what is sent

    def minus_zero():
        with torch.no_grad():
            model.weight.to_local().zero_()
            seen(model)
            model.weight.to_local().neg_()

    def not_finite():
        with torch.no_grad():
            model.weight.to_local()[0, 0] = float("nan")
            seen(model)
            model.weight.to_local()[0, 0] = 1.0

    found = {}
    for change in (of_one_rank, foreach, loaded_in_place, set_state_dict, by_data, of_one_bit, minus_zero, not_finite):
        with torch.no_grad():
            change()
        before = calls(model, "exchange of differences")
        same = torch.equal(seen(model), truth(model, torch.bfloat16))
        again = torch.equal(seen(model), truth(model, torch.bfloat16))
        found[change.__name__] = (same and again, calls(model, "exchange of differences") - before)
        if change is loaded_in_place:
            found["loaded"] = torch.equal(truth(model), started)
    return found


def of_any_size():
    """Whether a forward computes with weights that are orders of magnitude from those before, whose difference no float
    holds."""
    import zeropp.torch

    found = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        model = zeropp.torch.compress(linear(dtype), node_size=2, **EXACT)
        for value in (1.0, 1e-9, -3.0, 1e-6):
            with torch.no_grad():
                model.weight.to_local().fill_(value)
            found.append(torch.equal(seen(model), truth(model, dtype)))
    return found


def over_nodes_in_backward():
    """Whether gradients equal the gradients of FSDP2 after the weights of one rank have changed, before a forward and
    after it; with reshard_after_forward=2 and nodes of one rank."""
    import zeropp.torch

    found = []
    for compressed in (False, True):
        model = models.make(4, reshard=2)
        if compressed:
            zeropp.torch.compress(model, node_size=1, **EXACT)
        weights, gradients = list(model.parameters()), []

        def change(rank, weights=weights):
            if dist.get_rank() == rank:
                torch._foreach_mul_([each.to_local().detach() for each in weights], 1.5)

        for rank in range(4):
            change(rank)
            loss = models.batch_loss(model, dist.get_rank())
            change((rank + 1) % 4)
            loss.backward()
            gradients.append(torch.cat([each.grad.full_tensor().flatten() for each in weights]))
            model.zero_grad()
        found.append(torch.stack(gradients))
    return torch.equal(*found)


def after_inference_mode():
    """Whether a copy that was made in inference mode takes differences outside of it."""
    import zeropp.torch

    model = zeropp.torch.compress(linear(torch.bfloat16), node_size=2, **EXACT)
    seen(model)  # FSDP2 has memory of its own, that it makes here
    zeropp.torch.refresh(model)
    with torch.inference_mode():
        seen(model)
    with torch.no_grad():
        model.weight.to_local().mul_(2)
    return torch.equal(seen(model), truth(model, torch.bfloat16))


def warned_of_wide_weights():
    """The warnings where weights are gathered in 16 bits, and in 32."""
    import zeropp.torch

    found = []
    for dtype in (torch.bfloat16, None):
        model = zeropp.torch.compress(linear(dtype), node_size=2, **EXACT)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            seen(model)
        found.append([str(each.message) for each in said if "zeropp" in str(each.message)])
    return found


def models_that_end():
    """The number of process groups that remain after models were collected as garbage."""
    import zeropp.torch

    numbers = []
    for _ in range(3):
        model = zeropp.torch.compress(models.make(4), node_size=2, **INT4)
        models.train(model, dist.get_rank(), steps=1)
        del model
        gc.collect()
        numbers.append(len(dist.distributed_c10d._world.pg_map))
    return numbers[-1] - numbers[0]


def outside_of_forward():
    """Weights of a block and of the model, gathered by unshard() after changes between the calls."""
    import zeropp.torch

    model = models.make(4)
    zeropp.torch.compress(model, node_size=2, **EXACT)
    models.batch_loss(model, dist.get_rank())
    found = []
    for scale in (2.0, 3.0):
        for block in model.blocks:
            with torch.no_grad():
                block.up.weight.to_local().mul_(scale)
            whole = block.up.weight.full_tensor()
            block.unshard()
            found.append(torch.equal(block.up.weight, whole.bfloat16()))
            block.reshard()
    return found


def updates_in_backward():
    """An optimizer that steps as soon as a gradient is there: whether FSDP2's bits stay."""
    import zeropp.torch

    found = []
    for compressed in (False, True):
        model = models.make(4)
        if compressed:
            zeropp.torch.compress(model, node_size=2, **EXACT)
        for each in model.parameters():
            optimizer = torch.optim.SGD([each], lr=0.1)

            def step(parameter, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            each.register_post_accumulate_grad_hook(step)
        losses = []
        for _ in range(4):
            loss = models.batch_loss(model, dist.get_rank())
            loss.backward()
            losses.append(loss.item())
        found.append((losses, models.weights(model)))
    return found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])


def with_int4():
    """Losses of plain FSDP2 and with differences in int4."""
    import zeropp.torch

    plain, compressed = (models.make(4) for _ in range(2))
    zeropp.torch.compress(compressed, weights="int8:256", gradients="none", weight_differences="int4:128", min_bytes=0,
                          node_size=2)
    return [models.train(each, dist.get_rank(), steps=12)[-1] for each in (plain, compressed)]


def refreshed_and_replaced():
    """Exchanges of whole weights after refresh(), and process groups, hooks and plans that are left when other settings
    replace these."""
    import zeropp.torch

    model = models.make(4)
    groups = len(dist.distributed_c10d._world.pg_map)
    hooks = len(model._forward_hooks), len(model._forward_pre_hooks)
    zeropp.torch.compress(model, node_size=2, **INT4)
    models.train(model, dist.get_rank(), steps=2)
    zeropp.torch.refresh(model)
    models.train(model, dist.get_rank(), steps=1)
    whole = calls(model.blocks[0], "exchange of weights")
    for _ in range(3):
        zeropp.torch.compress(model, node_size=2, **INT4)
        models.train(model, dist.get_rank(), steps=1)
    zeropp.torch.compress(model, node_size=2)
    models.train(model, dist.get_rank(), steps=1)
    left = (len(dist.distributed_c10d._world.pg_map) - groups,
            (len(model._forward_hooks), len(model._forward_pre_hooks)) == hooks)
    return whole, left


def refused():
    """The refusals of settings that cannot work."""
    import zeropp.torch

    found = []
    for settings in ({"weight_differences": "int4:128", "frozen": "int8:256"}, {"weight_differences": "int9"},
                     {"weight_differences": "int4:128", "node_size": 4}, {"weight_differences": "none"},
                     {"weights": "exact", "weight_differences": "int4:128"}, {"weights": "exact", "node_size": 4},
                     {"weights": "exact", "frozen": "int8:256"}, {"weights": "exact", "inside_node": "int8:256"},
                     {"weights": "EXACT"}, {"gradients": "exact"}):
        model = models.make(4, frozen=True, adapters=True)
        try:
            zeropp.torch.compress(model, **{"node_size": 2, **settings})
            found.append("")
        except ValueError as error:
            found.append(str(error))
    return found


def all_of_them():
    return {"exact": {size: exact(size) for size in (2, 1)}, "bounded": {size: bounded(size) for size in (2, 1)},
            "sent": {(size, reshard): sent(size, reshard) for size, reshard in ((2, True), (1, True), (2, 2))},
            **{function.__name__: function() for function in
               (agreements, changed_within_a_forward, interrupted, changes, fifty_steps, of_any_size,
                over_nodes_in_backward, after_inference_mode, warned_of_wide_weights, models_that_end,
                outside_of_forward, updates_in_backward, with_int4, refreshed_and_replaced, refused)}}


class Differences(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.of_ranks = ranks.run(4, 2, all_of_them, timeout=550)
        cls.found = cls.of_ranks[1]

    def test_without_loss_the_bits_are_those_of_fsdp2(self):
        for found in self.of_ranks:
            for size, kinds in found["exact"].items():
                self.assertEqual(kinds, dict.fromkeys(kinds, True), size)
            self.assertTrue(found["updates_in_backward"])
            equal, share = found["fifty_steps"]
            self.assertTrue(equal)
            self.assertLess(share, 0.8)  # at a learning rate of 0.01

    def test_copies_are_within_the_bound_and_equal(self):
        for found in self.of_ranks:
            for size, (first, *later) in found["bounded"].items():
                self.assertEqual(first, 0, size)  # whole weights, without codec
                self.assertEqual(later, [(True, True, True)] * 4, size)

    def test_micro_steps_and_evaluations_send_nothing_between_nodes(self):
        for (size, reshard), (count, phases, as_predicted, checks) in self.found["sent"].items():
            with self.subTest(size=size, reshard=reshard):
                self.assertTrue(as_predicted)
                nodes, part = 4 // size, count // 4
                blocks = -(-part // 128)
                image = -(-blocks * (64 + 2) // 16) * 16
                # The first forward sends whole weights; each of 3 updates is followed by one exchange.
                self.assertEqual(phases["exchange of weights"], (1, (nodes - 1) * 2 * part, "none"))
                self.assertEqual(phases["exchange of differences"], (3, 3 * (nodes - 1) * image, "int4:128"))
                others = {phase: row[1] for phase, row in phases.items() if not phase.startswith("exchange")}
                self.assertEqual({phase for phase, bytes_ in others.items() if bytes_},
                                 {"check of weights"} & {*others})
                # A forward and a backward have one agreement each, of all modules.
                self.assertLessEqual(checks, 2 * (3 * 4 + 2))

    def test_ranks_agree_once_in_a_forward(self):
        # The first forward sends whole weights.
        self.assertEqual(self.found["agreements"], [2, 2, 3])

    def test_every_change_is_seen(self):
        for found in self.of_ranks:
            self.assertTrue(found["changes"].pop("loaded"))
            self.assertEqual(found["changes"], dict.fromkeys(found["changes"], (True, 1)))
            self.assertEqual(found["of_any_size"], [True] * 12)
            self.assertTrue(found["over_nodes_in_backward"])
            self.assertTrue(found["after_inference_mode"])
            self.assertEqual(found["outside_of_forward"], [True] * 6)

    def test_weights_that_change_within_a_forward_are_an_error(self):
        for found in self.of_ranks:
            self.assertEqual([said.split(":")[0] for said in found["changed_within_a_forward"]],
                             ["module blocks.1", "zeropp.torch", "module blocks.0", ""] * 2)
            self.assertTrue(found["interrupted"])

    def test_training_with_int4(self):
        plain, compressed = self.found["with_int4"]
        self.assertLess(abs(compressed - plain), 0.1 * plain)

    @unittest.skipIf(ranks.DEVICE != "cpu", "the benchmark runs on CPUs here")
    def test_the_benchmark_of_updates_takes_the_bits_of_the_closed_form(self):
        script = torch_examples.SOURCE / "tests" / "bench" / "torch_weight_sync.py"
        said = torch_examples.run(script, "--mib", "0.5", "--samples", "2", size=2)
        found = re.findall(r"^(broadcast|all_gather) +([0-9.]+) +([0-9.]+) +([0-9.]+) ", said, re.M)
        self.assertEqual(len(found), 8, said)
        for collective, rate, bits, expected in found:
            with self.subTest(collective=collective, rate=rate):
                self.assertAlmostEqual(float(bits), float(expected), delta=0.05)

    def test_what_is_kept_ends(self):
        self.assertEqual(self.found["refreshed_and_replaced"], (2, (0, True)))
        self.assertEqual(self.found["models_that_end"], 0)

    def test_warns_where_exact_weights_have_32_bits(self):
        narrow, wide = self.found["warned_of_wide_weights"]
        self.assertEqual((narrow, len(wide)), ([], 1))
        self.assertIn("in 32 bits", wide[0])
        self.assertIn("param_dtype=torch.bfloat16", wide[0])

    def test_refused(self):
        both, unknown, inside, none, twice, exact_inside, exact_frozen, *lossy = self.found["refused"]
        self.assertIn("leave frozen= out", both)
        self.assertIn('weight_differences=\'int9\'', unknown)
        self.assertIn("no module shards its weights over several nodes", inside)
        self.assertIn("such as node_size=2", inside)
        self.assertIn('weights="exact"', none)
        self.assertIn("leave weight_differences='int4:128' out", twice)
        self.assertIn("weights='exact' has no effect", exact_inside)
        self.assertIn("leave frozen= out", exact_frozen)
        self.assertIn("inside_node='int8:256' would lose", lossy[0])
        self.assertIn('weights="exact"', lossy[1])
        self.assertIn("gradients='exact'", lossy[2])


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
