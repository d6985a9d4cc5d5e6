# ctest: name=contract1_codec_bytes_numpy timeout=400
"""Wire bytes, decoded bits and sums of every codec equal those of the independent implementation.

Formats that validation/zpp_validate/oracles/codecs.py does not know are named and left to the contract tests.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

from zpp_validate.oracles import codecs

SERVER = subprocess.Popen([os.path.join(os.environ["ZEROPP_TEST_BIN"], "codec_dump"), "serve"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
DTYPES = ("fp32", "bf16", "fp16")
BLOCKS = (32, 128, 8192)
COUNTS = (0, 1, 33, 256, 30011)
FUSED = (("int8", "int8"), ("int8:32", "int4:8192"), ("int4", "int4:64"), ("int4", "int8"), ("bf16", "int4"),
         ("int8+had32", "int4+asym"), ("mxfp8", "int3"), ("int8", "int4+sr"),
         ("nvfp4", "nvfp4"))
checks = 0


def dump(*args):
    """The output of the operation."""
    print(*args, sep="\t", file=SERVER.stdin, flush=True)
    lines = []
    for line in SERVER.stdout:
        if line == "done\n":
            return "".join(lines)
        lines.append(line)
    sys.exit(f"codec_dump ended with {SERVER.wait()} in: {' '.join(map(str, args))}")


def through(folder, operation, args, data, dtype, more=()):
    source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
    np.ascontiguousarray(data).tofile(source)
    dump(operation, *args, source, target, *more)
    return np.fromfile(target, dtype)


def expect_equal(got, want, what):
    global checks
    checks += 1
    if got.shape != want.shape or not np.array_equal(got, want):
        where = "" if got.shape != want.shape else f", first difference at {np.flatnonzero(got != want)[0]}"
        sys.exit(f"{what}: {got.shape} against {want.shape} expected{where}")


def special_fp32():
    """Blocks of 32 (parts of larger ones) with the values that have rules of their own."""
    tiny = np.float32(2.0**-126)
    largest = np.finfo(np.float32).max
    rows = [
        [np.nan, 1, 2], [np.inf, 1, -1], [-np.inf, np.inf], [0.0, -0.0], [-0.0],
        [tiny / 2, -tiny / 4], [tiny * 7, tiny], [tiny * 127, -tiny], [tiny * 7 * 0.999],
        [tiny * 127 * 0.9999, tiny], [largest, -largest, 1], [-largest, largest / 2], [largest * 0.5],
        [1, 0.5, -0.5, 1.5 / 127, 2.5 / 127, 1.5 / 7, -2.5 / 7], [1e-45], [127, 0.5, 1.5, 2.5, -0.5],
        [7, 0.5, 1.5, 2.5, -0.5, -1.5],
    ]
    values = np.zeros((len(rows), 32), np.float32)
    for row, given in zip(values, rows):
        row[: len(given)] = given
    return values.reshape(-1).view(np.uint32)


def random_fp32(rng, n):
    """Magnitudes over the whole range, a new one every 32 values; now and then one that is not finite."""
    scale = np.repeat(2.0 ** rng.integers(-135, 126, -(-n // 32)), 32)[:n]
    with np.errstate(all="ignore"):
        values = (rng.standard_normal(n) * scale).astype(np.float32)
    if n > 1000:
        values[rng.integers(0, n, 3)] = [np.nan, np.inf, -np.inf]
    return values.view(np.uint32)


def inputs(rng, dtype):
    for n in COUNTS:
        normal = rng.standard_normal(n).astype(np.float32)
        yield f"{n} normal values", codecs.from_fp32(normal, dtype)
        yield f"{n} values of all magnitudes", codecs.from_fp32(random_fp32(rng, n).view(np.float32), dtype)
    if dtype == "fp32":
        yield "special values", special_fp32()
        yield "random bits", rng.integers(0, 2**32, 40000, dtype=np.uint32)
    else:
        yield "special values", codecs.from_fp32(special_fp32().view(np.float32), dtype)
        yield "all patterns", np.arange(65536, dtype=np.uint16)


def check_codec(folder, rng, name, dtype):
    for what, memory in inputs(rng, dtype):
        what = f"{name}, {dtype}, {what}"
        n = len(memory)
        draws = int(rng.integers(0, 2**63)), 32 * int(rng.integers(0, 2**50))
        image = codecs.encode(name, memory, dtype, *draws)
        expect_equal(np.array(len(image)), np.array(codecs.wire_bytes(name, n, dtype)), what + ": size")
        expect_equal(through(folder, "encode", (name, dtype), memory, np.uint8, draws), image, what + ": encode")
        expect_equal(through(folder, "decode", (name, dtype, n), image, codecs.BITS_TYPE[dtype]),
                     codecs.decode(name, image, n, dtype), what + ": decode")
        images = [codecs.encode(name, memory[rng.permutation(n)], dtype) for _ in range(3)] + [image]
        expect_equal(through(folder, "decode_reduce", (name, dtype, n, 4), np.concatenate(images), np.uint32),
                     codecs.decode_reduce(name, images, n, dtype), what + ": decode_reduce")


def check_reduce_encode(folder, rng, pair):
    for what, memory in inputs(rng, "fp32"):
        n = len(memory)
        images = [codecs.encode(pair[0], memory[rng.permutation(n)], "fp32") for _ in range(3)]
        got = through(folder, "reduce_encode", (*pair, n, 3), np.concatenate(images), np.uint8)
        expect_equal(got, codecs.reduce_encode(*pair, images, n), f"{pair}, {what}: reduce_encode")


def codecs_of(name, block_varies):
    """With their smallest, a usual and their largest block, other widths and what has blocks of one size with one of
    them; the options with widths of one plane and of two."""
    if name in codecs.CASTS:
        return [name]
    if name in codecs.FLOATS:
        return [f"{name}:{block}" for block in BLOCKS] if block_varies else [name]
    blocks = BLOCKS if name in ("int4", "int7", "int8") else BLOCKS[1:2]
    options = codecs.OPTION_SETS if name in ("int3", "int4", "int8") else ()
    return [f"{name}:{block}" for block in blocks] + [f"{name}:64+{option}" for option in options]


def main():
    rng = np.random.default_rng(20230610)
    registered = {name: smallest != largest for name, smallest, largest in map(str.split, dump("formats").splitlines())}
    missing = sorted(set(codecs.FORMATS) - set(registered))
    if missing:
        sys.exit(f"not registered: {', '.join(missing)}")
    for name in sorted(set(registered) - set(codecs.FORMATS)):
        print(f"{name}: no independent implementation in validation/zpp_validate/oracles/codecs.py, not compared")
    memory = "/dev/shm"  # thousands of files, each written and read once: no disk shall wait for them
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        for name in codecs.FORMATS:
            for codec in codecs_of(name, registered[name]):
                for dtype in DTYPES:
                    check_codec(folder, rng, codec, dtype)
        for pair in FUSED:
            check_reduce_encode(folder, rng, pair)
    SERVER.stdin.close()
    if SERVER.wait() != 0:
        sys.exit("codec_dump did not end well")
    print(f"{checks} comparisons, no difference")


main()
