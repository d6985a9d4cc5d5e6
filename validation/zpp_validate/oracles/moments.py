"""Optimizers whose moments are kept in bf16 or in 8 bits, in NumPy, by the rules of docs/concepts/numerics.md. Shares
nothing with the library.

A step widens the moments to float32, computes, and stores the new ones. bf16: an element's moment i is rounded up where
the 16 bits that are dropped, plus 16 bits of a draw, carry; the draw is bits 16 i to 16 i + 15 of word number % 4 of
Philox4x32-10 with a key of two words and the counter number / 4. 8 bits: blocks of 64 elements, a float32 scale each,
the largest magnitude; a code is the nearest of 256 values.
"""

import numpy as np

from zpp_validate.oracles import codecs

BLOCK = 64
SIGNED = {"AdamW": (True, False), "SGD": (True,), "Lion": (True,)}
LEARNING_RATE, BETA1, BETA2, MOMENTUM, EPSILON = 0.01, 0.9, 0.95, 0.9, 1e-8


def dynamic_map(signed):
    """By code: the values from 0 up; with a sign, negative ones from code 255 down."""
    magnitudes = [0.0]
    for exponent in range(-6, 1):
        parts = 2 ** (exponent + 6 + (0 if signed else 1))
        edges = np.linspace(0.1, 1, parts + 1)
        magnitudes += list(10.0 ** exponent * (edges[:-1] + edges[1:]) / 2)
    magnitudes = np.array([*magnitudes, 1.0], np.float32)
    return np.concatenate([magnitudes, -magnitudes[127:0:-1]]) if signed else magnitudes


def codes_of(values, signed):
    """Codes and scale of a block of float32 values."""
    scale = np.max(np.abs(values))
    if not np.isfinite(scale):
        return np.zeros(len(values), np.uint8), np.float32(np.nan)
    if scale < np.finfo(np.float32).tiny:
        return np.zeros(len(values), np.uint8), np.float32(0)
    scaled = values * (np.float32(1) / scale)
    table = dynamic_map(signed)
    magnitudes = table[:129] if signed else table
    bounds = ((magnitudes[:-1].astype(np.float64) + magnitudes[1:]) / 2).astype(np.float32)
    index = np.searchsorted(bounds, np.abs(scaled), side="right")
    if signed:
        return np.where(np.signbit(values), -np.minimum(index, 127), index).astype(np.int64).astype(np.uint8), scale
    return np.where((index == 0) & (values > 0), 1, index).astype(np.uint8), scale


def fma(a, b, c):
    """Fused multiply-add of float32 values: the product is exact in the 64 bits of a long double."""
    return (np.longdouble(a) * np.longdouble(b) + np.longdouble(c)).astype(np.float32)


class Kept:
    """One moment of n elements."""

    def __init__(self, kind, signed, n):
        self.kind, self.signed = kind, signed
        self.values = np.zeros(n, {"fp32": np.float32, "bf16": np.uint16, "int8": np.uint8}[kind])
        self.scales = np.zeros(-(-n // BLOCK) if kind == "int8" else 0, np.float32)

    def wide(self):
        if self.kind == "bf16":
            return (self.values.astype(np.uint32) << 16).view(np.float32)
        if self.kind == "int8":
            return dynamic_map(self.signed)[self.values] * np.repeat(self.scales, BLOCK)[:len(self.values)]
        return self.values

    def store(self, wide, draws):
        if self.kind == "bf16":
            bits = wide.view(np.uint32)
            up = ((bits.astype(np.uint64) + draws) >> 16).astype(np.uint16)
            saturated = np.where((up & 0x7FFF) == 0x7F80, up - 1, up)
            self.values = np.where(np.isfinite(wide), saturated,
                                   np.where(np.isnan(wide), 0x7FC0, bits >> 16)).astype(np.uint16)
        elif self.kind == "int8":
            for block, first in enumerate(range(0, len(wide), BLOCK)):
                part = slice(first, first + BLOCK)
                self.values[part], self.scales[block] = codes_of(wide[part], self.signed)
        else:
            self.values = wide


def draws_of(key, number, n, state):
    """16 bits for each element."""
    words = codecs.random_words(key, np.uint64(number) + np.arange(n, dtype=np.uint64))
    return (words >> np.uint64(16 * state)) & np.uint64(0xFFFF)


def step(optimizer, t, g, weight, wide):
    """The new weight and moments, in float32 as the library spells the arithmetic out."""
    f = np.float32
    if optimizer == "AdamW":
        m = fma(f(BETA1), wide[0], f(1 - BETA1) * g)
        v = fma(f(BETA2), wide[1], f(1 - BETA2) * (g * g))
        denominator = fma(np.sqrt(v), f(1 / np.sqrt(1 - BETA2 ** t)), f(EPSILON))
        update = (m * f(1 / (1 - BETA1 ** t))) / denominator
        return fma(-f(LEARNING_RATE), update, weight * f(1)), (m, v)
    if optimizer == "Lion":
        mix = fma(f(BETA1), wide[0], f(1 - BETA1) * g)
        return fma(-f(LEARNING_RATE), np.sign(mix), weight * f(1)), (fma(f(BETA2), wide[0], f(1 - BETA2) * g),)
    decayed = fma(f(0), weight, g)  # NaN where the weight is not finite
    b = fma(f(MOMENTUM), wide[0], decayed)
    return fma(-f(LEARNING_RATE), fma(f(1), b, f(0) * decayed), weight), (b,)


def train(optimizer, kind, gradients, number, key):
    """Bytes of the weights and of each moment with its scales, after steps from zero."""
    n = gradients.shape[1]
    weight, kept = np.zeros(n, np.float32), [Kept(kind, signed, n) for signed in SIGNED[optimizer]]
    for t, g in enumerate(gradients, 1):
        with np.errstate(all="ignore"):
            weight, moments = step(optimizer, t, g, weight, [each.wide() for each in kept])
            for state, (each, wide) in enumerate(zip(kept, moments)):
                each.store(wide, draws_of(key + t, number, n, state))
    return weight, kept
