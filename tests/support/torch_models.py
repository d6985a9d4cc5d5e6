"""Small models for tests of zeropp.torch, wrapped by FSDP2 in the ways that people wrap theirs."""

import torch_ranks as ranks
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

WIDTH = 48


class Block(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.recompute = recompute

    def inner(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False) if self.recompute else self.inner(x)


class Model(nn.Module):
    """A model of blocks and a head. `odd`: a parameter whose first dimension no number of ranks divides. `unused`: one
    that no forward reads."""

    def __init__(self, blocks=3, recompute=False, odd=False, unused=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(recompute) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, 7 if odd else 8)
        if unused:
            self.spare = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make(world, *, reshard=True, mixed=True, shard_norms=False, nested=False, frozen=False, adapters=False,
         compile_blocks=False, joined=False, shape=None, **kind):
    """A model with the same weights on every rank and at every call. `adapters`: blocks are frozen but for one part,
    which has a group of its own, as with LoRA. `joined`: the last block and the head are one group, by a list."""
    torch.manual_seed(0)
    model = Model(**kind).to(ranks.DEVICE)
    if frozen:
        for block in model.blocks:
            block.requires_grad_(False)
            block.up.requires_grad_(adapters)
    mesh = (init_device_mesh(ranks.DEVICE, shape, mesh_dim_names=("replicate", "shard")) if shape
            else init_device_mesh(ranks.DEVICE, (world,)))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16) if mixed else MixedPrecisionPolicy()
    for block in model.blocks:
        if shard_norms:
            fully_shard(block.norm, mesh=mesh, mp_policy=policy)
        if nested or adapters:
            fully_shard(block.up, mesh=mesh, mp_policy=policy)
        group = [block, model.head] if joined and block is model.blocks[-1] else block
        fully_shard(group, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if compile_blocks:
        for block in model.blocks:
            block.compile(backend="aot_eager")
    return model


def train(model, rank, steps=4, micro_steps=1, poison_at=None):
    """Losses of the steps."""
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    data = torch.Generator().manual_seed(100 + rank)
    losses = []
    for step in range(steps):
        for micro in range(micro_steps):
            model.set_requires_gradient_sync(micro + 1 == micro_steps)
            loss = model(torch.randn(8, WIDTH, generator=data).to(ranks.DEVICE)).float().pow(2).mean() / micro_steps
            loss.backward()
        losses.append(loss.item())
        if step == poison_at:
            break
        optimizer.step()
        optimizer.zero_grad()
    return losses


def batch_loss(model, rank):
    """Loss of the rank's first batch."""
    data = torch.Generator().manual_seed(100 + rank)
    return model(torch.randn(8, WIDTH, generator=data).to(ranks.DEVICE)).float().pow(2).mean()


def weights(model):
    """All parameters, whole, as one list of numbers."""
    return torch.cat([each.full_tensor().detach().float().flatten() for each in model.parameters()])
