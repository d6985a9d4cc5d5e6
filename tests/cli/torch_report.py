# ctest: name=torch_report timeout=600 labels=cli,torch processors=2
"""zeropp.torch.report(): names are names of the reported model, modules that compress() has not seen are named with the
reason, and bytes that nobody counted are called modelled and have their own sum. Nodes are told apart by their host
names where neither the call nor the launcher gives the number of their ranks."""

import os
import re
import socket
import sys
import unittest

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import torch_models as models

FAST = {"min_bytes": 0}


def step(model):
    models.train(model, dist.get_rank(), steps=1)
    return model


def shown(model):
    import zeropp.torch

    return str(zeropp.torch.report(model))


def modules(model):
    import zeropp.torch

    return list(dict.fromkeys(row.module for row in zeropp.torch.report(model)))


def again_for_a_part():
    """Names after a second call for a part of the model, of the model and of the part; and the part's codec, the
    default."""
    import zeropp.torch

    model = zeropp.torch.compress(models.make(dist.get_world_size()), weights="int4:128", **FAST)
    zeropp.torch.compress(model.blocks[1], gradients="none", **FAST)
    step(model)
    of_part = [row for row in zeropp.torch.report(model) if row.module == "blocks.1"]
    codecs = {row.codec for row in of_part if row.phase.endswith("gather")}
    return modules(model), modules(model.blocks[1]), codecs


def wrapped_later():
    import zeropp.torch

    torch.manual_seed(0)
    model = models.Model().to(ranks.DEVICE)
    for block in model.blocks:
        fully_shard(block)
    zeropp.torch.compress(model, exclude="blocks.0", **FAST)
    fully_shard(model)
    step(model)
    return shown(model), modules(model)


def never_called():
    """The report before and after a step that reads the weights of a wrapped head without calling it."""
    import zeropp.torch

    model = models.Model().to(ranks.DEVICE)
    for part in (*model.blocks, model.head, model):
        fully_shard(part)
    zeropp.torch.compress(model, **FAST)
    before = shown(model)
    x = torch.ones(2, models.WIDTH, device=ranks.DEVICE)
    for block in model.blocks:
        x = block(x)
    (x @ model.head.weight.full_tensor().T).sum().backward()
    return before, shown(model)


def without_compress():
    return shown(models.make(dist.get_world_size())), shown(models.Model())


def partly_modelled():
    """The columns and the sums of rows, some of which PyTorch carries."""
    import zeropp.torch

    model = step(zeropp.torch.compress(models.make(dist.get_world_size()), gradients="none", **FAST))
    rows = zeropp.torch.report(model)
    return list(rows), str(rows), rows.as_predicted


def saved(weights, gradients, frozen=False, **more):
    """The bytes between nodes of a step of the model, those of FSDP2's rings, these in closed form: a gather in each
    of forward and backward, and a reduction, of three shards in bf16, of which half cross nodes of two ranks."""
    import zeropp.torch

    model = zeropp.torch.compress(models.make(dist.get_world_size(), frozen=frozen), weights, gradients, **more, **FAST)
    step(model)
    rows = zeropp.torch.report(model)
    shards = sum(each.to_local().numel() for each in model.parameters())
    return rows.sent_between_nodes, rows.fsdp2_between_nodes, 3 * 2 * shards / 2, str(rows)


def wholly_modelled():
    import zeropp.torch

    model = step(zeropp.torch.compress(models.make(dist.get_world_size()), weights="none", gradients="none", **FAST))
    return str(zeropp.torch.report(model)), zeropp.torch.report(model).as_predicted


def replica():
    import zeropp.torch

    model = step(zeropp.torch.compress(models.make(dist.get_world_size(), frozen=True), frozen="int8:256", **FAST))
    return {(row.phase, row.judged) for row in zeropp.torch.report(model) if "replica" in row.phase}


def hosts_by_name(of_each):
    """Algorithms and codecs of the gathers, whether nodes are crossed, and whether the report says that none are, where
    rank r runs on host of_each[r] and no launcher counts ranks; or what was said."""
    import zeropp.torch

    os.environ.pop("LOCAL_WORLD_SIZE")
    socket.gethostname = lambda: of_each[dist.get_rank()]
    try:
        model = step(zeropp.torch.compress(models.make(dist.get_world_size()), **FAST))
    except ValueError as error:
        return str(error)
    rows = [row for row in zeropp.torch.report(model) if row.phase == "forward gather"]
    one_node = "every group of ranks is in one node" in shown(model)
    return {(row.algorithm, row.codec, row.between_nodes > 0, one_node) for row in rows}


