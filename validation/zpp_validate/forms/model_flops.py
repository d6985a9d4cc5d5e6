"""FLOPs of a transformer (a transformer.Shape). MFU is the achieved share of peak by the FLOPs of the model, without
recomputation. HFU is the share by the FLOPs that the hardware executed, with recomputation. Source: PaLM (arXiv
2204.02311), appendix B."""

PEAK_TFLOPS = 989.4  # an H200 in dense bf16, NVIDIA's data sheet


def block_matrices(shape):
    """Weights of a block's matrices."""
    return sum(tensor.elements for tensor in shape.block("h") if len(tensor.shape) > 1)


def attention_per_token(shape):
    """Forward of one token: two products with as many weights as there are positions times queries. The causal half is
    counted in full, as is usual."""
    return 4 * shape.seq_length * shape.queries


def flops_per_token(shape):
    """Forward and backward of one token: 6 FLOP for each weight that multiplies it, in the blocks and in the head, and
    three times the forward of attention."""
    weights = shape.layers * block_matrices(shape) + shape.vocabulary * shape.hidden
    return 6 * weights + 3 * shape.layers * attention_per_token(shape)


def hardware_flops_per_token(shape, recomputed_blocks):
    """FLOPs per token with the forward that so many blocks run again in backward, except its last product (the MLP's
    second), whose output nothing there reads. The recomputation of fused attention inside its own backward is not
    counted."""
    again = 2 * (block_matrices(shape) - shape.ffn * shape.hidden) + attention_per_token(shape)
    return flops_per_token(shape) + recomputed_blocks * again


def blocks_recomputed(layers, interval=1):
    """By zpp_train, of every interval-th block: the activations of the last of them are still there when its backward
    begins."""
    return -(-layers // interval) - 1


def utilization(tokens_per_second, flops, peak_tflops=PEAK_TFLOPS):
    """MFU or HFU of one GPU."""
    return tokens_per_second * flops / (peak_tflops * 1e12)
