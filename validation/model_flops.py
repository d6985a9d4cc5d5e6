"""Model FLOPs of a GPT: what MFU is a share of. Recomputation does not count."""

PEAK_TFLOPS = 989.4  # an H200 in dense bf16, NVIDIA's data sheet


def flops_per_token(layers, hidden, seq_length, vocab_size):
    """Forward and backward of one token: 6 FLOP for each weight that multiplies it (12 L C^2 in the blocks, V C in
    the head), and 12 L T C for attention, whose causal half is counted in full, as is usual."""
    weights = 12 * layers * hidden**2 + vocab_size * hidden
    return 6 * weights + 12 * layers * seq_length * hidden


def utilization(tokens_per_second, flops, peak_tflops=PEAK_TFLOPS):
    """MFU of one GPU."""
    return tokens_per_second * flops / (peak_tflops * 1e12)
