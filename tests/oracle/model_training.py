# ctest: name=contract8_model_training timeout=120 labels=oracle
"""Twelve steps of AdamW with clipping and weight decay, in one process, against the NumPy oracle: the loss of each
step and the final weights."""
import os
import pathlib
import subprocess
import sys
import tempfile

import validate

TOOL = pathlib.Path(os.environ["ZEROPP_TEST_BIN"]) / "gpt_case"


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for model, head, *more in (("gpt", "tied"), ("gpt", "untied"), ("llama", "tied", "num_key_value_heads=1"),
                                   ("llama", "untied", "add_qkv_bias=1", "head_dim=10")):
            folder = pathlib.Path(scratch) / f"{model}_{head}"
            subprocess.run([TOOL, "train", folder, model, "2", "48", "3", "19", "257", head, "fp32", "12", "host",
                            *more], check=True)
            result = validate.run("oracle", "train", folder, "--tolerance", "1e-5")
            print(result.stdout, result.stderr)
            failures += result.returncode != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
