"""A small Llama that learns to count, with Hugging Face accelerate and FSDP2; --plain leaves out zeropp's line. Start it with torchrun."""

import argparse
import sys

try:
    import torch
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin
    from transformers import LlamaConfig, LlamaForCausalLM

    import zeropp.torch
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9' accelerate transformers, and zeropp as README.md beside this file says")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--node-size", type=int, help="ranks of a node; else torchrun's")
    arguments = parser.parse_args()
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="transformer_based_wrap",
                                            transformer_cls_names_to_wrap=["LlamaDecoderLayer"])
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), fsdp_plugin=plugin)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=1024, num_hidden_layers=4,
                                         num_attention_heads=4, num_key_value_heads=4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    if not arguments.plain:  # prepare() has called fully_shard()
        zeropp.torch.compress(model, weights="int8:256", gradients="int4:128", node_size=arguments.node_size)
    random = torch.Generator().manual_seed(accelerator.process_index)
    for step in range(arguments.steps):
        ids = ((torch.randint(512, (4, 1), generator=random) + torch.arange(64)) % 512).to(accelerator.device)
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step}  loss {loss.item():.4f}")
    if not arguments.plain:
        accelerator.print(zeropp.torch.report(model))
    accelerator.end_training()


if __name__ == "__main__":
    main()
