# ctest: name=contract1_codec_ml_dtypes timeout=120 labels=oracle
"""Bytes of the small floating-point formats equal what ml_dtypes, or PyTorch, makes of the same values: elements and
the scales of blocks. Nothing of validation/ is used. ml_dtypes comes from the set-up (.deps/ml_dtypes) or from
Python. PyTorch replaces it if it is absent, without the types that PyTorch cannot convert to. The test is skipped if
both are absent."""

import os
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = os.environ["ZEROPP_SOURCE"]
DUMP = os.path.join(os.environ["ZEROPP_TEST_BIN"], "codec_dump")
F32 = np.float32
SMALLEST = 2.0**-126  # scales under it are stored as zero


class MlDtypes:
    """Values -> bytes of a type of 8 bits or less, rounded to the nearest, ties to even."""

    def __init__(self):
        sys.path.append(os.path.join(SOURCE, ".deps", "ml_dtypes"))
        import ml_dtypes

        self.name = f"ml_dtypes {ml_dtypes.__version__}"
        self.module = ml_dtypes

    def has(self, name):
        return hasattr(self.module, name)

    def bytes_of(self, name, values):
        return values.astype(getattr(self.module, name)).view(np.uint8)

    def values_of(self, name, data):
        return data.view(getattr(self.module, name)).astype(F32)


class Torch:
    """The same with PyTorch."""

    def __init__(self):
        import torch

        self.name = f"PyTorch {torch.__version__}"
        self.module = torch

    def has(self, name):
        return not name.startswith(("float4", "float6")) and hasattr(self.module, name)

    def bytes_of(self, name, values):
        return self.module.from_numpy(values).to(getattr(self.module, name)).view(self.module.uint8).numpy()

    def values_of(self, name, data):
        return self.module.from_numpy(data).view(getattr(self.module, name)).to(self.module.float32).numpy()


def implementation():
    for made in (MlDtypes, Torch):
        try:
            return made()
        except ImportError as reason:
            print(f"{made.__name__}: {reason}")
    print("neither ml_dtypes (cmake/setup.sh check fetches it) nor PyTorch: skipped")
    sys.exit(77)


def bf16_up(scale):
    """Not negative, not subnormal values rounded up to bf16."""
    bits = scale.astype(F32).view(np.uint32)
    return (((bits >> 16) + ((bits & 0xFFFF) != 0)) << 16).astype(np.uint32).view(F32)


def power_of_two(absmax, largest):
    """OCP Microscaling 1.0: of the largest power of two in the block, and of that in the element type."""
    exponent = np.frexp(absmax.astype(np.float64))[1] - np.frexp(np.float64(largest))[1]
    return np.ldexp(1.0, np.where(absmax == 0, -127, np.maximum(exponent, -127))).astype(F32)


# By format: type and largest value of the elements, bits, block, type of the scales.
FORMATS = {
    "fp8e4m3:128": ("float8_e4m3fn", 448.0, 8, 128, "bf16"),
    "fp8e5m2:32": ("float8_e5m2", 57344.0, 8, 32, "bf16"),
    "mxfp8": ("float8_e4m3fn", 448.0, 8, 32, "float8_e8m0fnu"),
    "mxfp6": ("float6_e2m3fn", 7.5, 6, 32, "float8_e8m0fnu"),
    "mxfp4": ("float4_e2m1fn", 6.0, 4, 32, "float8_e8m0fnu"),
    "nvfp4": ("float4_e2m1fn", 6.0, 4, 16, "float8_e4m3fn"),
}


def scales_of(types, scale_type, absmax, largest):
    """-> (divisor of elements, bytes of the blocks' scales or None, bytes after them)."""
    if scale_type == "bf16":
        scale = bf16_up(absmax / F32(largest))
        return scale, (scale.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8), b""
    if scale_type == "float8_e8m0fnu":
        scale = power_of_two(absmax, largest)
        return scale, types.bytes_of(scale_type, scale) if types.has(scale_type) else None, b""
    image_scale = absmax.max(keepdims=True) / F32(448 * 6)
    data = types.bytes_of(scale_type, np.minimum(absmax / (F32(6) * image_scale), F32(448)))
    return types.values_of(scale_type, data) * image_scale, data, image_scale.tobytes() + bytes(12)


