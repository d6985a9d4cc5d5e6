# ctest: name=contract8_model_torch timeout=300 labels=oracle,gpu
"""Loss and every gradient tensor of the transformers on a GPU against PyTorch, and in fp32 against the NumPy
oracle too: norm-wise relative error at most 1e-5 with fp32 and 2e-2 with bf16, over head widths, odd vocabularies and
both kinds of head. A gradient that was changed must be refused. Skipped without PyTorch or a GPU."""
import os
import pathlib
import subprocess
import sys
import tempfile

import validate

TOOL = pathlib.Path(os.environ["ZEROPP_TEST_BIN"]) / "gpt_case"
ENVIRONMENT, SKIPPED = 3, 77

# model, layers, hidden, heads, seq, vocab, head, and options that are not the defaults: head widths 64, 128, 5, 6
SHAPES = [
    ("gpt", 2, 128, 2, 65, 257, "tied"),
    ("gpt", 2, 256, 2, 128, 1003, "untied"),
    ("gpt", 3, 15, 3, 7, 11, "tied"),
    ("gpt", 2, 128, 4, 65, 257, "untied", "num_key_value_heads=2", "head_dim=64", "ffn_hidden_size=320"),
    ("llama", 2, 128, 2, 65, 257, "tied"),
    ("llama", 2, 256, 6, 128, 1003, "untied", "num_key_value_heads=2", "head_dim=64", "rope_theta=500000"),
    ("llama", 2, 256, 4, 33, 257, "untied", "num_key_value_heads=1", "head_dim=128", "add_qkv_bias=1"),
    ("llama", 2, 30, 3, 9, 11, "untied", "head_dim=6", "ffn_hidden_size=50", "norm_eps=1e-3"),
]
DTYPES = (("fp32", 1e-5), ("bf16", 2e-2))


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def largest_error(result):
    return max((float(line.split("error")[1].split()[0]) for line in result.stdout.splitlines()
                if line.startswith(("ok", "FAIL"))), default=float("nan"))


def missing():
    """Why nothing can be compared here, or None."""
    result = run(sys.executable, "-c", "import torch; assert torch.cuda.is_available(), 'no GPU is visible'")
    return result.stderr.strip().splitlines()[-1] if result.returncode != 0 else None


def torch_oracle(folder, dtype, tolerance, precision):
    return validate.run("torch-oracle", folder, "--tolerance", tolerance, "--weights", dtype,
               "--precision", precision)


def main():
    reason = missing()
    if reason is not None:
        print(f"skipped: {reason}")
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (model, layers, hidden, heads, seq, vocab, head, *more) in enumerate(SHAPES):
            for dtype, tolerance in DTYPES:
                folder = pathlib.Path(scratch) / f"{number}_{dtype}"
                made = run(TOOL, "gradients", folder, model, layers, hidden, heads, seq, vocab, head, dtype, 2,
                           "cuda", *more)
                if made.returncode == ENVIRONMENT:
                    print(f"skipped: {made.stderr.strip()}")
                    return SKIPPED
                if made.returncode != 0:
                    print(f"{folder.name}: gpt_case: exit {made.returncode} {made.stderr}")
                    failures += 1
                    continue
                results = {f"PyTorch {precision}": torch_oracle(folder, dtype, tolerance, precision)
                           for precision in ("fp64", "fp32")}
                if dtype == "fp32":  # this oracle reads the weights as they were before rounding
                    results["NumPy"] = validate.run("oracle", "gradients", folder, "--tolerance", tolerance)
                for name, result in results.items():
                    print(f"{folder.name} against {name}: exit {result.returncode}, "
                          f"largest error {largest_error(result):.2e}")
                    if result.returncode != 0:
                        print(result.stdout, result.stderr)
                        failures += 1
        # The check can fail: one value of one tensor moved.
        gradients = pathlib.Path(scratch) / "0_fp32" / "gradients.f32"
        if gradients.exists():
            data = bytearray(gradients.read_bytes())
            data[3] ^= 0x40  # a bit of the first value's exponent
            gradients.write_bytes(data)
            if torch_oracle(gradients.parent, "fp32", 1e-5, "fp64").returncode != 1:
                print("a changed gradient was accepted")
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
