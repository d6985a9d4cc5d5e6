# ctest: name=torch_groups timeout=600 labels=cli,torch processors=2
"""Meshes of all kinds: what compress() does not compress goes by FSDP2's very operation, what it cannot see is said,
and all modules are compressed or none."""

import multiprocessing
import sys
import threading
import unittest
import warnings

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import torch_models as models

NONE = {"weights": "none", "gradients": "none"}
FAST = {"min_bytes": 0, "node_size": 2}


def linear(width=8, mesh=None):
    torch.manual_seed(0)
    model = nn.Linear(width, width, bias=False).to(ranks.DEVICE)
    if mesh is not None:
        fully_shard(model, mesh=mesh)
    return model


def mesh_of(*shape):
    return init_device_mesh(ranks.DEVICE, shape, mesh_dim_names=("replicas", "shards"))


def step(model, width=8):
    """The first element of the gradient, where every rank's output is the sum over columns."""
    model(torch.ones(1, width, device=ranks.DEVICE)).sum().backward()
    return next(model.parameters()).grad.to_local().flatten()[:1].tolist()


def step_or_refusal(model):
    """gloo does not have every operation that FSDP2 asks for, by version."""
    try:
        return step(model)
    except RuntimeError as error:
        return str(error).split(" with ")[0]


def rows_of(model):
    import zeropp.torch

    return {(row.phase, row.why, row.judged, row.calls, row.inside_nodes, row.between_nodes)
            for row in zeropp.torch.report(model)}


def remarks(model):
    """The lines after the table, but for what was saved."""
    import zeropp.torch

    return [line for line in str(zeropp.torch.report(model)).splitlines()
            if line.startswith("zeropp.torch: ") and "rings of FSDP2" not in line]


def said(call):
    """Warnings of zeropp, and the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            error = ""
        except ValueError as refused:
            error = f"{type(refused).__name__}: {refused}"
    return [str(each.message) for each in caught if "zeropp.torch" in str(each.message)], error


def shard_groups_of_one_rank():
    """Gradients under a divide factor, and without one but with replicas, of plain FSDP2 and of models whose codecs are
    "none" and for weights alone."""
    import zeropp.torch

    found = {}
    for name, settings in (("plain", None), ("none", {**NONE, **FAST}), ("weights", {"gradients": "none", **FAST})):
        divided = linear(mesh=mesh_of(4, 1)["shards"])
        divided.set_gradient_divide_factor(4.0)
        hybrid = linear(mesh=mesh_of(4, 1))
        scaled = linear(mesh=mesh_of(4, 1))
        scaled.set_gradient_divide_factor(4.0)
        if settings is not None:
            for model in (divided, hybrid, scaled):
                zeropp.torch.compress(model, **settings)
        found[name] = [step_or_refusal(model) for model in (hybrid, divided, scaled)]
    return found, rows_of(divided), rows_of(hybrid), remarks(hybrid)


def operations_of_none():
    """Operations that PyTorch is asked for by plain FSDP2, by a model without codecs, and by one that was compressed
    before."""
    import zeropp.torch

    found = []
    for settings in ((), (NONE,), (FAST, {**NONE, **FAST}), ({"gradients": "none", **FAST},)):
        model = linear(mesh=init_device_mesh(ranks.DEVICE, (4,)))
        for each in settings:
            zeropp.torch.compress(model, **each)
        asked, group = [], param_group(model._get_fsdp_state())
        kind = type(group._reduce_scatter_comm)
        call = kind.__call__

        def watching(self, *arguments, call=call, asked=asked, **named):
            asked.append(str(named["op"]))
            return call(self, *arguments, **named)

        kind.__call__ = watching
        try:
            step(model)
        finally:
            kind.__call__ = call
        found.append((asked, group.force_sum_reduction_for_comms))
    return found


def param_group(state):
    return (getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group])[0]


def sums_of_the_user():
    """Whether the user's request for sums stays through several calls of compress()."""
    import zeropp.torch

    found = []
    for asked in (False, True):
        model = linear(mesh=init_device_mesh(ranks.DEVICE, (4,)))
        model.set_force_sum_reduction_for_comms(asked)
        for settings in (FAST, NONE, FAST, NONE):
            zeropp.torch.compress(model, **settings)
            found.append(param_group(model._get_fsdp_state()).force_sum_reduction_for_comms)
    return found


def hybrid():
    """The classical layout, whose shard groups lie inside nodes, and the other one, where gradients have no codec."""
    import zeropp.torch

    width, found = 64, []
    for node_size in (2, 1):
        model = linear(width, mesh=mesh_of(2, 2))
        heard, _ = said(lambda model=model, node_size=node_size: zeropp.torch.compress(
            model, gradients="none", inside_node="int8:32", min_bytes=0, node_size=node_size))
        step(model, width)
        model.set_requires_all_reduce(False)
        step(model, width)
        found.append((heard, rows_of(model), remarks(model)))
    quiet = [said(lambda settings=settings: zeropp.torch.compress(linear(width, mesh=mesh_of(2, 2)), **settings))[0]
             for settings in ({**NONE, **FAST}, FAST)]
    return found, quiet


