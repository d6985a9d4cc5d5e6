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
from zpp_validate.forms.transformer import Shape
from zpp_validate.problem import ENVIRONMENT, Problem, Unfit, reading


class Case:
    """A case as it lies on disk, on a device."""

    def __init__(self, folder, precision, device):
        self.folder, self.precision, self.device = pathlib.Path(folder), precision, device
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.shape = Shape.of(self.manifest["model"])

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


def rotated(x, theta):
    """Rotary positions on heads [..., position, width]: pairs are i and i + width / 2."""
    length, width = x.shape[-2:]
    pairs = torch.arange(width // 2, dtype=torch.float64, device=x.device)
    angles = torch.arange(length, device=x.device)[:, None] * theta ** (-2 * pairs / width)
    turned = torch.complex(*x.unflatten(-1, (2, -1)).unbind(-2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), -1).to(x.dtype)


def attention(qkv, shape):
    """Self-attention, written out: no kernel of PyTorch's that might round its probabilities."""
    heads = qkv.unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
    q, k, v = heads.split([shape.heads, shape.key_value_heads, shape.key_value_heads], 1)
    if not shape.parts.learned:
        q, k = rotated(q, shape.rope_theta), rotated(k, shape.rope_theta)
    k, v = (part.repeat_interleave(shape.heads // shape.key_value_heads, 1) for part in (k, v))
    scores = q @ k.transpose(-2, -1) / shape.head_dim ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=qkv.device).triu(1)
    mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
    return mixed.transpose(1, 2).flatten(2)


def loss_of(shape, w, tokens, targets):
    """Mean cross-entropy in nats."""
    def norm(x, name):
        if shape.parts.centred:
            return functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], shape.norm_eps)
        return functional.rms_norm(x, x.shape[-1:], w[name + ".weight"], shape.norm_eps)

    def linear(x, name):
        return functional.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def active(wide):
        if not shape.parts.gated:
            return functional.gelu(wide, approximate="tanh")
        gate, up = wide.chunk(2, -1)
        return functional.silu(gate) * up

    x = w["wte.weight"][tokens]
    if shape.parts.learned:
        x = x + w["wpe.weight"][:tokens.shape[1]]
    for block in range(shape.layers):
        name = f"h.{block}."
        x = x + linear(attention(linear(norm(x, name + "ln_1"), name + "attn.qkv"), shape), name + "attn.proj")
        x = x + linear(active(linear(norm(x, name + "ln_2"), name + shape.wide[0])), name + "mlp.proj")
    logits = functional.linear(norm(x, "ln_f"), w["wte.weight" if shape.tied_head else "lm_head.weight"])
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def compare(name, library, reference, tolerance):
    """Prints a line; true when `library` is within the tolerance."""
    scale = reference.norm().item()
    error = (library - reference).norm().item() / (scale if scale > 0 else 1.0)
    within = error <= tolerance  # false for NaN
    print(f"{'ok  ' if within else 'FAIL'} {name:48s} error {error:.2e}  norm {scale:.6e}")
    return within


def check(case, rounding, tolerance):
    weights = {name: value.clone().requires_grad_() for name, value in
               case.tensors("weights.f32", rounding).items()}
    library = case.tensors("gradients.f32")
    loss = loss_of(case.shape, weights, *case.batch())
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
