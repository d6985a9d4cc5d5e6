"""Block codecs in NumPy, written from their description: an independent second implementation.

Nothing here is taken from the library. Rounding is done by arithmetic on the value, not on bits, so
that both can only agree by both being right.

Values in memory are arrays of raw bits: uint32 for fp32, uint16 for bf16 and fp16. A wire image is a
uint8 array: payload (whole blocks), then one scale per block, each padded with zeros to 16 bytes.

Names are FORMAT[:BLOCK][+OPTION...]. Rule of int2 .. int8 (b bits, qmax = 2^(b-1) - 1): a block's scale is
s = max|x| / qmax in fp32, stored as bf16 rounded up and at most the largest finite bf16;
q = clamp(rint(x * (1 / s)), -qmax, qmax). A scale that would be subnormal is 0 and so is its block; a block
with NaN or Inf stores the canonical NaN as its scale and zeros as payload. Options:
  +wide   all 2^b codes, s = max|x| / 2^(b-1)
  +asym   q = rint((x - m) * (1 / s)) in 0 .. 2^b - 1 with m = min x, stored as bf16 rounded down (a zero as +0) after
          the scale, and s = (max x - m) / (2^b - 1); a range that overflows is not finite
  +s32    scale and minimum as fp32
  +sr     q = floor(t) + (u < t - floor(t)) instead of rint(t), t = x * (1 / s), clamped: u = (w >> 8) / 2^24 of word
          number % 4 of Philox4x32-10 (Salmon et al., SC'11) with a key of two words and the counter number / 4
  +had32  quantized is H x of every 32 values: x / sqrt(32), then butterflies of distance 1 to 16; beyond 2^122 a
          block is not finite
fp8e4m3 and fp8e5m2: s = max|x| / largest element, as bf16 rounded up; mxfp8, mxfp6, mxfp4 (OCP Microscaling 1.0):
blocks of 32, s = 2^(floor(log2 max|x|) - emax), one byte of exponent. An element is the nearest value, ties to even, of
a table of all values of its format, at most the largest one. nvfp4: blocks of 16 E2M1 elements; the image scale g =
max|x| / 2688 over the blocks that are finite (fp32, 0 where it would be subnormal), in 16 bytes after the block
scales; a block's scale is s = max|x| / (6 g) as the nearest E4M3 value, 0 where s * g would be subnormal, NaN (0x7F)
where the block is not finite; elements as above, of x * (1 / (s * g)). Payload: planes of 8, 4, 2 and 1 bits per value,
the widest first with the low bits of the codes.
"""

import numpy as np

F32 = np.float32
LARGEST = {"fp32": float(np.finfo(F32).max), "bf16": 255 * 2.0**120, "fp16": 65504.0}
CANONICAL_NAN = {"fp32": 0x7FC00000, "bf16": 0x7FC0, "fp16": 0x7E00}
BITS_TYPE = {"fp32": np.uint32, "bf16": np.uint16, "fp16": np.uint16}
CASTS = ("none", "bf16", "fp16")
INTEGERS = {"int8": (8, 256)} | {f"int{bits}": (bits, 128) for bits in range(2, 8)}  # bits, default block
OPTION_SETS = ("asym", "asym+s32", "asym+sr", "had32", "had32+s32", "had32+s32+sr+wide", "had32+s32+wide", "had32+sr",
               "had32+wide", "s32", "s32+sr", "s32+wide", "sr", "sr+wide", "wide")
# Exponent bits, mantissa bits, largest element, default block.
FLOATS = {"fp8e4m3": (4, 3, 448.0, 128), "fp8e5m2": (5, 2, 57344.0, 128), "mxfp8": (4, 3, 448.0, 32),
          "mxfp6": (2, 3, 7.5, 32), "mxfp4": (2, 1, 6.0, 32), "nvfp4": (2, 1, 6.0, 16)}
