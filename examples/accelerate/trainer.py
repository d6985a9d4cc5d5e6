"""The same model with the Trainer of transformers, which has accelerate shard it by FSDP2; a callback compresses what it sends.
Start it with torchrun."""

import argparse
import sys

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    import zeropp.torch
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9' accelerate transformers, and zeropp as README.md beside this file says")


class Compress(TrainerCallback):
    """Called after the Trainer's accelerator.prepare(), which calls fully_shard(), and before the first forward."""

    def __init__(self, **options):
        self.options = options

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        zeropp.torch.compress(model, **self.options)

    def on_train_end(self, args, state, control, model=None, **kwargs):
        if state.is_world_process_zero:
            print(zeropp.torch.report(model))


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--node-size", type=int, help="ranks of a node; else torchrun's")
    return parser.parse_args()


def main():
    arguments = options()
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=1024, num_hidden_layers=4,
                                         num_attention_heads=4, num_key_value_heads=4))
    ids = (torch.randint(512, (1024, 1)) + torch.arange(64)) % 512
    training = TrainingArguments(
        "out/trainer", max_steps=arguments.steps, per_device_train_batch_size=4, learning_rate=1e-3, lr_scheduler_type="constant",
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=not torch.cuda.is_available(), fsdp=True,
        fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]})
    compress = Compress(weights="int8:256", gradients="int4:128", node_size=arguments.node_size)
    Trainer(model, training, train_dataset=[{"input_ids": row, "labels": row} for row in ids],
            callbacks=[] if arguments.plain else [compress]).train()


if __name__ == "__main__":
    main()
