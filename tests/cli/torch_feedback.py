# ctest: name=torch_feedback timeout=600 labels=cli,torch processors=2
"""Error feedback of parts of a module that take turns: the error of one parameter is never added to another. Where the
same parameters are reduced again, their errors come back."""

import sys
import unittest

import torch_ranks as ranks

ranks.with_torch()

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH = 256


class Experts(nn.Module):
    """Experts of one size, in one group; the caller of a forward chooses which of them it uses."""

    def __init__(self, count):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count))

    def forward(self, x, chosen):
        return sum(self.experts[each](x).pow(2).mean() for each in chosen)


def make(feedback, count=3):
    import zeropp.torch

    torch.manual_seed(0)
    model = Experts(count).to(ranks.DEVICE)
    fully_shard(model)
    zeropp.torch.compress(model, weights="none", gradients="int4:128", node_size=1, min_bytes=0,
                          error_feedback=(0.0, 1024, False) if feedback else None)
    return model, torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1)).to(ranks.DEVICE)


def gradients(model, x, chosen, scale=1.0):
    (model(x, chosen) * scale).backward()
    found = [each.weight.grad.full_tensor() for each in model.experts if each.weight.grad is not None]
    model.zero_grad()
    return found


def turns():
    """Gradients of the step after others, in which other experts of the same size took part, with and without feedback;
    whether they are the same."""
    found = {}
    for name, before, now in (("one after another", [0], [1]), ("pairs", [0, 1], [1, 2]),
                              ("pairs that cross", [0, 2], [0, 1])):
        both = []
        for feedback in (False, True):
            model, x = make(feedback)
            for _ in range(3):
                gradients(model, x, before)
            both.append(gradients(model, x, now, scale=1e-6))
        found[name] = all(torch.equal(*pair) for pair in zip(*both))
    return found


def the_same_again():
    """How far the mean of gradients is from the exact one, without feedback and with it: of a part that is reduced
    again and again, and of the whole."""
    import zeropp.torch

    found = {}
    for name, chosen in (("a part", [1]), ("all", [0, 1, 2])):
        model, x = make(False)
        zeropp.torch.compress(model, weights="none", gradients="none")
        exact = torch.stack(gradients(model, x, chosen))
        apart = []
        for feedback in (False, True):
            model, x = make(feedback)
            mean = sum(torch.stack(gradients(model, x, chosen)) for _ in range(16)) / 16
            apart.append((mean - exact).abs().mean().item())
        found[name] = apart
    return found


def all_of_them():
    return turns(), the_same_again()


class Feedback(unittest.TestCase):
    def test_errors_stay_with_their_parameters(self):
        for alone, again in ranks.run(2, 1, all_of_them, timeout=500):
            self.assertEqual(alone, dict.fromkeys(alone, True))
            for part, (without, with_) in again.items():
                self.assertLess(with_, 0.25 * without, part)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
