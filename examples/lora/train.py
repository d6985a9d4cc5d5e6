"""A LoRA fine-tune with FSDP2: a frozen GPT with low-rank adapters that are trained; --plain leaves out zeropp's line. The frozen
weights are a group of their own in each block, so that each rank keeps an encoded replica of them. Start it with torchrun."""

import argparse
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn as nn
    from torch.distributed.fsdp import fully_shard

    import zeropp.torch
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9', and zeropp as README.md beside this file says")


class Adapted(nn.Module):
    """A frozen linear layer and a trained low-rank correction, which begins as zero."""

    def __init__(self, inputs, outputs, rank=8):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values):
        return self.base(values) + self.up(self.down(values))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = Adapted(width, 3 * width), Adapted(width, width)
        self.wide, self.narrow = Adapted(width, 4 * width), Adapted(4 * width, width)

    def forward(self, values):
        batch, length, width = values.shape
        parts = self.into(self.before(values)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(values.shape)
        values = values + self.out(mixed)
        return values + self.narrow(nn.functional.gelu(self.wide(self.between(values))))


class Gpt(nn.Module):
    def __init__(self, width, layers, vocabulary=512, length=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)
        for frozen in (self.tokens, self.places, self.head):
            frozen.requires_grad_(False)

    def forward(self, ids):
        values = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            values = block(values)
        return self.head(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--node-size", type=int, help="ranks of a node; else torchrun's")
    parser.add_argument("--json", help="write losses and step times there")
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    torch.manual_seed(1)
    model = Gpt(arguments.width, arguments.layers).to(device)
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    share = 1 - trained / sum(each.numel() for each in model.parameters())
    for block in model.blocks:
        fully_shard([each.base for each in block.modules() if isinstance(each, Adapted)])
        fully_shard(block)
    fully_shard(model)
    if not arguments.plain:
        zeropp.torch.compress(model, frozen="int8:256", node_size=arguments.node_size)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], 1e-3)
    random = torch.Generator().manual_seed(dist.get_rank())
    losses, seconds = [], []
    for step in range(arguments.steps):
        begin = time.perf_counter()
        ids = torch.randint(512, (4, 65), generator=random).to(device)
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        if dist.get_rank() == 0:
            print(f"step {step}  loss {losses[-1]:.4f}  {1e3 * seconds[-1]:.0f} ms")
    if dist.get_rank() == 0:
        print(f"{share:.1%} of the parameters are frozen; median step {1e3 * statistics.median(seconds[1:]):.0f} ms")
        if not arguments.plain:
            print(zeropp.torch.report(model))
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump({"losses": losses, "seconds": seconds, "frozen": share}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
