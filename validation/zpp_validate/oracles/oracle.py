"""The transformers of zeropp once more, in NumPy and fp64, derived from the equations and not from the library.

    zpp-validate oracle gradients DIR [--tolerance T]   loss and every gradient tensor of the case's first batch
    zpp-validate oracle train DIR [--tolerance T]       AdamW over all batches: the loss of each step, the final weights

DIR is a case: manifest.json and raw little-endian files beside it. The manifest holds
  model        num_layers, hidden_size, num_attention_heads, vocab_size, tied_head; causal: a token attends to itself
               and those before it (GPT), else to all of its sequence (encoder)
  tensors      [{name, shape, decay}], in the order in which they follow one another in the files
  batches      [{sequences, length}], one per step; all ranks and micro-steps of a step together
  optimizer    beta1, beta2, epsilon, weight_decay, gradient_clipping (0: off)         (for train)
  learning_rates, losses   one value per step: the rate that was used, and the loss that the library reported
and the files
  weights.f32  initial weights; gradients.f32 (for gradients), final.f32 (for train): the library's answers
  tokens.i32, targets.i32   batch after batch, as the model reads them; a negative target does not count
Differences are norm-wise and relative: |library - oracle| / |oracle|. Exit code 0: all within the tolerance;
1: not; 2: the case cannot be read.
"""
import json
import pathlib

import numpy as np

from zpp_validate import command_line
from zpp_validate.problem import Unfit, reading

EPSILON = 1e-5  # of layer normalisation


class Case:
    """A case as it lies on disk."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.model = self.manifest["model"]
        self.tensors = self.manifest["tensors"]

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


def layernorm(x, weight, bias):
    mean = x.mean(axis=-1, keepdims=True)
    rstd = 1.0 / np.sqrt(x.var(axis=-1, keepdims=True) + EPSILON)
    normal = (x - mean) * rstd
    return normal * weight + bias, (normal, rstd, weight)


def layernorm_backward(dy, saved):
    normal, rstd, weight = saved
    axes = tuple(range(dy.ndim - 1))
    g = dy * weight
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - normal * (g * normal).mean(axis=-1, keepdims=True))
    return dx, (dy * normal).sum(axis=axes), dy.sum(axis=axes)


def linear_backward(dy, x, weight):
    """Gradients of y = x weight^T + bias with respect to x, weight and bias."""
    return dy @ weight, np.einsum("bto,bti->oi", dy, x), dy.sum(axis=(0, 1))


ROOT = np.sqrt(2.0 / np.pi)


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(ROOT * (x + 0.044715 * x ** 3)))


def gelu_derivative(x):
    tanh = np.tanh(ROOT * (x + 0.044715 * x ** 3))
    return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh ** 2) * ROOT * (1.0 + 3.0 * 0.044715 * x ** 2)


def attention(qkv, heads, causal):
    b, t, width = qkv.shape
    q, k, v = qkv.reshape(b, t, 3, heads, width // (3 * heads)).transpose(2, 0, 3, 1, 4)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones((t, t), dtype=bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(b, t, -1), (q, k, v, p)


def attention_backward(dy, saved):
    q, k, v, p = saved
    b, heads, t, width = q.shape
    dy = dy.reshape(b, t, heads, width).transpose(0, 2, 1, 3)
    dv = p.transpose(0, 1, 3, 2) @ dy
    dp = dy @ v.transpose(0, 1, 3, 2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(width)
    dq, dk = ds @ k, ds.transpose(0, 1, 3, 2) @ q
    return np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(b, t, -1)


def block_forward(x, w, prefix, heads, causal):
    saved = {}
    normal, saved["ln_1"] = layernorm(x, w[prefix + "ln_1.weight"], w[prefix + "ln_1.bias"])
    qkv = normal @ w[prefix + "attn.qkv.weight"].T + w[prefix + "attn.qkv.bias"]
    mixed, saved["attention"] = attention(qkv, heads, causal)
    middle = x + mixed @ w[prefix + "attn.proj.weight"].T + w[prefix + "attn.proj.bias"]
    normal_2, saved["ln_2"] = layernorm(middle, w[prefix + "ln_2.weight"], w[prefix + "ln_2.bias"])
    wide = normal_2 @ w[prefix + "mlp.fc.weight"].T + w[prefix + "mlp.fc.bias"]
    active = gelu(wide)
    saved.update(normal=normal, mixed=mixed, normal_2=normal_2, wide=wide, active=active)
    return middle + active @ w[prefix + "mlp.proj.weight"].T + w[prefix + "mlp.proj.bias"], saved


def block_backward(dy, w, g, prefix, saved):
    def linear(name, grad, x):
        dx, g[prefix + name + ".weight"], g[prefix + name + ".bias"] = linear_backward(
            grad, x, w[prefix + name + ".weight"])
        return dx

    def norm(name, grad):
        dx, g[prefix + name + ".weight"], g[prefix + name + ".bias"] = layernorm_backward(grad, saved[name])
        return dx

    d_wide = linear("mlp.proj", dy, saved["active"]) * gelu_derivative(saved["wide"])
    d_middle = dy + norm("ln_2", linear("mlp.fc", d_wide, saved["normal_2"]))
    d_qkv = attention_backward(linear("attn.proj", d_middle, saved["mixed"]), saved["attention"])
    return d_middle + norm("ln_1", linear("attn.qkv", d_qkv, saved["normal"]))


def loss_and_gradients(model, w, tokens, targets):
    """Mean cross-entropy in nats over the targets that count, and its gradient with respect to every tensor."""
    heads, blocks = model["num_attention_heads"], model["num_layers"]
    head_name = "wte.weight" if model["tied_head"] else "lm_head.weight"
    t = tokens.shape[1]
    x = w["wte.weight"][tokens] + w["wpe.weight"][:t]
    saved = []
    for block in range(blocks):
        x, kept = block_forward(x, w, f"h.{block}.", heads, model["causal"])
        saved.append(kept)
    last, saved_f = layernorm(x, w["ln_f.weight"], w["ln_f.bias"])
    logits = last @ w[head_name].T
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    rows = np.nonzero(targets >= 0)  # (sequence, position) of each target that counts
    loss = -log_p[(*rows, targets[rows])].mean()

    g = {name: np.zeros_like(value) for name, value in w.items()}
    d_logits = np.zeros_like(log_p)
    d_logits[rows] = np.exp(log_p[rows])
    d_logits[(*rows, targets[rows])] -= 1.0
    d_logits /= len(rows[0])
    g[head_name] += np.einsum("btv,btc->vc", d_logits, last)
    dx, g["ln_f.weight"], g["ln_f.bias"] = layernorm_backward(d_logits @ w[head_name], saved_f)
    for block in reversed(range(blocks)):
        dx = block_backward(dx, w, g, f"h.{block}.", saved[block])
    np.add.at(g["wte.weight"], tokens, dx)
    g["wpe.weight"][:t] += dx.sum(axis=0)
    return loss, g


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
        print(f"{'ok  ' if within else 'FAIL'} {name:28s} error {error:.2e}  norm {scale:.6e}")

    def verdict(self):
        print("FAILED" if self.failed else "passed", f"with tolerance {self.tolerance:g}")
        return 1 if self.failed else 0


def check_gradients(case, report):
    tokens, targets = case.batches()[0]
    loss, gradients = loss_and_gradients(case.model, case.weights("weights.f32"), tokens, targets)
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
        loss, gradients = loss_and_gradients(case.model, w, tokens, targets)
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
