"""Block codecs in NumPy, written from their description: an independent second implementation.

Nothing here is taken from the library. Rounding is done by arithmetic on the value, not on bits, so
that both can only agree by both being right.

Values in memory are arrays of raw bits: uint32 for fp32, uint16 for bf16 and fp16. A wire image is a
uint8 array: payload (whole blocks), then one scale a block, each padded with zeros to 16 bytes.

Rule of int8 and int4 (b bits, qmax = 2^(b-1) - 1): a block's scale is s = max|x| / qmax in fp32, stored
as bf16 rounded up and at most the largest finite bf16; q = clamp(rint(x * (1 / s)), -qmax, qmax).
A scale that would be subnormal is 0 and so is its block; a block with NaN or Inf stores the canonical
NaN as its scale and zeros as payload.
"""

import numpy as np

F32 = np.float32
LARGEST = {"fp32": float(np.finfo(F32).max), "bf16": 255 * 2.0**120, "fp16": 65504.0}
CANONICAL_NAN = {"fp32": 0x7FC00000, "bf16": 0x7FC0, "fp16": 0x7E00}
BITS_TYPE = {"fp32": np.uint32, "bf16": np.uint16, "fp16": np.uint16}
CASTS = ("none", "bf16", "fp16")
INTEGERS = {"int8": (8, 256), "int4": (4, 128)}  # bits, default block
FORMATS = CASTS + tuple(INTEGERS)


def parse(name):
    """'int8:256' -> ('int8', 256); the block is 1 for formats without blocks."""
    format_name, _, block = name.partition(":")
    if format_name in CASTS:
        return format_name, 1
    return format_name, int(block) if block else INTEGERS[format_name][1]


def to_fp32(bits, dtype):
    """Raw bits -> float32 values (exact)."""
    if dtype == "fp32":
        return bits.view(F32)
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(F32)
    return bits.view(np.float16).astype(F32)


def bf16_quantum(x):
    """Spacing of bf16 values around x (float64): 8 significant bits, the smallest spacing 2^-133."""
    _, exponent = np.frexp(x)
    return np.ldexp(1.0, np.maximum(exponent - 8, -133))


def from_fp32(values, dtype):
    """float32 values -> raw bits: nearest, ties to even; finite values saturate; NaN is canonical."""
    with np.errstate(all="ignore"):
        if dtype == "fp32":
            bits = values.view(np.uint32).copy()
        else:
            finite = np.isfinite(values)
            exact = np.where(finite, values, 0.0).astype(np.float64)
            if dtype == "bf16":
                quantum = bf16_quantum(exact)
                nearest = np.rint(exact / quantum) * quantum
                nearest = np.clip(nearest, -LARGEST["bf16"], LARGEST["bf16"])
                # -0.0 survives: rint and clip keep the sign of zero.
                rounded = np.where(finite, nearest, values).astype(F32)
                bits = (rounded.view(np.uint32) >> 16).astype(np.uint16)
            else:
                clipped = np.clip(exact, -LARGEST["fp16"], LARGEST["fp16"])
                bits = np.where(finite, clipped, values).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), BITS_TYPE[dtype](CANONICAL_NAN[dtype]), bits)


def padded(byte_array):
    """Zeros up to a multiple of 16 bytes."""
    return np.concatenate([byte_array, np.zeros(-len(byte_array) % 16, np.uint8)])


def wire_dtype(format_name, memory_dtype):
    return memory_dtype if format_name == "none" else format_name


