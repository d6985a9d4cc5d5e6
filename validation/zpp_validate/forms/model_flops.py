"""FLOPs of a GPT. MFU is the achieved share of peak by the FLOPs of the model, without recomputation. HFU is the share
by the FLOPs that the hardware executed, with recomputation."""

PEAK_TFLOPS = 989.4  # an H200 in dense bf16, NVIDIA's data sheet


def flops_per_token(layers, hidden, seq_length, vocab_size):
    """Forward and backward of one token: 6 FLOP for each weight that multiplies it (12 L C^2 in the blocks, V C in
    the head), and 12 L T C for attention, whose causal half is counted in full, as is usual."""
    weights = 12 * layers * hidden**2 + vocab_size * hidden
    return 6 * weights + 12 * layers * seq_length * hidden


def hardware_flops_per_token(layers, hidden, seq_length, vocab_size, recomputed_blocks):
    """FLOPs per token with the forward that so many blocks run again in backward, except its last product (4 C -> C),
    whose output nothing there reads: 2 FLOP for each of the 8 C^2 other weights of a block, and 4 T C for attention.
    The recomputation of fused attention inside its own backward is not counted."""
    again = 16 * hidden**2 + 4 * seq_length * hidden
    return flops_per_token(layers, hidden, seq_length, vocab_size) + recomputed_blocks * again


def blocks_recomputed(layers, interval=1):
    """By zpp_train, of every interval-th block: the activations of the last of them are still there when its backward
    begins."""
    return -(-layers // interval) - 1


def utilization(tokens_per_second, flops, peak_tflops=PEAK_TFLOPS):
    """MFU or HFU of one GPU."""
    return tokens_per_second * flops / (peak_tflops * 1e12)