def replicated():
    """replicate(), which is FSDP2's data parallelism."""
    import zeropp.torch
    from torch.distributed._composable.replicate_with_fsdp import replicate

    model = linear()
    mesh = init_device_mesh(ranks.DEVICE, (4,), mesh_dim_names=("replicas",))
    try:
        replicate(model, mesh=mesh)
    except Exception:  # of an older PyTorch, which wants two dimensions
        model = linear()
        replicate(model, device_mesh=mesh_of(4, 1))
    zeropp.torch.compress(model, gradients="none", **FAST)
    gradient = step(model)
    return gradient, rows_of(model), remarks(model)


def left_out():
    """Remarks where modules are excluded, wrapped later, and given hooks of somebody else's later."""
    import zeropp.torch

    model = nn.Sequential(*(linear() for _ in range(4)))
    for layer in model[:3]:
        fully_shard(layer)
    zeropp.torch.compress(model, exclude=["0"], **FAST)
    fully_shard(model[3])
    model[2].set_custom_all_gather(OwnAllGather())
    model(torch.ones(1, 8, device=ranks.DEVICE)).sum().backward()
    return remarks(model)


class OwnAllGather:
    """An all-gather like FSDP2's."""

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)


def parts_of_a_list():
    """A group of two modules, compressed as a whole and then by its second module: rows, and what is left of the first
    call."""
    import zeropp.torch

    model = nn.Sequential(linear(), linear())
    fully_shard([model[0], model[1]])
    fully_shard(model)
    zeropp.torch.compress(model, **FAST)
    former = model[0]._zeropp_hooks[0].plans
    zeropp.torch.compress(model[1], gradients="int8:32", **FAST)
    model(torch.ones(1, 8, device=ranks.DEVICE)).sum().backward()
    return {row.codec for row in zeropp.torch.report(model)}, remarks(model), former.users


def all_or_none():
    """The refusal for the last module, and the hooks of the first."""
    import zeropp.torch

    model = nn.Sequential(linear(), linear())
    for layer in model:
        fully_shard(layer)
    model[1].set_custom_all_gather(OwnAllGather())
    _, error = said(lambda: zeropp.torch.compress(model, **FAST))
    first = param_group(model[0]._get_fsdp_state())
    untouched = "Default" in type(first._all_gather_comm).__name__ and not first.force_sum_reduction_for_comms
    own = isinstance(param_group(model[1]._get_fsdp_state())._all_gather_comm, OwnAllGather)
    zeropp.torch.compress(model, exclude=["1"], **FAST)
    return error, untouched and own


def several_meshes():
    """Parameters of one module on two meshes, where this PyTorch has that."""
    import zeropp.torch
    from torch.distributed.fsdp._fully_shard import _fsdp_common

    try:
        from torch.distributed.tensor import Shard
        result, info = _fsdp_common.ShardPlacementResult, _fsdp_common.FSDPMeshInfo
    except AttributeError:
        return None
    both = mesh_of(2, 2)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)).to(ranks.DEVICE)
    whole, part = info(init_device_mesh(ranks.DEVICE, (4,)), 0), info(both["shards"], 0)
    fully_shard(model, mesh=init_device_mesh(ranks.DEVICE, (4,)),
                shard_placement_fn=lambda each: result(Shard(0), part if each is model[1].weight else whole))
    _, error = said(lambda: zeropp.torch.compress(model, **FAST))
    zeropp.torch.compress(nn.Sequential(model, fully_shard(linear())), exclude=["0"], **FAST)
    return error


def reductions_apart():
    """The number of communicators of a model whose reductions have their own process group, if this PyTorch offers
    that; and its bits beside the bits of a model without."""
    import zeropp.torch

    found, losses = [], []
    for apart in (False, True):
        model = models.make(4, mixed=False)
        if apart and not hasattr(model, "set_separate_reduce_scatter_group"):
            return None
        zeropp.torch.compress(model, **FAST)
        if apart:
            model.set_separate_reduce_scatter_group()
        losses.append(models.train(model, dist.get_rank(), steps=2))
        communicators = model._zeropp_hooks[0].plans.communicators
        found.append(len({id(each.communicator) for each in communicators.of_ranks.values()}))
    return found, losses[0] == losses[1]


def no_models():
    import zeropp.torch

    return [said(lambda call=call, wrong=wrong: call(wrong))[1]
            for wrong in (None, [linear()], "model") for call in (zeropp.torch.compress, zeropp.torch.report,
                                                                  zeropp.torch.refresh)]


