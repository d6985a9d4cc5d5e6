"""The master weights that a transformer of zeropp begins with, by the rule of the library: element i of tensor number t
is scale times a sum of twelve uniform numbers of 16 bits, of mean 0 and variance 1, drawn by (seed, t, i). Needs
PyTorch."""

import numpy as np
import torch

from zpp_validate.curves import philox
from zpp_validate.peers import transformer
from zpp_validate.problem import Unfit

SPREAD = np.float32(0.02)
CONSTANTS = {"one": 1.0, "zero": 0.0}
PIECE = 1 << 22  # elements drawn at once: a word takes 8 bytes while it is drawn


def normal(seed, tensor, elements):
    """fp32, exact: multiples of 1 / 65536. `elements`: numbers, int64."""
    drawn = [*philox.words(seed, 2 * elements, tensor), *philox.words(seed, 2 * elements + 1, tensor)[:2]]
    total = sum((word & 0xFFFF) + (word >> 16) for word in drawn)
    return (total - 6 * 65535).float() / 65536


@torch.no_grad()
def fill(masters, shape, seed):
    """`masters`: fp32 by the names of the model's parameters, all of them. Throws KeyError, ValueError for those of
    another model."""
    tensors = shape.tensors()
    if len(tensors) != len(masters):
        raise Unfit(f"the model has {len(masters)} tensors, and the rule of its initial weights {len(tensors)}")
    scales = {"spread": float(SPREAD), "residual": float(SPREAD / np.sqrt(np.float32(2 * shape.layers)))}
    for number, tensor in enumerate(tensors):
        flat = masters[transformer.parameter_name(tensor.name)].view(-1)
        if tensor.initial in CONSTANTS:
            flat.fill_(CONSTANTS[tensor.initial])
            continue
        for first in range(0, flat.numel(), PIECE):
            elements = torch.arange(first, min(first + PIECE, flat.numel()), device=flat.device)
            flat[first:first + PIECE] = scales[tensor.initial] * normal(seed, number, elements)
