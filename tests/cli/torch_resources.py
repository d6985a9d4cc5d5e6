# ctest: name=torch_resources timeout=600 labels=cli,torch processors=2
"""Plans, communicators and memory that compress() and the hook of DDP hold are freed when others replace them. Ranks
that are threads of one process do not wait for each other, and a hook's state can be saved."""

import gc
import pickle
import sys
import threading
import unittest
import warnings

import torch_ranks as ranks

ranks.with_torch()

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_models as models

FAST = {"min_bytes": 0, "node_size": 1}


def held():
    """Plans and communicators of the library that there are."""
    from zeropp import collectives

    gc.collect()
    kinds = collectives.Plan, collectives.Communicator
    living = [each for each in gc.get_objects() if isinstance(each, kinds) and each._handle]
    return tuple(sum(isinstance(each, kind) for each in living) for kind in kinds)


def compressed_again():
    """The plans and communicators held before, after the first compress() and a step, and after 20 more of them, while
    garbage is not collected; whether the rest trains after a part is compressed anew; the plans and communicators held
    after the model is deleted."""
    import zeropp.torch

    rank, before = dist.get_rank(), held()
    model = zeropp.torch.compress(models.make(dist.get_world_size()), error_feedback=(0.5, 8, False), **FAST)
    models.train(model, rank, steps=1)
    first = held()
    gc.disable()
    for each in range(20):
        zeropp.torch.compress(model, error_feedback=(0.5, 8, False), seed=each, **FAST)
        models.train(model, rank, steps=1)
    made = model._zeropp_hooks[0].plans
    gc.enable()
    again = held()
    zeropp.torch.compress(model.blocks[0], **FAST)  # the others still use theirs
    models.train(model, rank, steps=1)
    still = len(made.made)
    losses = models.train(model, rank, steps=1)
    del model, made
    gc.collect()
    return before, first, again, still > 0 and len(losses) == 1, held()


def buckets_built_anew():
    """Plans, sizes of buckets and buckets after each step of DDP, which builds buckets anew after the first; and
    whether nothing is held when the model has gone."""
    import zeropp.torch

    before, found = held(), []
    state = zeropp.torch.AllReduceState("int8:32", "int8:32", node_size=1)
    model = DistributedDataParallel(models.Model(blocks=6).to(ranks.DEVICE), bucket_cap_mb=0.05)
    seen = set()

    def hook(state, bucket):
        seen.add((bucket.index(), bucket.buffer().numel()))
        return zeropp.torch.allreduce_hook(state, bucket)

    model.register_comm_hook(state, hook)
    for step in range(4):
        seen.clear()
        model(torch.randn(4, models.WIDTH).to(ranks.DEVICE)).pow(2).mean().backward()
        found.append((held()[0] - before[0], len({size for _, size in seen}), len(seen)))
    del model, state
    return found, (held()[0], held()[1]) == before


def threads():
    """Whether two sets of ranks of one process can make their communicators at once, each of which waits for the
    other."""
    from zeropp.torch.process_groups import RankSet

    together, made = threading.Barrier(2), []

    def make(ranks_, carrier):
        together.wait(timeout=20)
        return "communicator"

    def ask():
        each = RankSet(dist.group.WORLD, torch.device("cpu"), [0] * dist.get_world_size(), dist.get_world_size(), make)
        try:
            made.append((each.communicator, each.communicator))
        except threading.BrokenBarrierError:
            made.append("waited for each other")

    running = [threading.Thread(target=ask) for _ in range(2)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return made


def pickled():
    """A state of a process group, saved and loaded: what it warns of, and whether it reduces."""
    import zeropp.torch

    state = zeropp.torch.AllReduceState("int8:32", process_group=dist.group.WORLD, node_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = pickle.loads(pickle.dumps(state))
    model = DistributedDataParallel(models.Model().to(ranks.DEVICE))
    model.register_comm_hook(loaded, zeropp.torch.allreduce_hook)
    model(torch.randn(4, models.WIDTH).to(ranks.DEVICE)).pow(2).mean().backward()
    said = [str(each.message) for each in caught if "zeropp" in str(each.message)]
    return said, len(loaded.plans.made), loaded.codecs


def all_of_them():
    return {function.__name__: function() for function in (compressed_again, buckets_built_anew, threads, pickled)}


class Resources(unittest.TestCase):
    def test_end_with_what_replaces_them(self):
        for found in ranks.run(2, 1, all_of_them, timeout=500):
            before, first, again, still, after = found["compressed_again"]
            self.assertGreater(first[0], before[0])
            self.assertEqual(first[1], before[1] + 1)
            self.assertEqual(again, first)
            self.assertTrue(still, "plans ended that other modules use")
            self.assertEqual(after, before)

            steps, gone = found["buckets_built_anew"]
            self.assertGreater(steps[-1][2], 1, "one bucket alone")
            for plans, sizes, _ in (steps[0], *steps[2:]):
                self.assertEqual(plans, sizes, steps)
            self.assertTrue(gone)

            self.assertEqual(found["threads"], [("communicator", "communicator")] * 2)
            said, plans, codecs = found["pickled"]
            self.assertEqual(len(said), 1)
            self.assertIn("without its process group", said[0])
            self.assertEqual((plans > 0, codecs), (True, ("int8:32", "int8:32")))


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
