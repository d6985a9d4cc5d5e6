"""The GPT of the proxy runs in plain PyTorch, sharded with FSDP2: shapes and layers of GPT-2 (learned positions,
pre-norm, tanh-GELU, biases), attention by scaled_dot_product_attention. Needs PyTorch."""

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

    def __init__(self, vocab_size, seq_length, hidden):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, hidden)
        self.positions = nn.Embedding(seq_length, hidden)

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))


class Block(nn.Module):
    """(B, T, C) to (B, T, C). `recompute`: keep the input alone and run forward again in backward, inside the
    weights' one gather."""

    def __init__(self, hidden, heads, recompute):
        super().__init__()
        self.heads, self.recompute = heads, recompute
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp_fc, self.mlp_proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=False) if self.recompute else self.layers(x)

    def layers(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, hidden // self.heads).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(hidden, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.mlp_proj(functional.gelu(self.mlp_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """(B, T) token ids to (B, T, V) logits."""

    def __init__(self, layers, hidden, heads, seq_length, vocab_size, tied_head, recompute):
        super().__init__()
        self.embedding = Embedding(vocab_size, seq_length, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, recompute) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = None if tied_head else nn.Linear(hidden, vocab_size, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return functional.linear(x, self.embedding.tokens.weight) if self.head is None else self.head(x)


def shard(model, mesh, reduce_dtype, reshard=True, blocks=1, root_group=False):
    """FSDP2 over `mesh` (one dimension: all ranks shard; two: replicas, then shards): bf16 compute over fp32
    parameters, one group for each run of `blocks` blocks. Embedding and head are groups of their own where they share
    no weight, so that their gathers overlap with the blocks as well; the head's weights are needed again at once and
    kept. With `root_group` they are one group, which is gathered before the first block and kept. `reshard` is FSDP2's
    reshard_after_forward of the others: a number of ranks, which gather for backward among themselves."""
    options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype)}
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
    """Every rank fills its own shards: GPT-2's distributions, drawn from a generator for each shard, by its number."""
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
