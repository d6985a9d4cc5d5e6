"""The training of zeropp's transformers once more, in NumPy and fp64, derived from the equations and not from the
library.

    zpp-validate oracle gradients DIR [--tolerance T]   loss and every gradient tensor of the case's first batch
    zpp-validate oracle train DIR [--tolerance T]       AdamW over all batches: the loss of each step, the final weights

DIR is a case: manifest.json and raw little-endian files beside it. The manifest holds
  model        as zeropp.model: name, num_layers, hidden_size, num_attention_heads, seq_length, vocab_size, tied_head,
               and where they are not the defaults num_key_value_heads, head_dim, ffn_hidden_size, add_qkv_bias,
               rope_theta, norm_eps
  tensors      [{name, shape, decay}], in the order in which they follow one another in the files
  batches      [{sequences, length}], one per step; all ranks and micro-steps of a step together
  optimizer    beta1, beta2, epsilon, weight_decay, gradient_clipping (0: off)         (for train)
  learning_rates, losses   one value per step: the rate that was used, and the loss that the library reported
and the files
  weights.f32  initial weights; gradients.f32 (for gradients), final.f32 (for train): the library's answers
  tokens.i32, targets.i32   batch after batch
Differences are norm-wise and relative: |library - oracle| / |oracle|. Exit code 0: all within the tolerance;
1: not; 2: the case cannot be read.
"""
import json
import pathlib

import numpy as np

from zpp_validate import command_line
from zpp_validate.forms.transformer import Shape
from zpp_validate.oracles import network
from zpp_validate.problem import Unfit, reading, require


class Case:
    """A case as it lies on disk."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.shape = Shape.of(self.manifest["model"])
        self.tensors = self.manifest["tensors"]
        expected = [{"name": tensor.name, "shape": list(tensor.shape), "decay": tensor.decays}
                    for tensor in self.shape.tensors()]
        require(self.tensors == expected, next((f"its tensors have {own}, and its model {wanted}" for own, wanted in
                                                zip(self.tensors, expected) if own != wanted),
                                               f"it has {len(self.tensors)} tensors, and its model {len(expected)}"))

    def weights(self, name):
        flat = np.fromfile(self.folder / name, dtype="<f4").astype(np.float64)
        result, first = {}, 0
        for tensor in self.tensors:
            count = int(np.prod(tensor["shape"]))
            result[tensor["name"]] = flat[first:first + count].reshape(tensor["shape"])
            first += count
        if first != flat.size:
            raise Unfit(f"{self.folder / name}: {flat.size} values, and the tensors have {first}")
        return result

    def batches(self):
        tokens = np.fromfile(self.folder / "tokens.i32", dtype="<i4")
        targets = np.fromfile(self.folder / "targets.i32", dtype="<i4")
        result, first = [], 0
        for batch in self.manifest["batches"]:
            shape = (batch["sequences"], batch["length"])
            part = slice(first, first + shape[0] * shape[1])
            result.append((tokens[part].reshape(shape), targets[part].reshape(shape)))
            first = part.stop
        if first != tokens.size or first != targets.size:
            raise Unfit(f"{self.folder}: {tokens.size} tokens, {targets.size} targets, batches of {first}")
        return result


class AdamW:
    """Decoupled weight decay (arXiv 1711.05101) with bias correction; the gradient is clipped by its global norm."""

    def __init__(self, options, tensors):
        self.options = options
        self.decay = {tensor["name"]: tensor["decay"] for tensor in tensors}
        self.m, self.v, self.t = {}, {}, 0

    def step(self, w, g, learning_rate):
        o = self.options
        self.t += 1
        norm = np.sqrt(sum((value ** 2).sum() for value in g.values()))
        clip = o["gradient_clipping"]
        scale = clip / norm if 0 < clip < norm else 1.0
        for name, value in w.items():
            grad = g[name] * scale
            self.m[name] = o["beta1"] * self.m.get(name, 0.0) + (1 - o["beta1"]) * grad
            self.v[name] = o["beta2"] * self.v.get(name, 0.0) + (1 - o["beta2"]) * grad ** 2
            m = self.m[name] / (1 - o["beta1"] ** self.t)
            v = self.v[name] / (1 - o["beta2"] ** self.t)
            decay = o["weight_decay"] if self.decay[name] else 0.0
            w[name] = value * (1 - learning_rate * decay) - learning_rate * m / (np.sqrt(v) + o["epsilon"])


class Report:
    def __init__(self, tolerance):
        self.tolerance, self.failed = tolerance, False

    def compare(self, name, library, oracle):
        scale = np.linalg.norm(oracle)
        error = np.linalg.norm(np.asarray(library) - oracle) / (scale if scale > 0 else 1.0)
        within = error <= self.tolerance  # false for NaN
        self.failed |= not within
        print(f"{'ok  ' if within else 'FAIL'} {name:48s} error {error:.2e}  norm {scale:.6e}")

    def verdict(self):
        print("FAILED" if self.failed else "passed", f"with tolerance {self.tolerance:g}")
        return 1 if self.failed else 0


def check_gradients(case, report):
    tokens, targets = case.batches()[0]
    loss, gradients = network.loss_and_gradients(case.shape, case.weights("weights.f32"), tokens, targets)
    report.compare("loss", case.manifest["losses"][0], loss)
    for name, library in case.weights("gradients.f32").items():
        report.compare(name, library, gradients[name])


def check_training(case, report):
    w = case.weights("weights.f32")
    optimizer = AdamW(case.manifest["optimizer"], case.tensors)
    rates, losses = case.manifest["learning_rates"], case.manifest["losses"]
    batches = case.batches()
    if not len(batches) == len(rates) == len(losses):
        raise Unfit(f"{len(batches)} batches, {len(rates)} learning rates, {len(losses)} losses")
    for step, (tokens, targets) in enumerate(batches):
        loss, gradients = network.loss_and_gradients(case.shape, w, tokens, targets)
        report.compare(f"loss of step {step}", losses[step], loss)
        optimizer.step(w, gradients, rates[step])
    for name, library in case.weights("final.f32").items():
        report.compare(name, library, w[name])


def main(words):
    parser = command_line.parser("oracle", __doc__)
    parser.add_argument("check", choices=["gradients", "train"])
    parser.add_argument("folder", type=command_line.InputFolder, metavar="DIR")
    parser.add_argument("--tolerance", type=command_line.share, default=1e-5)
    arguments = parser.parse_args(words)
    report = Report(arguments.tolerance)
    with reading(arguments.folder, "case", "name what the tool gpt_case wrote"):
        case = Case(arguments.folder)
        (check_gradients if arguments.check == "gradients" else check_training)(case, report)
    return report.verdict()
