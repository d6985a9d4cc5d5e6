"""Checks of the arguments of compress() and AllReduceState(). A wrong one raises UsageError with one line, which names
the argument and the values that it takes."""

import numbers

import torch

from zeropp import library
from zeropp.collectives import image_bytes
from zeropp.library import UsageError


def model(call, value):
    if not isinstance(value, torch.nn.Module):
        raise UsageError(f"{call}: {type(value).__name__} is no model: give a torch.nn.Module, one in each call")
    return value


def codec(argument, value):
    """`value`, where the library has such a codec and block size."""
    if not isinstance(value, str):
        raise UsageError(f"{argument}={value!r}: give the name of a codec, such as \"int8:256\", or \"none\"")
    if value.lower().split(":")[0] == "exact":
        raise UsageError(f"{argument}={value!r}: weights=\"exact\" sends weights without loss, written so; no other "
                         "argument takes it, and it has no block size")
    try:
        image_bytes(value, library.Dtype.FP32, 1)
    except UsageError as error:
        said = str(error).split(f"codec '{value}': ", 1)[-1]  # without the function of the library
        raise UsageError(f"{argument}={value!r}: {said}") from None
    return value


def codec_pair(argument, value):
    """The codecs inside a node and between nodes."""
    pair = (value, value) if isinstance(value, str) else value
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise UsageError(f"{argument}={value!r}: give one codec by name, such as \"int4:128\", or two: "
                         "inside a node and between nodes")
    return tuple(codec(argument, each) for each in pair)


def algorithm(argument, value, kind):
    if value != "auto" and value not in library.names(kind):
        raise UsageError(f"{argument}: {kind.replace('_', '-')} algorithm '{value}' is unknown: auto, "
                         f"{', '.join(library.names(kind))}")
    return value


def number(argument, value, at_least, what, whole=True, below=float("inf")):
    """`value`, in [at_least, below). `what`: its meaning and limits, for the message."""
    kind = numbers.Integral if whole else numbers.Real
    if not isinstance(value, kind) or isinstance(value, bool) or not at_least <= value < below:
        raise UsageError(f"{argument}={value!r}: give {what}")
    return value


def error_feedback(value, gradients):
    """(beta, reset period, whether errors are kept in int8), or None."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise UsageError(f"error_feedback={value!r}: give three values, (beta, reset period in reductions, whether "
                         "errors are kept in int8), such as (0.8, 1024, True)")
    beta, period, in_int8 = value
    number("error_feedback: beta", beta, 0, "a number from 0 to less than 1, 0 for classical error feedback",
           whole=False, below=1)
    number("error_feedback: reset period", period, 0, "a whole number of reductions, 0 for never", below=1 << 63)
    if not isinstance(in_int8, bool):
        raise UsageError(f"error_feedback: {in_int8!r} does not say whether errors are kept in int8: give True or "
                         "False as the third")
    if set(gradients) == {"none"}:
        raise UsageError("error_feedback= has no effect with gradients=\"none\", which loses nothing: give gradients= a "
                         "codec, or leave error_feedback= out")
    return beta, period, in_int8
