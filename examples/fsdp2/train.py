"""A small GPT on random tokens with FSDP2; --plain leaves out zeropp's line. Start it with torchrun."""

import argparse
import os
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn as nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    import zeropp.torch
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9', and zeropp as README.md beside this file says")


class Gpt(nn.Module):
    def __init__(self, vocabulary=2048, width=256, layers=4, length=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True,
                                                               norm_first=True) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        values = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        for block in self.blocks:
            values = block(values, src_mask=mask, is_causal=True)
        return self.head(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--node-size", type=int, help="ranks of a node; else torchrun's")
    parser.add_argument("--weights", default="int8:256", help="a codec, or exact [int8:256]")
    parser.add_argument("--gradients", default="int4:128", help="a codec, or none [int4:128]")
    parser.add_argument("--differences", action="store_true", help="weight_differences=\"int4:128\"")
    parser.add_argument("--hybrid", action="store_true", help="shard inside nodes, replicate between them")
    parser.add_argument("--own-communicators", action="store_true", help="on GPUs: transport=\"nccl\"")
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    torch.manual_seed(1)
    model = Gpt().to(device)
    node_size = arguments.node_size or int(os.environ["LOCAL_WORLD_SIZE"])
    shape = (dist.get_world_size() // node_size, node_size) if arguments.hybrid else (dist.get_world_size(),)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard")[-len(shape):])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if not arguments.plain:
        zeropp.torch.compress(model, weights=arguments.weights, gradients=arguments.gradients,
                              node_size=arguments.node_size,
                              weight_differences="int4:128" if arguments.differences else None,
                              transport="nccl" if cuda and arguments.own_communicators else "torch")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    random = torch.Generator().manual_seed(dist.get_rank())
    for step in range(arguments.steps):
        begin = time.perf_counter()
        ids = torch.randint(2048, (4, 65), generator=random).to(device)
        logits = model(ids[:, :-1]).float()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}  loss {loss.item():.4f}  {1e3 * (time.perf_counter() - begin):.0f} ms")
    if dist.get_rank() == 0 and not arguments.plain:
        print(zeropp.torch.report(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