FORMATS = CASTS + tuple(INTEGERS) + tuple(FLOATS)


def parse(name):
    """'int8:256+wide' -> ('int8', 256, {'wide'}); the block is 1 for formats without blocks."""
    name, *options = name.split("+")
    format_name, _, block = name.partition(":")
    if format_name in CASTS:
        return format_name, 1, set()
    default = INTEGERS[format_name][1] if format_name in INTEGERS else FLOATS[format_name][3]
    return format_name, int(block) if block else default, set(options)


def bits_of(format_name):
    if format_name in INTEGERS:
        return INTEGERS[format_name][0]
    exponent, mantissa, _, _ = FLOATS[format_name]
    return 1 + exponent + mantissa


def scale_bytes_of(format_name, options):
    """Bytes of one block's scale, and of its minimum where there is one."""
    return 1 if format_name.startswith(("mx", "nv")) else (4 if "s32" in options
                                                           else 2) * (2 if "asym" in options else 1)


def elements(format_name):
    """Magnitudes by their code, from 0 to the largest: subnormals, then every power of two with its fractions."""
    exponent_bits, mantissa_bits, largest, _ = FLOATS[format_name]
    bias = 2 ** (exponent_bits - 1) - 1
    fractions = np.arange(2**mantissa_bits) / 2**mantissa_bits
    rows = [fractions * 2.0 ** (1 - bias)] + [(1 + fractions) * 2.0 ** (e - bias) for e in range(1, 2**exponent_bits)]
    table = np.concatenate(rows)
    return table[table <= largest]


def nearest_code(values, table):
    """Codes of the nearest magnitudes, ties to the even code."""
    below = np.clip(np.searchsorted(table, values, side="right") - 1, 0, len(table) - 2)
    low, high = values - table[below], table[below + 1] - values
    up = (high < low) | ((high == low) & (below % 2 == 1))
    return below + up


