"""Forward and backward of the transformers of zeropp in NumPy and fp64, written from the equations and not from the
library. `shape`: a transformer.Shape; `w`: weights by name. A backward function takes what its forward saved, and puts
gradients of weights into `g` by name."""

import numpy as np


def norm(x, w, name, shape):
    """LayerNorm, or RMSNorm (arXiv 1910.07467)."""
    centred = shape.parts.centred
    normal = x - x.mean(axis=-1, keepdims=True) if centred else x
    rstd = 1.0 / np.sqrt((normal ** 2).mean(axis=-1, keepdims=True) + shape.norm_eps)
    normal = normal * rstd
    y = normal * w[name + ".weight"]
    return y + w[name + ".bias"] if centred else y, (normal, rstd)


def norm_backward(dy, w, g, name, saved, shape):
    normal, rstd = saved
    axes = tuple(range(dy.ndim - 1))
    g[name + ".weight"] = (dy * normal).sum(axis=axes)
    dn = dy * w[name + ".weight"]
    dx = dn - normal * (dn * normal).mean(axis=-1, keepdims=True)
    if shape.parts.centred:
        g[name + ".bias"] = dy.sum(axis=axes)
        dx -= dn.mean(axis=-1, keepdims=True)
    return rstd * dx


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)


def linear_backward(dy, x, w, g, name):
    g[name + ".weight"] = np.einsum("bto,bti->oi", dy, x)
    if name + ".bias" in w:
        g[name + ".bias"] = dy.sum(axis=(0, 1))
    return dy @ w[name + ".weight"]


ROOT = np.sqrt(2.0 / np.pi)


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(ROOT * (x + 0.044715 * x ** 3)))


def gelu_derivative(x):
    tanh = np.tanh(ROOT * (x + 0.044715 * x ** 3))
    return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh ** 2) * ROOT * (1.0 + 3.0 * 0.044715 * x ** 2)


def activate(wide, shape):
    """The tanh-GELU, or SwiGLU (arXiv 2002.05202): silu(gate) up."""
    if not shape.parts.gated:
        return gelu(wide)
    gate, up = np.split(wide, 2, axis=-1)
    return gate / (1.0 + np.exp(-gate)) * up


def activate_backward(dy, wide, shape):
    if not shape.parts.gated:
        return dy * gelu_derivative(wide)
    gate, up = np.split(wide, 2, axis=-1)
    sigmoid = 1.0 / (1.0 + np.exp(-gate))
    return np.concatenate([dy * up * sigmoid * (1.0 + gate * (1.0 - sigmoid)), dy * gate * sigmoid], axis=-1)