def wire_bytes(name, n, memory_dtype):
    """Exact size of the image of n values."""
    format_name, block = parse(name)
    if format_name in CASTS:
        payload = n * (4 if wire_dtype(format_name, memory_dtype) == "fp32" else 2)
        return -(-payload // 16) * 16
    blocks = -(-n // block)
    payload = blocks * block * INTEGERS[format_name][0] // 8
    return -(-payload // 16) * 16 + -(-2 * blocks // 16) * 16


def encode(name, memory_bits, memory_dtype):
    """Raw bits of n values -> wire image."""
    format_name, block = parse(name)
    if format_name in CASTS:
        to = wire_dtype(format_name, memory_dtype)
        same = to == memory_dtype
        wire = memory_bits if same else from_fp32(to_fp32(memory_bits, memory_dtype), to)
        return padded(np.ascontiguousarray(wire).view(np.uint8))

    bits = INTEGERS[format_name][0]
    qmax = F32(2 ** (bits - 1) - 1)
    n = len(memory_bits)
    values = np.zeros(-(-n // block) * block, F32)
    values[:n] = to_fp32(memory_bits, memory_dtype)
    values = values.reshape(-1, block)
    poisoned = ~np.isfinite(values).all(axis=1)
    values = np.where(poisoned[:, None], F32(0), values)
    with np.errstate(all="ignore"):
        scale = (np.abs(values).max(axis=1, initial=0) / qmax).astype(np.float64)
        quantum = bf16_quantum(scale)
        scale = np.minimum(np.ceil(scale / quantum) * quantum, LARGEST["bf16"])
        scale = np.where(scale < 2.0**-126, 0.0, scale).astype(F32)
        reciprocal = np.where(scale == 0, F32(0), F32(1) / scale).astype(F32)
        q = np.clip(np.rint(values * reciprocal[:, None]), -qmax, qmax).astype(np.int64)
    stored = from_fp32(scale, "bf16")
    stored[poisoned] = CANONICAL_NAN["bf16"]

    codes = (q.reshape(-1) & (2**bits - 1)).astype(np.uint8)
    payload = codes if bits == 8 else codes[0::2] | (codes[1::2] << 4)
    return np.concatenate([padded(payload), padded(stored.view(np.uint8))])


def unpack(name, image, n, memory_dtype):
    """Wire image -> (q, s) as float32, each of n values. For casts s is 1."""
    format_name, block = parse(name)
    if format_name in CASTS:
        dtype = wire_dtype(format_name, memory_dtype)
        wire = image[: n * BITS_TYPE[dtype]().itemsize].view(BITS_TYPE[dtype])
        return to_fp32(wire, dtype), np.ones(n, F32)
    bits = INTEGERS[format_name][0]
    blocks = -(-n // block)
    payload = blocks * block * bits // 8
    codes = image[:payload]
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
    q = codes.astype(np.int64)
    q = np.where(q >= 2 ** (bits - 1), q - 2**bits, q)
    offset = -(-payload // 16) * 16
    scale = to_fp32(image[offset : offset + 2 * blocks].view(np.uint16), "bf16")
    return q[:n].astype(F32), np.repeat(scale, block)[:n]


def decode(name, image, n, memory_dtype):
    """Wire image -> raw bits of n values. Finite blocks stay finite."""
    format_name, _ = parse(name)
    if format_name in CASTS and wire_dtype(format_name, memory_dtype) == memory_dtype:
        return image.view(BITS_TYPE[memory_dtype])[:n].copy()
    q, s = unpack(name, image, n, memory_dtype)
    with np.errstate(all="ignore"):
        values = q * s
        if format_name in INTEGERS:
            largest = F32(LARGEST["fp32"])
            values = np.where(np.isnan(values), values, np.clip(values, -largest, largest))
    return from_fp32(values, memory_dtype)


def decode_reduce(name, images, n, memory_dtype):
    """Wire images -> raw bits of the fp32 sum, in the order of the images, from zero."""
    total = np.zeros(n, F32)
    with np.errstate(all="ignore"):
        for image in images:
            q, s = unpack(name, image, n, memory_dtype)
            # The product is exact in fp32 (at most 15 significant bits) unless it overflows, so one
            # rounding of the sum is that of a fused multiply-add. Quarters keep the rest in range.
            plain = q * s
            quarters = (q * (s / F32(4)) + total / F32(4)) * F32(4)
            total = np.where(np.isinf(plain) & np.isfinite(s) & np.isfinite(q), quarters, total + plain)
    return from_fp32(total, "fp32")


def reduce_encode(from_name, to_name, images, n):
    """Wire images of one codec -> the wire image of their sum in another (fp32 memory)."""
    return encode(to_name, decode_reduce(from_name, images, n, "fp32"), "fp32")
