"""The random numbers that initial weights and the order of data are drawn with: Philox4x32-10 (Salmon et al.,
SC'11)."""

LOW = 0xFFFFFFFF


def words(key, low, high):
    """Four words of 32 bits for a key of 64 bits and a counter of two. `low` or `high` is an array of uint64 of NumPy,
    or a tensor of int64 of PyTorch, whose products wrap around to the same bits; so are the words."""
    counter = [low & LOW, (low >> 32) & LOW, high & LOW, (high >> 32) & LOW]
    keys = [key & LOW, (key >> 32) & LOW]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [((second >> 32) & LOW) ^ counter[1] ^ keys[0], second & LOW,
                   ((first >> 32) & LOW) ^ counter[3] ^ keys[1], first & LOW]
        keys = [(keys[0] + 0x9E3779B9) & LOW, (keys[1] + 0xBB67AE85) & LOW]
    return counter