def of_threads():
    """Gradients of two ranks that are threads of this process. Their process group has no back end of the device."""
    import zeropp.torch
    from torch.testing._internal.distributed import multi_threaded_pg

    multi_threaded_pg._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    store, found = dist.HashStore(), {}

    def rank(number):
        dist.init_process_group("threaded", rank=number, world_size=2, store=store)
        model = fully_shard(linear())
        zeropp.torch.compress(model, node_size=1, **NONE)
        found[number] = step(model)

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def all_of_them():
    return {function.__name__: function() for function in
            (shard_groups_of_one_rank, operations_of_none, sums_of_the_user, hybrid, replicated, left_out,
             parts_of_a_list, all_or_none, several_meshes, reductions_apart, no_models)}


class Groups(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.found = ranks.run(4, 2, all_of_them, timeout=500)[1]

    def test_shard_groups_of_one_rank_are_left_alone(self):
        gradients, divided, hybrid_, said_ = self.found["shard_groups_of_one_rank"]
        self.assertEqual(gradients["plain"][0], [1.0])
        self.assertIn(gradients["plain"][1], [[0.25], "Cannot use ReduceOp.PREMUL_SUM"])
        self.assertEqual(gradients["none"], gradients["plain"])
        self.assertEqual(gradients["weights"], gradients["plain"])
        self.assertEqual(divided, {("all", "one rank", "-", 0, 0, 0)})
        self.assertEqual(hybrid_, {("all-reduce", "codec none", "modelled", 1, 0, 2 * 3 * 8 * 8 * 4 // 4)})
        self.assertEqual(len(said_), 1)
        self.assertIn("nothing was compressed", said_[0])

    def test_none_asks_for_the_operations_of_fsdp2(self):
        plain, none, again, weights_alone = self.found["operations_of_none"]
        self.assertIn("AVG", plain[0][0])
        self.assertEqual([none, again, weights_alone], [plain] * 3)
        self.assertEqual(self.found["sums_of_the_user"], [True, False, True, False, *[True] * 4])

    def test_an_all_reduce_of_replicas_without_codec_is_counted_and_said(self):
        (classical, other), quiet = self.found["hybrid"]
        heard, rows, said_ = classical
        reduced = 2 * 64 * 64 * 4 // 2 // 2
        self.assertIn(("all-reduce", "codec none", "modelled", 1, 0, reduced), rows)
        self.assertEqual(len(heard), 1)
        self.assertIn("saves nothing between nodes", heard[0])
        self.assertEqual(len(said_), 1)
        self.assertIn("nothing is saved between nodes", said_[0])
        heard, rows, said_ = other
        self.assertIn(("all-reduce", "codec none", "modelled", 1, 0, reduced), rows)
        self.assertEqual((heard, said_), ([], []))
        self.assertEqual(quiet, [[], []])

    def test_replicate_has_a_row(self):
        gradient, rows, said_ = self.found["replicated"]
        self.assertEqual(gradient, [1.0])
        self.assertEqual(rows, {("all-reduce", "codec none", "modelled", 1, 0, 2 * 3 * 8 * 8 * 4 // 4)})
        self.assertIn("nothing was compressed", said_[0])

    def test_what_is_left_out_is_said(self):
        [line] = self.found["left_out"]
        self.assertIn("the sums leave out", line)
        for words in ("0 (exclude=)", "2 (hooks replaced after compress())", "3 (wrapped after compress())"):
            self.assertIn(words, line)

    def test_modules_of_one_group_have_their_settings_in_common(self):
        self.assertEqual(self.found["parts_of_a_list"], ({"int8:256", "int8:32"}, [], 0))

    def test_all_modules_or_none(self):
        error, untouched = self.found["all_or_none"]
        self.assertTrue(untouched)
        for words in ("UsageError: 1: its all-gather is a OwnAllGather", 'exclude=["1"]'):
            self.assertIn(words, error)
        if self.found["several_meshes"] is not None:
            self.assertIn('several meshes', self.found["several_meshes"])
            self.assertIn('exclude=[""]', self.found["several_meshes"])

    def test_reductions_with_a_group_of_their_own_have_a_communicator_of_their_own(self):
        if self.found["reductions_apart"] is None:
            self.skipTest("this PyTorch has no set_separate_reduce_scatter_group()")
        self.assertEqual(self.found["reductions_apart"], ([1, 2], True))

    @unittest.skipIf(ranks.DEVICE != "cpu", "threads of one process share a GPU")
    def test_a_process_group_without_a_back_end_of_the_device(self):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            self.assertEqual(process.apply(of_threads), {0: [1.0], 1: [1.0]})

    def test_what_is_no_model_is_refused_in_one_line(self):
        for line in self.found["no_models"]:
            self.assertRegex(line, r"^UsageError: (compress|report|refresh)\(\): \w+ is no model: .*Module")


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
