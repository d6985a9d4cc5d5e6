"""Compares the model.safetensors of a checkpoint with the master weights beside it, value by value, by own readers of
both.

usage: zpp-validate exported-weights CHECKPOINT TRACE

CHECKPOINT is a folder step-... that was written with --gather-weights-on-save, TRACE the run's, which has the tensors.
In fp32 all bits are the same; in bf16 and fp16 each value is the nearest. Prints VALID or INVALID: reason. Exit codes:
0 VALID, 1 not, 2 usage, 5 a file is missing.
"""

import json

import numpy as np

from zpp_validate import command_line
from zpp_validate.forms import hugging_face
from zpp_validate.forms.transformer import Shape
from zpp_validate.problem import MALFORMED, part, reason_of, require
from zpp_validate.readers import checkpoint_file, run_file, safetensors_file

NEAREST = {"F32": 0.0, "BF16": 2.0**-8, "F16": 2.0**-11}  # half a place, relative
SMALLEST = 2.0**-25  # half of fp16's last place below its normal numbers


def check(folder, run):
    with part("model.safetensors"):
        exported, dtypes = safetensors_file.read(folder / "model.safetensors")
    kept = checkpoint_file.Checkpoint(folder)
    units = [kept.array(f"{name}/master", "<f4") for name in run["units"]["name"]]
    model, tensors = run["config"]["zeropp"]["model"], run["tensors"]
    shape = Shape.of(model, tensors["elements"][0] // model["hidden_size"])
    expected = shape.tensors()
    require(tensors["name"] == [tensor.name for tensor in expected], "the trace's tensors are not of its model")
    names = set()
    for tensor, unit, offset in zip(expected, tensors["unit"], tensors["offset"]):
        own = units[unit][offset:offset + tensor.elements].reshape(tensor.shape)
        for theirs, want in hugging_face.tensors(shape, tensor.name, own).items():
            names.add(theirs)
            require(theirs in exported, f"{theirs} is missing")
            values = exported[theirs]
            require(values.shape == want.shape, f"{theirs} is {list(values.shape)}, not {list(want.shape)}")
            allowed = NEAREST[dtypes[theirs]]
            wrong = np.abs(values - want) > allowed * np.abs(want) + (SMALLEST if allowed else 0)
            require(not wrong.any(), f"{theirs}: {wrong.sum()} values are not the master weights")
    require(set(exported) == names, f"{sorted(set(exported) - names)} are not of the model")
    with part("config.json"):
        config = dict(json.loads((folder / "config.json").read_text()))
    wanted = hugging_face.config(shape)
    require({key: config.get(key) for key in wanted} == wanted, f"config.json is not of the run's model: {wanted}")


def main(words):
    parser = command_line.parser("exported-weights", __doc__)
    parser.add_argument("checkpoint", type=command_line.InputFolder)
    parser.add_argument("trace", type=command_line.InputFile)
    arguments = parser.parse_args(words)
    run = run_file.read(arguments.trace)
    try:
        check(arguments.checkpoint, run)
    except MALFORMED as error:
        print(f"INVALID: {reason_of(error)}")
        return 1
    print("VALID")
    return 0
