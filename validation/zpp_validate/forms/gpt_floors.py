"""The least time in which a GPU can do each operation of a GPT's training step: bytes that it must move over the
bandwidth of a copy, or multiply-adds over the rate of matrix products, whichever takes longer. From the shape alone.

What is counted: activations and weights once in, once out, in the dtype of the computation; gradients of weights in
fp32, written by the first micro-step and read and written by every other; the causal half of attention; statistics of
rows and biases not at all. An operation's floor is its own: that another schedule would not need it is no part of it.
"""

from dataclasses import dataclass

MULTIPLY_ADD = 2  # operations
FP32 = 4  # bytes


@dataclass(frozen=True)
class Machine:
    """Of one GPU."""

    bandwidth: float  # bytes read and written a second, by a copy
    rate: float  # operations a second, by matrix products

    def seconds(self, operations, moved):
        return max(operations / self.rate, moved / self.bandwidth)


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    length: int
    vocab: int
    sequences: int  # of a micro-batch
    micro_steps: int = 1  # a step
    ranks: int = 1
    stage: int = 3
    tied_head: bool = True
    element: int = 2  # bytes of weights and activations

    @property
    def rows(self):
        return self.sequences * self.length

    @property
    def parameters(self):
        c = self.hidden
        tables = (self.vocab * (1 if self.tied_head else 2) + self.length) * c
        return tables + self.layers * (12 * c * c + 13 * c) + 2 * c

    @property
    def shard(self):
        """Parameters that a rank's optimizer updates."""
        return self.parameters / (self.ranks if self.stage > 0 else 1)

    def linear(self, layer):
        """Inputs and outputs of a matrix."""
        c = self.hidden
        return {"qkv": (c, 3 * c), "proj": (c, c), "fc": (c, 4 * c), "mlp": (4 * c, c), "head": (c, self.vocab)}[layer]


BLOCK = ("qkv", "proj", "fc", "mlp")


def product(shape, machine, layer, role):
    """Seconds of one call. `role`: forward; data, the gradient of the input; weight, that of the matrix."""
    inputs, outputs = shape.linear(layer)
    rows, element = shape.rows, shape.element
    operations = MULTIPLY_ADD * rows * inputs * outputs
    x, y, matrix = element * rows * inputs, element * rows * outputs, element * inputs * outputs
    if role == "forward":
        more = y if layer in ("proj", "mlp", "fc") else 0  # the residual is read; GELU's input is written
        return machine.seconds(operations, x + matrix + y + more)
    if role == "data":
        more = x if layer == "mlp" else 0  # GELU's input
        return machine.seconds(operations, y + matrix + x + more)
    passes = (2 * shape.micro_steps - 1) / shape.micro_steps
    return machine.seconds(operations, x + y + passes * FP32 * inputs * outputs)


def operations(shape, machine):
    """Seconds a step of every operation that is no product of a linear layer, by name."""
    micro, rows, c, element = shape.micro_steps, shape.rows, shape.hidden, shape.element
    norms = 2 * shape.layers + 1
    activation = element * rows * c  # bytes of one [rows, hidden]
    scores = MULTIPLY_ADD * rows * shape.length * c / 2  # of one product of attention, its causal half

    def bytes_only(moved):
        return machine.seconds(0, moved)

    # dy is read by every bias: its width over all layers of a block.
    bias_width = sum(shape.linear(layer)[1] for layer in BLOCK)
    touched = min(rows, shape.vocab)  # rows of the token table that have a gradient
    return {
        "attention forward": micro * shape.layers * machine.seconds(2 * scores, 4 * activation),
        "attention backward": micro * shape.layers * machine.seconds(5 * scores, 8 * activation),
        "layernorm forward": micro * norms * bytes_only(2 * activation),
        "layernorm backward": micro * bytes_only((norms * 4 - 1) * activation),  # all but the head's add to dx
        "bias gradient": micro * shape.layers * bytes_only(element * rows * bias_width),
        "cross entropy": micro * bytes_only(2 * element * rows * shape.vocab),
        "embedding forward": micro * bytes_only(2 * activation),
        "embedding backward": micro * bytes_only(activation + FP32 * (touched + shape.length) * c),
        # Gradient in; master weight and two moments in and out; the weight out in the computation's dtype.
        "AdamW": bytes_only((FP32 + 6 * FP32 + (element if element != FP32 else 0)) * shape.shard),
        "gradient norm": bytes_only(FP32 * shape.shard),
        "gradient scaling": bytes_only(2 * FP32 * shape.shard),
    }
