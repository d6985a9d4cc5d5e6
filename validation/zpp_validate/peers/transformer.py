"""The transformers of the proxy runs in plain PyTorch, sharded with FSDP2: the parts of GPT-2 (learned positions,
LayerNorm, tanh-GELU, biases) or of Llama (rotated queries and keys, RMSNorm, SwiGLU), attention in groups of heads by
scaled_dot_product_attention. `shape`: a forms.transformer.Shape. Needs PyTorch."""

import contextlib

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SPREAD = 0.02
ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Embedding(nn.Module):
    """(B, T) token ids to (B, T, C)."""

    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.seq_length, shape.hidden) if shape.parts.learned else None

    def forward(self, tokens):
        x = self.tokens(tokens)
        return x if self.positions is None else x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))


def norm(shape):
    return (nn.LayerNorm if shape.parts.centred else nn.RMSNorm)(shape.hidden, eps=shape.norm_eps)


def angles(shape, length, device):
    """(cosines, sines) of rotary positions, (T, w) each, for both halves of a head; none of learned ones."""
    if shape.parts.learned:
        return None
    pairs = torch.arange(0, shape.head_dim, 2, dtype=torch.float32, device=device)
    turns = torch.outer(torch.arange(length, dtype=torch.float32, device=device),
                        shape.rope_theta ** (-pairs / shape.head_dim)).repeat(1, 2)
    return turns.cos(), turns.sin()


def rotated(x, cosines, sines):
    """(B, heads, T, w): in fp32, rounded to the type of x."""
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat((-second, first), dim=-1) * sines).to(x.dtype)


class Block(nn.Module):
    """(B, T, C) to (B, T, C). `recompute`: keep the input alone and run forward again in backward, inside the
    weights' one gather."""

    def __init__(self, shape, recompute):
        super().__init__()
        self.shape, self.recompute = shape, recompute
        hidden, biased = shape.hidden, shape.parts.biased
        self.ln_1, self.ln_2 = norm(shape), norm(shape)
        self.qkv = nn.Linear(hidden, shape.qkv, bias=shape.qkv_bias)
        self.proj = nn.Linear(shape.queries, hidden, bias=biased)
        name, rows = shape.wide
        self.add_module(name.replace(".", "_"), nn.Linear(hidden, rows, bias=biased))
        self.mlp_proj = nn.Linear(shape.ffn, hidden, bias=biased)

    def forward(self, x, turns):
        return checkpoint(self.layers, x, turns, use_reentrant=False) if self.recompute else self.layers(x, turns)

    def attention(self, x, turns):
        shape = self.shape
        heads = self.qkv(x).unflatten(2, (-1, shape.head_dim)).transpose(1, 2)
        q, k, v = heads.split((shape.heads, shape.key_value_heads, shape.key_value_heads), dim=1)
        if turns is not None:
            q, k = rotated(q, *turns), rotated(k, *turns)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                        enable_gqa=shape.key_value_heads < shape.heads)
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def mlp(self, x):
        if not self.shape.parts.gated:
            return self.mlp_proj(functional.gelu(self.mlp_fc(x), approximate="tanh"))
        gate, up = self.mlp_gate_up(x).chunk(2, dim=-1)
        return self.mlp_proj(functional.silu(gate) * up)

    def layers(self, x, turns):
        x = x + self.attention(self.ln_1(x), turns)
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """(B, T) token ids to (B, T, V) logits."""

    def __init__(self, shape, recompute=False):
        super().__init__()
        self.shape = shape
        self.embedding = Embedding(shape)
        self.blocks = nn.ModuleList(Block(shape, recompute) for _ in range(shape.layers))
        self.norm = norm(shape)
        self.head = None if shape.tied_head else nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        turns = angles(self.shape, tokens.shape[1], tokens.device)
        for block in self.blocks:
            x = block(x, turns)
        x = self.norm(x)
        return functional.linear(x, self.embedding.tokens.weight) if self.head is None else self.head(x)


def parameter_name(name):
    """Name here of a tensor of forms.transformer."""
    for ours, here in (("wte", "embedding.tokens"), ("wpe", "embedding.positions"), ("ln_f", "norm"),
                       ("lm_head", "head"), ("attn.", ""), ("mlp.", "mlp_")):
        name = name.replace(ours, here)
    return "blocks" + name[1:] if name.startswith("h.") else name


def shard(model, mesh, reduce_dtype, reshard=True, blocks=1, root_group=False):
    """FSDP2 over `mesh` (one dimension: all ranks shard; two: replicas, then shards): bf16 compute over fp32
    parameters, one group for each run of `blocks` blocks. Embedding and head are groups of their own where they share
    no weight, so that their gathers overlap with the blocks as well; the head's weights are needed again at once and
    kept. With `root_group` they are one group, which is gathered before the first block and kept. `reshard` is FSDP2's
    reshard_after_forward of the others: a number of ranks, which gather for backward among themselves."""
    # Activations are bf16 from the embedding on; angles stay fp32.
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype, cast_forward_inputs=False)
    options = {"mesh": mesh, "mp_policy": policy}
    for first in range(0, len(model.blocks), blocks):
        fully_shard(list(model.blocks[first:first + blocks]), reshard_after_forward=reshard, **options)
    if model.head is not None and not root_group:
        fully_shard(model.embedding, reshard_after_forward=reshard, **options)
        fully_shard([model.norm, model.head], reshard_after_forward=False, **options)
    fully_shard(model, **options)
    return model


def groups(model, blocks=1):
    """The first module of each group of a model that shard() sharded, in the order of their use, without the root's."""
    apart = isinstance(model.embedding, FSDPModule)
    return [*([model.embedding] if apart else []), *model.blocks[::blocks], *([model.norm] if apart else [])]


def prefetch(order, count):
    """The weights of `count` groups are gathered ahead of their use, in forward and in backward."""
    for modules, set_prefetch in ((order, "set_modules_to_forward_prefetch"),
                                  (order[::-1], "set_modules_to_backward_prefetch")):
        for index, module in enumerate(modules):
            getattr(module, set_prefetch)(modules[index + 1:index + 1 + count])


def use_symmetric_memory(modules):
    """The collectives of these FSDP modules take their buffers from NCCL's symmetric memory. Its reduce-scatter only
    adds: the division for the mean is apart, as in torchtitan."""
    for module in modules:
        module.set_force_sum_reduction_for_comms(True)
        module.set_symm_mem_for_comm()


def attention(kernel):
    """A context in which attention is computed by this kernel of ATTENTION, or by PyTorch's choice ("auto")."""
    return contextlib.nullcontext() if kernel == "auto" else sdpa_kernel(ATTENTION[kernel])


@torch.no_grad()
def initialize(model, shard):
    """Every rank fills its own shards by the distributions of GPT-2, from a generator for each shard, by its number."""
    torch.manual_seed(shard)
    residual = SPREAD / (2 * len(model.blocks)) ** 0.5
    for name, parameter in model.named_parameters():
        shard_of_rank = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        if name.endswith("bias"):
            shard_of_rank.zero_()
        elif parameter.ndim == 1:
            shard_of_rank.fill_(1.0)
        else:
            shard_of_rank.normal_(0.0, residual if "proj" in name else SPREAD)


def cross_entropy(logits, targets):
    """Mean over the tokens, in fp32."""
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