def rotate(x, shape, sign=1.0):
    """Rotary positions (arXiv 2104.09864) on heads [..., position, width]: pairs are i and i + width / 2. `sign` -1
    rotates back."""
    length, width = x.shape[-2:]
    angles = np.outer(np.arange(length), shape.rope_theta ** (-2.0 * np.arange(width // 2) / width))
    cos, sin = np.cos(angles), sign * np.sin(angles)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(qkv, shape):
    """Causal, in groups [batch, key-value head, head of the group, position, width] (arXiv 2305.13245)."""
    b, t, _ = qkv.shape
    heads = qkv.reshape(b, t, -1, shape.head_dim).transpose(0, 2, 1, 3)
    q, k, v = np.split(heads, [shape.heads, shape.heads + shape.key_value_heads], axis=1)
    if not shape.parts.learned:
        q, k = rotate(q, shape), rotate(k, shape)
    q, k, v = q.reshape(b, shape.key_value_heads, -1, t, shape.head_dim), k[:, :, None], v[:, :, None]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(shape.head_dim)
    scores = np.where(np.tril(np.ones((t, t), dtype=bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return (p @ v).reshape(b, shape.heads, t, -1).transpose(0, 2, 1, 3).reshape(b, t, -1), (q, k, v, p)


def attention_backward(dy, saved, shape):
    q, k, v, p = saved
    b, _, _, t, width = q.shape
    dy = dy.reshape(b, t, shape.heads, width).transpose(0, 2, 1, 3).reshape(q.shape)
    dv = (p.swapaxes(-1, -2) @ dy).sum(axis=2)
    dp = dy @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(width)
    dq, dk = (ds @ k).reshape(b, shape.heads, t, width), (ds.swapaxes(-1, -2) @ q).sum(axis=2)
    if not shape.parts.learned:
        dq, dk = rotate(dq, shape, -1.0), rotate(dk, shape, -1.0)
    return np.concatenate([dq, dk, dv], axis=1).transpose(0, 2, 1, 3).reshape(b, t, -1)


def block_forward(x, w, prefix, shape):
    wide_name = prefix + shape.wide[0]
    normal, ln_1 = norm(x, w, prefix + "ln_1", shape)
    mixed, kept = attention(linear(normal, w, prefix + "attn.qkv"), shape)
    middle = x + linear(mixed, w, prefix + "attn.proj")
    normal_2, ln_2 = norm(middle, w, prefix + "ln_2", shape)
    wide = linear(normal_2, w, wide_name)
    active = activate(wide, shape)
    return (middle + linear(active, w, prefix + "mlp.proj"),
            (normal, ln_1, mixed, kept, normal_2, ln_2, wide, active))


def block_backward(dy, w, g, prefix, saved, shape):
    normal, ln_1, mixed, kept, normal_2, ln_2, wide, active = saved
    d_wide = activate_backward(linear_backward(dy, active, w, g, prefix + "mlp.proj"), wide, shape)
    d_normal_2 = linear_backward(d_wide, normal_2, w, g, prefix + shape.wide[0])
    d_middle = dy + norm_backward(d_normal_2, w, g, prefix + "ln_2", ln_2, shape)
    d_qkv = attention_backward(linear_backward(d_middle, mixed, w, g, prefix + "attn.proj"), kept, shape)
    d_normal = linear_backward(d_qkv, normal, w, g, prefix + "attn.qkv")
    return d_middle + norm_backward(d_normal, w, g, prefix + "ln_1", ln_1, shape)


def forward(shape, w, tokens):
    """Logits [sequence, position, token], and what backward() needs."""
    x = w["wte.weight"][tokens]
    if shape.parts.learned:
        x = x + w["wpe.weight"][:tokens.shape[1]]
    saved = []
    for block in range(shape.layers):
        x, kept = block_forward(x, w, f"h.{block}.", shape)
        saved.append(kept)
    last, ln_f = norm(x, w, "ln_f", shape)
    return last @ w[head_of(shape)].T, (saved, last, ln_f)


def backward(shape, w, tokens, d_logits, saved):
    """Gradients by name."""
    blocks, last, ln_f = saved
    g = {"wte.weight": np.zeros_like(w["wte.weight"])}
    g[head_of(shape)] = np.einsum("btv,btc->vc", d_logits, last)
    dx = norm_backward(d_logits @ w[head_of(shape)], w, g, "ln_f", ln_f, shape)
    for block in reversed(range(shape.layers)):
        dx = block_backward(dx, w, g, f"h.{block}.", blocks[block], shape)
    np.add.at(g["wte.weight"], tokens, dx)
    if shape.parts.learned:
        g["wpe.weight"] = np.zeros_like(w["wpe.weight"])
        g["wpe.weight"][:tokens.shape[1]] = dx.sum(axis=0)
    return g


def head_of(shape):
    return "wte.weight" if shape.tied_head else "lm_head.weight"


def cross_entropy(logits, targets):
    """Mean in nats, and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    of_targets = (*np.indices(targets.shape), targets)
    d_logits = np.exp(log_p)
    d_logits[of_targets] -= 1.0
    return -log_p[of_targets].mean(), d_logits / targets.size


def loss_and_gradients(shape, w, tokens, targets):
    """Mean cross-entropy, and its gradient with respect to every tensor."""
    logits, saved = forward(shape, w, tokens)
    loss, d_logits = cross_entropy(logits, targets)
    return loss, backward(shape, w, tokens, d_logits, saved)
