# ctest: name=oracles_agree timeout=120 labels=oracle,torch
"""Gradients of the NumPy oracle beside differences of its loss, the PyTorch oracle, and the model that FSDP2 is timed
with, in fp64, over shapes that nothing divides evenly. Initial weights are of the tensors that the peer has. Skipped
without PyTorch."""

import sys

import other_python

other_python.with_modules("torch", "numpy", "h5py")

import numpy as np
import torch

from zpp_validate.curves import initial_weights
from zpp_validate.forms.transformer import Shape
from zpp_validate.oracles import network, torch_oracle
from zpp_validate.peers import transformer

SIZES = {"num_layers": 2, "hidden_size": 36, "num_attention_heads": 6, "seq_length": 19, "vocab_size": 37}
SHAPES = [
    SIZES | {"name": "gpt"},
    SIZES | {"name": "gpt", "num_key_value_heads": 2, "head_dim": 5, "ffn_hidden_size": 50, "norm_eps": 1e-3},
    SIZES | {"name": "llama", "tied_head": False},
    SIZES | {"name": "llama", "hidden_size": 33, "num_key_value_heads": 3, "head_dim": 10, "ffn_hidden_size": 50,
             "rope_theta": 500.0},
    SIZES | {"name": "llama", "num_key_value_heads": 1, "head_dim": 4, "add_qkv_bias": True, "norm_eps": 1e-3},
]
STEP = 1e-5


def relative(value, expected):
    return np.linalg.norm(value - expected) / np.linalg.norm(expected)


def by_differences(shape, w, batch, gradients, random):
    """The largest relative error of a gradient along a direction of each tensor."""
    def loss(name, values):
        return network.cross_entropy(network.forward(shape, {**w, name: values}, batch[0])[0], batch[1])[0]

    errors = []
    for name, values in w.items():
        along = gradients[name] + random.normal(size=values.shape) * np.linalg.norm(gradients[name])
        along *= STEP / np.linalg.norm(along)
        slope = (loss(name, values + along) - loss(name, values - along)) / 2
        errors.append(relative(slope, (gradients[name] * along).sum()))
    return max(errors)


def by_torch(parameters, loss, gradients):
    """`parameters`: by name of the oracle."""
    loss.backward()
    return max(relative(parameters[name].grad.numpy(), value) for name, value in gradients.items())


def compared(shape):
    """{what the gradients are beside: largest relative difference}"""
    random = np.random.default_rng(1)
    w = {tensor.name: random.normal(float(tensor.initial == "one"), 0.2, tensor.shape) for tensor in shape.tensors()}
    batch = random.integers(shape.vocabulary, size=(2, 3, shape.seq_length))
    _, gradients = network.loss_and_gradients(shape, w, *batch)
    tokens, targets = map(torch.from_numpy, batch)
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in w.items()}
    peer = transformer.Transformer(shape).double()
    of_peer = dict(peer.named_parameters())
    assert set(of_peer) == {transformer.parameter_name(name) for name in w}, of_peer
    initial_weights.fill({name: value.detach().float() for name, value in of_peer.items()}, shape, 1)
    with torch.no_grad():
        for name, value in w.items():
            of_peer[transformer.parameter_name(name)].copy_(torch.tensor(value))
    own = {name: of_peer[transformer.parameter_name(name)] for name in w}
    return {"differences": by_differences(shape, w, batch, gradients, random),
            "PyTorch": by_torch(leaves, torch_oracle.loss_of(shape, leaves, tokens, targets), gradients),
            "the peer": by_torch(own, transformer.cross_entropy(peer(tokens), targets), gradients)}


LIMITS = {"differences": 1e-6, "PyTorch": 1e-12, "the peer": 1e-6}  # the peer's loss and angles are fp32


def main():
    torch.set_num_threads(1)
    failures = 0
    for sizes in SHAPES:
        for name, error in compared(Shape.of(sizes)).items():
            print(f"{sizes}: beside {name} {error:.2e}")
            failures += not error <= LIMITS[name]
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