def rotated(values):
    """H x of every 32 float32 values."""
    x = values.reshape(-1, 32) * F32(1 / np.sqrt(32))
    for distance in (1, 2, 4, 8, 16):
        pairs = x.reshape(-1, 32 // (2 * distance), 2, distance)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, 32)
    return x.reshape(values.shape)


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
    format_name, block, options = parse(name)
    if format_name in CASTS:
        payload = n * (4 if wire_dtype(format_name, memory_dtype) == "fp32" else 2)
        return -(-payload // 16) * 16
    blocks = -(-n // block)
    payload = blocks * block * bits_of(format_name) // 8
    image_scale = 16 if format_name == "nvfp4" and n else 0
    return -(-payload // 16) * 16 + -(-scale_bytes_of(format_name, options) * blocks // 16) * 16 + image_scale


def planes_of(bits):
    """(width, lowest bit) of the planes of a payload."""
    shift = 0
    for width in (8, 4, 2, 1):
        if bits & width:
            yield width, shift
            shift += width


def pack(codes, bits):
    """Codes (integers) -> payload."""
    planes = [np.zeros(0, np.uint8)]
    for width, shift in planes_of(bits):
        fields = ((codes >> shift) & (2**width - 1)).reshape(-1, 8 // width)
        planes.append((fields << (width * np.arange(8 // width))).sum(axis=1).astype(np.uint8))
    return np.concatenate(planes)


def unpack_codes(payload, bits):
    """The reverse."""
    count = len(payload) * 8 // bits
    codes = np.zeros(count, np.int64)
    at = 0
    for width, shift in planes_of(bits):
        plane = payload[at : at + count * width // 8].astype(np.int64)
        at += len(plane)
        codes |= ((plane[:, None] >> (width * np.arange(8 // width))) & (2**width - 1)).reshape(-1) << shift
    return codes


def random_words(key, numbers):
    """Words of Philox4x32-10 by number: each block of the generator, of four words, is made once."""
    numbers = np.asarray(numbers, np.uint64)
    if not numbers.size:
        return np.zeros(0, np.uint64)
    blocks = numbers // np.uint64(4)
    first, last = blocks.min(), blocks.max()
    if last - first >= numbers.size:  # far apart
        return np.choose((numbers % np.uint64(4)).astype(np.int64), philox(key, blocks))
    made = np.stack(philox(key, first + np.arange(int(last - first) + 1, dtype=np.uint64)), axis=1)
    return made[(blocks - first).astype(np.int64), (numbers % np.uint64(4)).astype(np.int64)]


def philox(key, counter):
    """The four words of each of these blocks (Salmon et al., SC11)."""
    low = np.uint64(0xFFFFFFFF)
    x = [counter & low, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        x = [(second >> np.uint64(32)) ^ x[1] ^ np.uint64(keys[0]), second & low,
             (first >> np.uint64(32)) ^ x[3] ^ np.uint64(keys[1]), first & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def uniform(key, numbers):
    """The draws of +sr by number, in [0, 1)."""
    return ((random_words(key, numbers) >> np.uint64(8)).astype(np.float64) / 2**24).astype(F32)


def stored_scale(scale, rounded_up):
    """Values (float32, not negative) as stored: (values, raw bits). Subnormal ones are 0."""
    exact = scale.astype(np.float64)
    if rounded_up:
        quantum = bf16_quantum(exact)
        exact = np.minimum(np.ceil(exact / quantum) * quantum, LARGEST["bf16"])
    value = np.where(exact < 2.0**-126, 0.0, exact).astype(F32)
    return value, from_fp32(value, "bf16" if rounded_up else "fp32")


def integer_codes(values, finite, bits, options, draws):
    """Blocks of finite values -> codes, and the raw bits that are stored for each block. `draws`: of +sr, by value."""
    dtype = "fp32" if "s32" in options else "bf16"
    if "asym" in options:
        minimum = values.min(axis=1, initial=np.inf) if values.size else np.zeros(len(values), F32)
        minimum = minimum.astype(np.float64)
        if dtype == "bf16":
            quantum = bf16_quantum(minimum)
            minimum = np.floor(minimum / quantum) * quantum
            minimum = np.where(minimum < -LARGEST["bf16"], -np.inf, minimum)
        minimum = minimum.astype(F32) + F32(0)  # -0 is stored as +0
        extent = values.max(axis=1, initial=-np.inf) - minimum if values.size else minimum
        finite = finite & np.isfinite(extent)
        steps = F32(2**bits - 1)
        scale = np.where(finite, extent, F32(0)) / steps
        low, high = F32(0), steps
    else:
        minimum = np.zeros(len(values), F32)
        levels = F32(2 ** (bits - 1))
        steps = levels if "wide" in options else levels - F32(1)
        scale = np.abs(values).max(axis=1, initial=0) / steps
        low, high = -steps, levels - F32(1)
    scale, stored = stored_scale(scale.astype(F32), dtype == "bf16")
    reciprocal = np.where(scale == 0, F32(0), F32(1) / scale).astype(F32)
    scaled = (values - np.where(finite, minimum, F32(0))[:, None]) * reciprocal[:, None]
    if "sr" in options:
        below = np.floor(scaled)
        q = below + (draws.reshape(values.shape) < scaled - below)
    else:
        q = np.rint(scaled)
    q = np.clip(q, low, high)
    q = np.where(finite[:, None], q, 0)
    stored = np.where(finite, stored, CANONICAL_NAN[dtype]).astype(BITS_TYPE[dtype])
    if "asym" in options:
        # Exact in the stored type by now.
        bottom = minimum.view(np.uint32) if dtype == "fp32" else (minimum.view(np.uint32) >> 16).astype(np.uint16)
        stored = np.stack([stored, np.where(finite, bottom, 0).astype(BITS_TYPE[dtype])], axis=1).reshape(-1)
    return q.astype(np.int64), stored


def float_codes(values, finite, format_name):
    """Codes and stored scales for small floating-point elements, and the bytes of an image after the scales."""
    table = elements(format_name)
    absmax = np.abs(values).max(axis=1, initial=0)
    image = np.zeros(0, np.uint8)
    if format_name == "nvfp4":
        g = stored_scale(absmax.max(initial=0, keepdims=True) / F32(6 * 448), False)[0]
        ratio = np.where(g == 0, F32(0), absmax / (F32(6) * g)).astype(F32)
        table_of_scales = elements("fp8e4m3")
        stored = nearest_code(ratio.astype(np.float64), table_of_scales).astype(np.uint8)
        scale = table_of_scales[stored].astype(F32) * g
        stored = np.where(scale < F32(2.0**-126), 0, stored)
        scale = np.where(stored == 0, F32(0), scale)
        stored = np.where(finite, stored, 0x7F).astype(np.uint8)
        if len(values):
            image = np.concatenate([g.view(np.uint8), np.zeros(12, np.uint8)])
    elif format_name.startswith("mx"):
        _, exponent = np.frexp(absmax.astype(np.float64))
        emax = int(np.floor(np.log2(table[-1])))
        exponent = np.where(absmax == 0, -127, np.maximum(exponent - 1 - emax, -127))
        scale = np.ldexp(1.0, exponent).astype(F32)
        stored = np.where(finite, exponent + 127, 255).astype(np.uint8)
    else:
        scale, stored = stored_scale((absmax / F32(table[-1])).astype(F32), True)
        stored = np.where(finite, stored, CANONICAL_NAN["bf16"]).astype(np.uint16)
    reciprocal = np.where(scale == 0, F32(0), F32(1) / scale).astype(F32)
    scaled = values * reciprocal[:, None]
    codes = nearest_code(np.abs(scaled).astype(np.float64), table)
    codes = codes + np.where(np.signbit(scaled), 2 ** (bits_of(format_name) - 1), 0)
    return np.where(finite[:, None] & (scale != 0)[:, None], codes, 0), stored, image


def encode(name, memory_bits, memory_dtype, key=0, first=0):
    """Raw bits of n values -> wire image. The draws of +sr: of `key`, numbered from `first` on."""
    format_name, block, options = parse(name)
    if format_name in CASTS:
        to = wire_dtype(format_name, memory_dtype)
        same = to == memory_dtype
        wire = memory_bits if same else from_fp32(to_fp32(memory_bits, memory_dtype), to)
        return padded(np.ascontiguousarray(wire).view(np.uint8))

    n = len(memory_bits)
    values = np.zeros(-(-n // block) * block, F32)
    values[:n] = to_fp32(memory_bits, memory_dtype)
    with np.errstate(all="ignore"):
        if "had32" in options:
            values = rotated(values)
            values = np.where(np.abs(values) > 2.0**122, F32(np.inf), values)
        values = values.reshape(-1, block)
        finite = np.isfinite(values).all(axis=1)
        values = np.where(finite[:, None], values, F32(0))
        if format_name in INTEGERS:
            draws = uniform(key, first + np.arange(values.size)) if "sr" in options else None
            codes, stored = integer_codes(values, finite, bits_of(format_name), options, draws)
            image = np.zeros(0, np.uint8)
        else:
            codes, stored, image = float_codes(values, finite, format_name)
    return np.concatenate([padded(pack(codes.reshape(-1), bits_of(format_name))), padded(stored.view(np.uint8)), image])


def unpack(name, image, n, memory_dtype):
    """Wire image -> (q, s, m) as float32, each of n values, which stand for q * s + m. For casts s is 1."""
    format_name, block, options = parse(name)
    zero = np.zeros(n, F32)
    if format_name in CASTS:
        dtype = wire_dtype(format_name, memory_dtype)
        wire = image[: n * BITS_TYPE[dtype]().itemsize].view(BITS_TYPE[dtype])
        return to_fp32(wire, dtype), np.ones(n, F32), zero
    bits = bits_of(format_name)
    blocks = -(-n // block)
    payload = blocks * block * bits // 8
    codes = unpack_codes(image[:payload], bits)
    offset = -(-payload // 16) * 16
    stored = image[offset : offset + scale_bytes_of(format_name, options) * blocks]
    if format_name in FLOATS:
        table = elements(format_name)
        magnitude = codes & (2 ** (bits - 1) - 1)
        q = np.where(codes >= 2 ** (bits - 1), -table[magnitude], table[magnitude]).astype(F32)
        if format_name == "nvfp4":
            at = offset + -(-blocks // 16) * 16
            g = image[at : at + 4].view(F32) if n else np.zeros(1, F32)
            scales = np.append(elements("fp8e4m3"), np.nan)
            scale = scales[stored].astype(F32) * g
        elif format_name.startswith("mx"):
            scale = np.where(stored == 255, np.nan, np.ldexp(1.0, stored.astype(np.int64) - 127)).astype(F32)
        else:
            scale = to_fp32(stored.view(np.uint16), "bf16")
    else:
        dtype = "fp32" if "s32" in options else "bf16"
        scale = to_fp32(stored.view(BITS_TYPE[dtype]), dtype)
        if "asym" in options:
            q = codes.astype(F32)
            return q[:n], np.repeat(scale[0::2], block)[:n], np.repeat(scale[1::2], block)[:n]
        q = np.where(codes >= 2 ** (bits - 1), codes - 2**bits, codes).astype(F32)
    return q[:n], np.repeat(scale, block)[:n], zero


def finite_products(name, q, s, m):
    """q * s (+ m), kept finite where s is."""
    with np.errstate(all="ignore"):
        values = q * s + m if "asym" in name else q * s
        largest = F32(LARGEST["fp32"])
        return np.where(np.isnan(values), values, np.clip(values, -largest, largest))


def rotated_back(name, values):
    """Values of whole blocks, with the rotation undone."""
    return rotated(values) if "had32" in name else values


def decode(name, image, n, memory_dtype):
    """Wire image -> raw bits of n values. Finite blocks stay finite."""
    format_name, block, _ = parse(name)
    if format_name in CASTS and wire_dtype(format_name, memory_dtype) == memory_dtype:
        return image.view(BITS_TYPE[memory_dtype])[:n].copy()
    whole = -(-n // block) * block
    q, s, m = unpack(name, image, whole, memory_dtype)
    values = q if format_name in CASTS else finite_products(name, q, s, m)
    with np.errstate(all="ignore"):
        return from_fp32(rotated_back(name, values)[:n], memory_dtype)


def decode_reduce(name, images, n, memory_dtype):
    """Wire images -> raw bits of the fp32 sum, in the order of the images, from zero."""
    format_name, block, options = parse(name)
    whole = -(-n // block) * block
    total = np.zeros(whole, F32)
    with np.errstate(all="ignore"):
        for image in images:
            q, s, m = unpack(name, image, whole, memory_dtype)
            if options & {"asym", "s32"} or format_name == "nvfp4":
                total = total + finite_products(name, q, s, m)
                continue
            # The product is exact in fp32 (at most 15 significant bits) unless it overflows, so one
            # rounding of the sum is that of a fused multiply-add. Quarters keep the rest in range.
            plain = q * s
            quarters = (q * (s / F32(4)) + total / F32(4)) * F32(4)
            total = np.where(np.isinf(plain) & np.isfinite(s) & np.isfinite(q), quarters, total + plain)
        total = rotated_back(name, total)[:n]
    return from_fp32(total, "fp32")


def reduce_encode(from_name, to_name, images, n):
    """Wire images of one codec -> the wire image of their sum in another (fp32 memory)."""
    return encode(to_name, decode_reduce(from_name, images, n, "fp32"), "fp32")
