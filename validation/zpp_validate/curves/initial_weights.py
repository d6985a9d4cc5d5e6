"""The master weights that a GPT of zeropp begins with, by the rule of the library: element i of tensor number t is
scale times a sum of twelve uniform numbers of 16 bits, of mean 0 and variance 1, drawn by (seed, t, i). Needs
PyTorch."""

from typing import NamedTuple

import numpy as np
import torch

from zpp_validate.curves import philox
from zpp_validate.problem import Unfit

SPREAD = np.float32(0.02)
PIECE = 1 << 22  # elements drawn at once: a word takes 8 bytes while it is drawn


class Tensor(NamedTuple):
    name: str  # of peers.gpt
    constant: float = 0.0
    scale: float = 0.0  # 0: the constant


def tensors_of(layers, tied_head):
    """Tensors of a GPT, in the order of their numbers."""
    spread, residual = float(SPREAD), float(SPREAD / np.sqrt(np.float32(2 * layers)))
    tensors = [Tensor("embedding.tokens.weight", scale=spread), Tensor("embedding.positions.weight", scale=spread)]
    for layer in range(layers):
        for norm, products in (("ln_1", (("qkv", spread), ("proj", residual))),
                               ("ln_2", (("mlp_fc", spread), ("mlp_proj", residual)))):
            tensors += [Tensor(f"blocks.{layer}.{norm}.weight", constant=1.0), Tensor(f"blocks.{layer}.{norm}.bias")]
            for product, scale in products:
                tensors += [Tensor(f"blocks.{layer}.{product}.weight", scale=scale),
                            Tensor(f"blocks.{layer}.{product}.bias")]
    tensors += [Tensor("norm.weight", constant=1.0), Tensor("norm.bias")]
    return tensors + ([] if tied_head else [Tensor("head.weight", scale=spread)])


def normal(seed, tensor, elements):
    """fp32, exact: multiples of 1 / 65536. `elements`: numbers, int64."""
    drawn = [*philox.words(seed, 2 * elements, tensor), *philox.words(seed, 2 * elements + 1, tensor)[:2]]
    total = sum((word & 0xFFFF) + (word >> 16) for word in drawn)
    return (total - 6 * 65535).float() / 65536


@torch.no_grad()
def fill(masters, layers, tied_head, seed):
    """`masters`: fp32 by the names of the model's parameters, all of them. Throws KeyError, ValueError for those of
    another model."""
    tensors = tensors_of(layers, tied_head)
    if len(tensors) != len(masters):
        raise Unfit(f"the model has {len(masters)} tensors, and the rule of its initial weights {len(tensors)}")
    for number, tensor in enumerate(tensors):
        flat = masters[tensor.name].view(-1)
        flat.fill_(tensor.constant)
        for first in range(0, flat.numel() if tensor.scale else 0, PIECE):
            elements = torch.arange(first, min(first + PIECE, flat.numel()), device=flat.device)
            flat[first:first + PIECE] = tensor.scale * normal(seed, number, elements)
