"""The transformers of zeropp once more, in PyTorch: the loss and every gradient, by automatic differentiation.

    zpp-validate torch-oracle DIR [--tolerance T] [--weights fp32|bf16] [--precision fp32|fp64] [--device cuda|cpu]

DIR is a case of gradients as zpp-validate oracle describes it. PyTorch computes in fp64, or in fp32 without TF32,
from the case's weights, rounded to bf16 first where the library was given bf16. Differences are norm-wise and
relative: |library - PyTorch| / |PyTorch|. Exit code 0: all within the tolerance; 1: not; 2: the case cannot be
read; 3: no PyTorch, or no such device.
"""
import json
import pathlib

import torch
from torch.nn import functional

from zpp_validate import command_line
from zpp_validate.problem import ENVIRONMENT, Problem, Unfit, reading



class Case:
    """A case as it lies on disk, on a device."""

    def __init__(self, folder, precision, device):
        self.folder, self.precision, self.device = pathlib.Path(folder), precision, device
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.model = self.manifest["model"]

    def read(self, name, dtype):
        data = bytearray((self.folder / name).read_bytes())
        return torch.frombuffer(data, dtype=dtype).to(self.device) if data else torch.empty(0, dtype=dtype)

    def tensors(self, name, rounding=None):
        """{tensor name: values}; `rounding`: the dtype that the values pass through."""
        flat = self.read(name, torch.float32)
        if rounding is not None:
            flat = flat.to(rounding)
        flat = flat.to(self.precision)
        result, first = {}, 0
        for tensor in self.manifest["tensors"]:
            count = torch.Size(tensor["shape"]).numel()
            result[tensor["name"]] = flat[first:first + count].reshape(tensor["shape"])
            first += count
        if first != flat.numel():
            raise Unfit(f"{name}: {flat.numel()} values, and the tensors have {first}")
        return result

    def batch(self):
        """Tokens and targets [sequences, length] of the first batch."""
        shape = [self.manifest["batches"][0][key] for key in ("sequences", "length")]
        count = shape[0] * shape[1]
        tokens, targets = self.read("tokens.i32", torch.int32), self.read("targets.i32", torch.int32)
        if tokens.numel() < count or targets.numel() < count:
            raise Unfit(f"{tokens.numel()} tokens, {targets.numel()} targets, a batch of {count}")
        return tokens[:count].reshape(shape).long(), targets[:count].reshape(shape).long()


def attention(qkv, heads, causal):
    """Self-attention, written out: no kernel of PyTorch's that might round its probabilities."""
    batch, length, width = qkv.shape
    q, k, v = qkv.reshape(batch, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        future = torch.ones(length, length, dtype=torch.bool, device=qkv.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    mixed = scores.softmax(-1) @ v
    return mixed.transpose(1, 2).reshape(batch, length, width // 3)


def loss_of(model, w, tokens, targets):
    """Mean cross-entropy in nats over the targets that count."""
    def norm(x, name):
        return functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-5)

    def linear(x, name):
        return functional.linear(x, w[name + ".weight"], w[name + ".bias"])

    x = w["wte.weight"][tokens] + w["wpe.weight"][:tokens.shape[1]]
    for block in range(model["num_layers"]):
        name = f"h.{block}."
        qkv = linear(norm(x, name + "ln_1"), name + "attn.qkv")
        x = x + linear(attention(qkv, model["num_attention_heads"], model["causal"]), name + "attn.proj")
        wide = functional.gelu(linear(norm(x, name + "ln_2"), name + "mlp.fc"), approximate="tanh")
        x = x + linear(wide, name + "mlp.proj")
    head = w["wte.weight" if model["tied_head"] else "lm_head.weight"]
    logits = functional.linear(norm(x, "ln_f"), head)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def compare(name, library, reference, tolerance):
    """Prints a line; true when `library` is within the tolerance."""
    scale = reference.norm().item()
    error = (library - reference).norm().item() / (scale if scale > 0 else 1.0)
    within = error <= tolerance  # false for NaN
    print(f"{'ok  ' if within else 'FAIL'} {name:28s} error {error:.2e}  norm {scale:.6e}")
    return within


def check(case, rounding, tolerance):
    weights = {name: value.clone().requires_grad_() for name, value in
               case.tensors("weights.f32", rounding).items()}
    library = case.tensors("gradients.f32")
    loss = loss_of(case.model, weights, *case.batch())
    loss.backward()
    reported = torch.tensor(case.manifest["losses"][0], dtype=case.precision, device=case.device)
    ok = [compare("loss", reported, loss.detach(), tolerance)]
    ok += [compare(name, library[name], value.grad, tolerance) for name, value in weights.items()]
    print("passed" if all(ok) else "FAILED", f"with tolerance {tolerance:g}")
    return 0 if all(ok) else 1


def main(words):
    parser = command_line.parser("torch-oracle", __doc__)
    parser.add_argument("folder", type=command_line.InputFolder, metavar="DIR")
    parser.add_argument("--tolerance", type=command_line.share, default=1e-5)
    parser.add_argument("--weights", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--precision", choices=["fp32", "fp64"], default="fp64")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args(words)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise Problem("PyTorch sees no GPU: run on one, or with --device cpu", ENVIRONMENT)
    torch.backends.cuda.matmul.allow_tf32 = False
    precision = torch.float32 if arguments.precision == "fp32" else torch.float64
    rounding = torch.bfloat16 if arguments.weights == "bf16" else None
    with reading(arguments.folder, "case", "name what the tool gpt_case wrote"):
        return check(Case(arguments.folder, precision, arguments.device), rounding, arguments.tolerance)
