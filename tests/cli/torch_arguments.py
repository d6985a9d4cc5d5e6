# ctest: name=torch_arguments timeout=120 labels=cli,torch
"""compress() and AllReduceState() refuse an argument that they cannot take or that would have no effect, in one line
that names the argument and what it takes; they raise no other exception. An argument that has several forms means the
same in each."""

import sys
import unittest

import torch_ranks as ranks

ranks.with_torch()

import torch

import torch_models as models

REFUSED = [  # arguments, and words of the line
    ({"weights": 8}, ["weights=8", "int8:256"]),
    ({"weights": None}, ["weights=None", "none"]),
    ({"weights": "int9"}, ["weights='int9'", "int8"]),
    ({"weights": "int8:100"}, ["weights='int8:100'", "100", "power of two"]),
    ({"gradients": "int4:100"}, ["gradients='int4:100'", "power of two"]),
    ({"gradients": None}, ["gradients=None", "two", "int4:128"]),
    ({"gradients": ("int8", 4)}, ["gradients=4"]),
    ({"inside_node": "int7:7"}, ["inside_node='int7:7'", "power of two"]),
    ({"frozen": "foo"}, ["frozen='foo'", "bf16"]),
    ({"frozen": ""}, ["frozen=''"]),
    ({"frozen": "int8:256"}, ["frozen='int8:256' has no effect", "requires_grad_"]),
    ({"exclude": "wte"}, ["exclude='wte'", "fully_shard"]),
    ({"exclude": 3}, ["exclude=3", "patterns"]),
    ({"exclude": [3]}, ["exclude=[3]", "patterns"]),
    ({"exclude": [torch.nn.ReLU()]}, ["a ReLU", "fully_shard"]),
    ({"node_size": 0}, ["node_size=0", "from 1 to the 1 ranks"]),
    ({"node_size": -1}, ["node_size=-1"]),
    ({"node_size": 2}, ["node_size=2", "from 1 to the 1 ranks"]),
    ({"node_size": "1"}, ["node_size='1'"]),
    ({"node_size": 1.0}, ["node_size=1.0"]),
    ({"min_bytes": -1}, ["min_bytes=-1", "bytes"]),
    ({"min_bytes": "1MiB"}, ["min_bytes='1MiB'", "bytes"]),
    ({"min_bytes": float("nan")}, ["min_bytes=nan"]),
    ({"seed": "a"}, ["seed='a'"]),
    ({"seed": -1}, ["seed=-1"]),
    ({"rail_lanes": 2}, ["rail_lanes=", "transport='nccl'"]),
    ({"copy_engines": 1}, ["copy_engines=", "transport='nccl'"]),
    ({"transport": "nccl", "rail_lanes": -1}, ["rail_lanes=-1"]),
    ({"transport": "nccl", "copy_engines": 2}, ["copy_engines=2"]),
    ({"error_feedback": True}, ["error_feedback=True", "(0.8, 1024, True)"]),
    ({"error_feedback": 0.9}, ["error_feedback=0.9", "(0.8, 1024, True)"]),
    ({"error_feedback": (0.9,)}, ["error_feedback=(0.9,)", "(0.8, 1024, True)"]),
    ({"error_feedback": {"beta": 0.9}}, ["error_feedback={", "(0.8, 1024, True)"]),
    ({"error_feedback": (1.0, 64, False)}, ["beta=1.0", "less than 1"]),
    ({"error_feedback": ("a", 64, False)}, ["beta='a'"]),
    ({"error_feedback": (0.9, -1, False)}, ["reset period=-1", "reductions"]),
    ({"error_feedback": (0.9, 1.5, False)}, ["reset period=1.5"]),
    ({"error_feedback": (0.9, 64, "int8")}, ["'int8'", "True or False"]),
    ({"error_feedback": (0.9, 64, False), "gradients": "none"}, ["error_feedback= has no effect", "gradients="]),
    ({"reduce_scatter_algorithm": None}, ["reduce_scatter_algorithm", "1-hop"]),
    ({"all_gather_algorithm": "2-hop"}, ["all_gather_algorithm", "two-level"]),
    ({"transport": None}, ["transport 'None'", "torch or nccl"]),
]
REFUSED_BY_DDP = [
    ({"codec": 8}, ["codec=8"]),
    ({"codec": "int9"}, ["codec='int9'"]),
    ({"codec_between_nodes": ""}, ["codec_between_nodes=''"]),
    ({"algorithm": "ring"}, ["algorithm", "1-hop"]),
    ({"node_size": 0}, ["node_size=0"]),
    ({"seed": None}, ["seed=None"]),
]


def said(call, arguments):
    try:
        call(**arguments)
    except Exception as error:  # pylint: disable=broad-exception-caught
        return type(error).__name__, str(error)
    return None, "nothing"


def refusals():
    """On one rank, where nothing can be sent: compress() itself refuses."""
    import zeropp.torch

    found = []
    for call, table in ((lambda **given: zeropp.torch.compress(models.make(1), **given), REFUSED),
                        (zeropp.torch.AllReduceState, REFUSED_BY_DDP)):
        found += [(arguments, words, *said(call, arguments)) for arguments, words in table]
    for model, words in ((models.make(1), ["not compressed", "compress()"]), (None, ["NoneType", "torch.nn.Module"])):
        found.append(("refresh()", words, *said(zeropp.torch.refresh, {"model": model})))
    return found


def excluded_by_a_string():
    """Whether modules are left to PyTorch, by a pattern, a list of it, and a module."""
    import zeropp.torch

    found = []
    for form in ("blocks.0", ["blocks.0"], None, "*.0"):
        model = models.make(1)
        zeropp.torch.compress(model, exclude=form or model.blocks[0])
        found.append([module._zeropp_hooks is None for module in (*model.blocks, model)])
    return found


def on_one_rank():
    return refusals(), excluded_by_a_string()


class Arguments(unittest.TestCase):
    def test_one_line_names_the_argument(self):
        [(refused, excluded)] = ranks.run(1, 1, on_one_rank)
        for arguments, words, kind, line in refused:
            with self.subTest(arguments=repr(arguments)):
                self.assertEqual(kind, "UsageError", line)
                self.assertNotIn("\n", line)
                self.assertNotIn("zpp_", line)
                for word in words:
                    self.assertIn(word, line)
        self.assertEqual(excluded, [[True, False, False, False]] * 4)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