def what_it_says():
    return {function.__name__: function() for function in
            (again_for_a_part, wrapped_later, never_called, without_compress, partly_modelled, wholly_modelled,
             replica)} | {
        "saved": {name: saved(*codecs, **more) for name, codecs, more in (
            ("both", ("int8:256", "int4:128"), {}), ("weights", ("int8:256", "none"), {}),
            ("exact", ("exact", "none"), {}), ("nothing", ("none", "none"), {}))}}


class Report(unittest.TestCase):
    def test_says_what_was_sent_and_how_it_is_known(self):
        for found in ranks.run(4, 2, what_it_says, timeout=300):
            blocks = ["blocks.0", "blocks.1", "blocks.2"]
            self.assertEqual(found["again_for_a_part"], (["(model)", *blocks], ["(model)"], {"int8:256"}))

            text, named = found["wrapped_later"]
            self.assertEqual(named, ["(model)", *blocks[1:]], "without what is left to PyTorch, with what came later")
            self.assertRegex(text, r"\(model\) +all +torch +none +0 .*- +wrapped after compress\(\)")

            before, after = found["never_called"]
            self.assertNotIn("leave out", before)
            self.assertIn("the sums leave out what PyTorch sends for head (never called)", after)

            for text in found["without_compress"]:
                self.assertIn("zeropp.torch: this model is not compressed: call compress()", text)

            rows, text, as_predicted = found["partly_modelled"]
            self.assertIs(as_predicted, True)
            for row in rows:
                expected = ("modelled", None) if row.phase == "reduce" else ("yes", True)
                self.assertEqual((row.judged, row.as_predicted), expected, row)
            last = [line for line in text.splitlines() if line.split()[0] in ("all", "counted", "modelled")]
            sums = {line.split()[0]: [float(each) for each in line.split()[1:4]] for line in last}
            self.assertEqual(list(sums), ["all", "counted", "modelled"], text)
            for total, counted, modelled in zip(*sums.values()):
                self.assertAlmostEqual(total, counted + modelled, delta=0.002)
            self.assertTrue(last[-1].endswith("modelled") and last[-2].endswith("yes"), text)

            for name, calls in (("both", 3), ("weights", 2), ("exact", 2)):
                sent, of_fsdp2, one, text = found["saved"][name]
                self.assertAlmostEqual(of_fsdp2, calls * one, delta=0.02 * of_fsdp2)  # shards are padded
                self.assertIn(f"rings of FSDP2 would send {of_fsdp2 / 1e6:.3f} MB, "
                              f"{of_fsdp2 / sent:.1f} times as much", text)
                self.assertNotIn("no bytes crossed nodes", text)
            sent, of_fsdp2, _, _ = found["saved"]["weights"]
            self.assertAlmostEqual(of_fsdp2 / sent, 3 * 2 / 2 / (1 + 2 / 256), delta=0.3)
            self.assertEqual(found["saved"]["nothing"][:2], (0, 0))
            self.assertNotIn("rings of FSDP2", found["saved"]["nothing"][3])

            text, as_predicted = found["wholly_modelled"]
            self.assertIsNone(as_predicted)
            self.assertRegex(text, re.compile(r"^all .* modelled$", re.MULTILINE))
            self.assertNotIn("yes", text)

            self.assertEqual(found["replica"],
                             {("gather of a frozen replica", "modelled"), ("decode of a frozen replica", "-")})

    def test_finds_nodes_by_their_host_names(self):
        for found in ranks.run(4, 4, hosts_by_name, ["a", "a", "b", "b"], timeout=300):
            self.assertEqual(found, {("two-level", "int8:256", True, False)})
        for found in ranks.run(2, 2, hosts_by_name, ["a", "a"], timeout=300):
            self.assertEqual(found, {("torch", "none", False, True)})
        for found in ranks.run(4, 4, hosts_by_name, ["a", "b", "a", "b"], timeout=300):
            self.assertIn("nodes [0, 1, 0, 1]", found)
            self.assertIn("host names", found)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