def payload_of(codes, bits):
    """Planes of 8, 4 and 2 bits, the widest first with the low bits of the codes."""
    planes, shift = [], 0
    for width in (8, 4, 2):
        if bits & width:
            fields = ((codes.astype(np.uint32) >> shift) & (2**width - 1)).reshape(-1, 8 // width)
            planes.append((fields << (width * np.arange(8 // width))).sum(axis=1).astype(np.uint8))
            shift += width
    return np.concatenate(planes)


def inputs(rng):
    n = 4096
    yield "normal values", rng.standard_normal(n)
    yield "values of all magnitudes", rng.standard_normal(n) * np.repeat(2.0 ** rng.integers(-60, 60, n // 16), 16)
    yield "a range that block scales cover", rng.standard_normal(n) * np.repeat(2.0 ** rng.integers(-16, 2, n // 16),
                                                                                16)
    yield "one value", np.where(np.arange(n) == 5, -3.25, 0.0)
    # All ties and neighbours of small elements, at a scale of one.
    grid = np.arange(-96, 97) / 16
    ties = np.concatenate([grid, np.nextafter(grid.astype(F32), F32(np.inf)),
                           np.nextafter(grid.astype(F32), F32(-np.inf))])
    blocks = np.resize(ties, (len(ties) * 16 // 15 // 128 + 2) * 128).reshape(-1, 16)
    blocks[:, 0] = 6.0
    yield "ties", blocks.reshape(-1)


def encoded(folder, codec, values):
    source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
    values.tofile(source)
    subprocess.run([DUMP, "encode", codec, "fp32", source, target, "0", "0"], check=True)
    return np.fromfile(target, np.uint8)


def compare(folder, types, codec, what, values):
    element, largest, bits, block, scale_type = FORMATS[codec]
    image = encoded(folder, codec, values)
    rows = values.reshape(-1, block)
    absmax = np.abs(rows).max(axis=1)
    compared = []
    with np.errstate(all="ignore"):
        scale, scales, behind = scales_of(types, scale_type, absmax, largest)
        zero = scale < SMALLEST if scale_type != "float8_e8m0fnu" else np.zeros(len(scale), bool)
        scaled = np.clip(rows * np.where(zero, F32(0), F32(1) / scale)[:, None].astype(F32), -largest, largest)
    payload_bytes = -(-values.size * bits // 8 // 16) * 16
    if types.has(element):
        codes = np.where(zero[:, None], 0, types.bytes_of(element, scaled.astype(F32)))
        want = payload_of(codes.reshape(-1), bits)
        compared.append(("elements", image[: len(want)], want))
    if scales is not None:
        scales = np.where(np.repeat(zero, len(scales) // len(zero)), 0, scales).astype(np.uint8)
        compared.append(("scales", image[payload_bytes : payload_bytes + len(scales)], scales))
    compared.append(("the image's scale", image[len(image) - len(behind) :], np.frombuffer(behind, np.uint8)))
    for part, got, want in compared:
        if not np.array_equal(got, want):
            at = np.flatnonzero(got != want)[0]
            sys.exit(f"{codec}, {what}, {part}: {np.count_nonzero(got != want)} bytes differ from {types.name}, "
                     f"the first "
                     f"is {at}: {got[at]:#x} against {want[at]:#x}")
    return {part for part, _, want in compared if len(want)}


def main():
    types = implementation()
    rng = np.random.default_rng(20250929)
    with tempfile.TemporaryDirectory() as folder:
        for codec in FORMATS:
            parts = set()
            for what, values in inputs(rng):
                parts |= compare(folder, types, codec, what, values.astype(F32))
            print(f"{codec}: {', '.join(sorted(parts)) or 'nothing'} as {types.name} has them")


main()
