"""Checks a trace of zpp_kernels: its times and shares are derived again from its samples and ceilings, its bytes from
its shapes. The bytes of embedding_* depend on the tokens, which a trace does not hold: they are only bounded."""

import hashlib
import json
import math
import re

from zpp_validate.forms import wire
from zpp_validate.forms.settings import moment_bytes
from zpp_validate.readers import trace_format as fmt
from zpp_validate.stats import sample_statistics

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
MEMORY = ("copy", "read", "write")
NORM_BLOCK = 1024  # values of which the norm keeps a sum in fp64
EXACT_ESCAPES = 32  # of which one is an escape
PARTS = 4 * 8  # of reorder_encode: nodes times ranks of a node


def close(value, wanted, share=1e-9):
    return math.isclose(value, wanted, rel_tol=share, abs_tol=1e-300)


def integers(shape):
    return [int(word) for word in re.findall(r"\d+", shape)]


def flat_bytes(row):
    """(read, written) of kernels on flat arrays; None of others."""
    kernel, codec, element = row["kernel"], row["variant"], BYTES[row["dtype"]]
    sizes = integers(row["shape"])
    n = sizes[-1]
    image = lambda name, count: wire.wire_bytes(name, count, element)
    moments = 2 * moment_bytes(codec.partition("moments=")[2] or "fp32", n)
    if kernel == "reorder_encode":
        block = wire.codec_block(codec)
        part = max(n // PARTS // block, 1) * block
        return PARTS * part * element, sizes[1] * image(codec, sizes[0] * part)
    if kernel == "decode_reduce":
        return sizes[0] * image(codec, n), 4 * n
    if kernel == "decode_reduce_encode":
        before, after = codec.split(">")
        return sizes[0] * image(before, n), image(after, n)
    if kernel.startswith("exact_"):
        blocks = -(-n // wire.EXACT_BLOCK)
        image = wire.exact_bytes(n, integers(codec)[0], n // EXACT_ESCAPES)
        return {"exact_count": (4 * n, 16 * blocks), "exact_encode": (4 * n + 2 * blocks, image),
                "exact_decode": (image + 2 * n, 2 * n)}[kernel]
    forms = {"copy": lambda: (n * element, n * element), "clear": lambda: (0, n * element),
             "convert": lambda: (4 * n, n * element), "encode": lambda: (n * element, image(codec, n)),
             "decode": lambda: (image(codec, n), n * element), "decode_add": lambda: (image(codec, n) + 4 * n, 4 * n),
             "adamw": lambda: (8 * n + moments, 4 * n + (element if element == 2 else 0) * n + moments),
             "adamw_encode": lambda: (8 * n + moments,
                                      4 * n + moments + image(codec.partition(":")[2].partition(",")[0], n)),
             "gradient_norm": lambda: (4 * n, 8 * -(-n // NORM_BLOCK)), "add": lambda: (8 * n, 4 * n)}
    return forms[kernel]() if kernel in forms else None


def block_bytes(row, activation):
    """(read, written) of kernels of a GPT's block with weights of `dtype` and activations of so many bytes; None of
    others."""
    a, e, sizes, variant = activation, BYTES[row["dtype"]], integers(row["shape"]), row["variant"]
    if row["kernel"].startswith("attention"):
        values = math.prod(sizes)
        return ((3 * values * a, values * a) if row["kernel"] == "attention_forward"
                else (5 * values * a, 3 * values * a))
    if row["kernel"] == "rotary":  # queries and keys, and the angles of all positions
        turned = 2 * math.prod(sizes) * a
        return turned + 4 * sizes[1] * sizes[3], turned
    rows, columns, out = (*sizes, 0, 0)[:3]
    bias, residual, gelu = (word in variant for word in ("bias", "residual", "gelu"))
    weights = columns * out
    forms = {
        "layernorm_forward": lambda: (rows * columns * a + 2 * columns * e, rows * columns * a + 8 * rows),
        "layernorm_backward": lambda: ((3 if variant == "add" else 2) * rows * columns * a + columns * e + 8 * rows,
                                       rows * columns * a + 8 * columns),
        "rmsnorm_forward": lambda: (rows * columns * a + columns * e, rows * columns * a + 4 * rows),
        "rmsnorm_backward": lambda: ((3 if variant == "add" else 2) * rows * columns * a + columns * e + 4 * rows,
                                     rows * columns * a + 4 * columns),
        "swiglu_forward": lambda: (2 * rows * columns * a, rows * columns * a),
        "swiglu_backward": lambda: (3 * rows * columns * a, 2 * rows * columns * a),
        "linear_forward": lambda: ((rows * columns + residual * rows * out) * a + (weights + bias * out) * e,
                                   rows * out * a),
        "linear_gelu_forward": lambda: (rows * columns * a + (weights + out) * e, 2 * rows * out * a),
        "linear_backward": lambda: ((rows * out + (1 + gelu) * rows * columns) * a + weights * e,
                                    rows * columns * a + 4 * (weights + bias * out)),
    }
    return forms[row["kernel"]]() if row["kernel"] in forms else None


class Checker:
    def __init__(self, trace):
        self.found = []
        self.attributes = trace.attributes
        self.rows = trace.rows("results")
        self.rates = {row["name"]: row["rate"] for row in trace.rows("ceilings")}
        self.ceilings = trace.rows("ceilings")
        self.samples = [[] for _ in self.rows]
        for row in trace.rows("samples"):
            if self.require(row["result"] < len(self.rows), f"a sample of row {row['result']}, which is not there"):
                self.samples[row["result"]].append(1e6 * row["time"])

    def require(self, condition, reason):
        if not condition:
            self.found.append(reason)
        return bool(condition)

    def check(self):
        a = self.attributes
        self.require(a["complete"] == 1, "not complete")
        self.require((a["schema"], a["schema_version"]) == (fmt.SCHEMA, fmt.SCHEMA_VERSION),
                     f"schema {a['schema']!r} {a['schema_version']!r}")
        self.require(a["verdict"] == "VALID", f"the run itself says {a['verdict']}")
        self.require(hashlib.sha256(a["config_json"].encode()).hexdigest() == a["config_hash"],
                     "config_hash is not the hash of config_json")
        backend = json.loads(a["config_json"]).get("backend")
        self.require(a["backend"] == backend, f"backend {a['backend']}, but the configuration says {backend}")
        self.check_ceilings()
        if not self.found:
            for row, samples in zip(self.rows, self.samples):
                self.check_row(row, samples)
        return self.found

    def check_ceilings(self):
        # `to host`, `from host`: not in old traces of a GPU.
        needed = {"copy", "read", "write", "fp32", "copy again",
                  *(["memcpy"] if self.attributes["backend"] == "host" else [])}
        self.require(needed <= set(self.rates), f"no ceiling {', '.join(sorted(needed - set(self.rates)))}")
        self.require(len(self.rates) == len(self.ceilings), "a ceiling comes twice")
        for row in self.ceilings:
            self.require(math.isfinite(row["rate"]) and row["rate"] > 0 and row["amount"] > 0, f"ceiling {row['name']}")

    def check_row(self, row, samples):
        name = "/".join(row[part] for part in ("kernel", "variant", "dtype", "shape"))
        if not self.require(samples and min(samples) > 0 and all(map(math.isfinite, samples)),
                            f"{name}: no sane samples"):
            return
        s = sample_statistics.summarize(samples)
        for column, wanted in (("time", s.median), ("time_low", s.low), ("time_high", s.high), ("p95", s.p95)):
            self.require(close(row[column], wanted), f"{name}: {column} {row[column]}, its samples say {wanted}")
        self.require(close(row["cv"], s.variation, 1e-6) or abs(row["cv"] - s.variation) < 1e-12,
                     f"{name}: cv {row['cv']}")
        self.require(row["verdict"] == "VALID", f"{name}: {row['verdict']}")
        self.check_bytes(name, row)
        self.check_shares(name, row)

    def check_bytes(self, name, row):
        activation = 4 if self.attributes["backend"] == "host" else BYTES[row["dtype"]]
        if row["kernel"].startswith("embedding"):
            sequences, length, hidden = integers(row["shape"])
            tokens = sequences * length
            forward = row["kernel"] == "embedding_forward"
            known = row["written"] == tokens * hidden * activation if forward else row["written"] % (4 * hidden) == 0
            self.require(known and row["read"] > 4 * tokens, f"{name}: moves {row['read']} + {row['written']} bytes")
            return
        if row["kernel"] == "cross_entropy":
            rows, vocab = integers(row["shape"])
            padded = row["read"] / activation / rows - 4 / activation
            self.require(row["read"] == row["written"] and vocab <= padded < vocab + 64,
                         f"{name}: moves {row['read']} bytes")
            return
        wanted = flat_bytes(row) or block_bytes(row, activation)
        if self.require(wanted, f"{name}: no closed form for the kernel"):
            self.require((row["read"], row["written"]) == wanted,
                         f"{name}: moves {row['read']} + {row['written']} bytes, should be {wanted[0]} + {wanted[1]}")

    def check_shares(self, name, row):
        moved, seconds = row["read"] + row["written"], 1e-6 * row["time"]
        reference = self.rates["memcpy" if self.attributes["backend"] == "host" else "copy"]
        self.require(close(row["of_copy"], moved / seconds / reference), f"{name}: of_copy {row['of_copy']}")
        least = {limit: moved / self.rates[limit] for limit in MEMORY}
        if row["arithmetic"] in self.rates:
            least[row["arithmetic"]] = row["operations"] / self.rates[row["arithmetic"]]
        memory = "read" if 8 * row["written"] < row["read"] else "write" if 8 * row["read"] < row["written"] else "copy"
        wanted = max((memory, row["arithmetic"]), key=lambda limit: least.get(limit, math.nan))
        if self.require(row["limit"] == wanted, f"{name}: limit {row['limit']}, should be {wanted}"):
            self.require(close(row["of_limit"], least[wanted] / seconds), f"{name}: of_limit {row['of_limit']}")


def problems(trace):
    """Reasons why the trace is invalid; none: it is valid."""
    return Checker(trace).check()
