# ctest: name=contract8_model_gradients timeout=240 labels=oracle
"""Loss and every gradient tensor of the transformers against the NumPy oracle: norm-wise relative error at most
1e-5 with fp32 weights, 2e-2 with bf16 and 2.5e-3 with fp16 weights, over shapes that nothing divides evenly. The oracle
reads the fp32 weights in all cases. A gradient that was changed must be refused."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import validate

TOOL = pathlib.Path(os.environ["ZEROPP_TEST_BIN"]) / "gpt_case"

# model, layers, hidden, heads, seq, vocab, head, accumulated micro-batches, and options that are not the defaults
SHAPES = [
    ("gpt", 2, 48, 1, 17, 257, "tied", 1),
    ("gpt", 3, 48, 3, 33, 257, "untied", 2),
    ("gpt", 2, 64, 4, 64, 257, "tied", 2),
    ("gpt", 1, 20, 4, 7, 11, "untied", 1),
    ("gpt", 2, 36, 3, 1, 257, "tied", 1),
    ("gpt", 2, 36, 6, 17, 19, "untied", 2, "num_key_value_heads=2", "head_dim=5", "ffn_hidden_size=50",
     "norm_eps=1e-3"),
    ("llama", 2, 48, 3, 33, 257, "tied", 2),
    ("llama", 2, 36, 6, 17, 19, "untied", 2, "num_key_value_heads=3", "head_dim=10", "ffn_hidden_size=50"),
    ("llama", 3, 40, 5, 21, 101, "untied", 1, "num_key_value_heads=1", "add_qkv_bias=1", "rope_theta=500",
     "norm_eps=1e-3"),
    ("llama", 1, 20, 4, 1, 11, "tied", 1, "num_key_value_heads=2", "head_dim=2", "add_qkv_bias=1"),
]


def oracle(folder, tolerance):
    return validate.run("oracle", "gradients", folder, "--tolerance", tolerance)


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (model, layers, hidden, heads, seq, vocab, head, batches, *more) in enumerate(SHAPES):
            for dtype, tolerance in (("fp32", 1e-5), ("bf16", 2e-2), ("fp16", 2.5e-3)):
                folder = pathlib.Path(scratch) / f"{number}_{dtype}"
                subprocess.run([TOOL, "gradients", folder, model, str(layers), str(hidden), str(heads), str(seq),
                                str(vocab), head, dtype, str(batches), "host", *more], check=True)
                result = oracle(folder, tolerance)
                worst = max((float(line.split("error")[1].split()[0]) for line in result.stdout.splitlines()
                             if "error" in line), default=float("nan"))
                print(f"{folder.name}: exit {result.returncode}, largest error {worst:.2e}")
                if result.returncode != 0:
                    print(result.stdout, result.stderr)
                    failures += 1
        # The check can fail: one value of one tensor moved by 1 % of the tensor's norm.
        folder = pathlib.Path(scratch) / "0_fp32"
        gradients = np.fromfile(folder / "gradients.f32", dtype="<f4")
        gradients[0] += 0.01 * np.linalg.norm(gradients)
        gradients.tofile(folder / "gradients.f32")
        if oracle(folder, 1e-5).returncode != 1:
            print("a changed gradient was accepted")
            failures += 1
        (folder / "tokens.i32").write_bytes(b"")
        if oracle(folder, 1e-5).returncode != 2:
            print("a case without tokens was accepted")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
