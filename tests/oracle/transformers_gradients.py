# ctest: name=transformers_gradients timeout=300 labels=oracle,torch
"""The NumPy oracle beside GPT-2, Llama and Qwen2 of `transformers`, in fp64: logits, loss and every gradient agree to
1e-12, over shapes that nothing divides evenly. With another rotation or order of heads they do not. Skipped
without the package."""

import contextlib
import io
import sys
import unittest.mock

import other_python

other_python.with_modules("torch", "transformers", "numpy", "h5py")

import numpy as np

from zpp_validate.oracles import hugging_face_models, network

SHAPES = [
    "--model gpt --num-attention-heads 3 --hidden-size 36 --seq-length 19 --tied-head",
    "--model gpt --num-attention-heads 1 --hidden-size 20 --ffn-hidden-size 50 --norm-eps 1e-3",
    "--model llama --num-attention-heads 3 --hidden-size 36 --seq-length 1",
    "--model llama --num-attention-heads 6 --num-key-value-heads 2 --head-dim 10 --hidden-size 36 --ffn-hidden-size 50",
    "--model llama --num-attention-heads 5 --num-key-value-heads 1 --head-dim 2 --hidden-size 35 --tied-head "
    "--num-layers 3",
    "--model llama --add-qkv-bias --num-attention-heads 6 --num-key-value-heads 3 --head-dim 10 --hidden-size 37",
    "--model llama --add-qkv-bias --num-attention-heads 7 --hidden-size 28 --tied-head --rope-theta 500 "
    "--norm-eps 1e-3 --seq-length 70",
]
GROUPED = SHAPES[3]


def compared(words):
    """The exit code, and the largest difference."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = hugging_face_models.main(["gradients", "--vocab-size", "37", "--tolerance", "1e-12", *words.split()])
    return code, max(float(line.split("error")[1].split()[0]) for line in said.getvalue().splitlines()
                     if "error" in line)


def of_neighbours(x, shape, sign=1.0):
    """Pairs are 2 i and 2 i + 1, as Llama's own code has them."""
    apart = np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)
    return ROTATE(apart, shape, sign).reshape(*x.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(x.shape)


def in_turns(qkv, shape):
    """Queries read key-value heads in turns, instead of one after the other."""
    heads = qkv[..., :shape.queries].reshape(*qkv.shape[:2], -1, shape.key_value_heads, shape.head_dim)
    return ATTENTION(np.concatenate([heads.swapaxes(2, 3).reshape(*qkv.shape[:2], -1), qkv[..., shape.queries:]],
                                    axis=-1), shape)


ROTATE, ATTENTION = network.rotate, network.attention
WRONG = {"rotate": (lambda x, shape, sign=1.0: ROTATE(x, shape, -sign), of_neighbours), "attention": (in_turns,)}


def main():
    failures = 0
    for words in SHAPES:
        code, largest = compared(words)
        print(f"{words}: exit {code}, largest difference {largest:.2e}")
        failures += code != 0
    for name, functions in WRONG.items():
        for wrong in functions:
            with unittest.mock.patch.object(network, name, wrong):
                code, largest = compared(GROUPED)
            print(f"another {name}: exit {code}, largest difference {largest:.2e}")
            failures += code != 1 or largest < 1e-3
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
