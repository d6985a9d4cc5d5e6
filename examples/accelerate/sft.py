"""A LoRA fine-tune by TRL's SFTTrainer, which has accelerate shard the model by FSDP2. A callback compresses what it
sends, and has each rank keep an encoded replica of frozen weights. Start it with torchrun."""

import sys

try:
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    from trainer import Compress, options
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9' trl peft, and zeropp as README.md beside this file says")

WORDS = 4096


class CompressWithHead(Compress):
    """TRL reads the weights of the head and does not call it, so that no hook of FSDP2 gathers them."""

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        super().on_train_begin(args, state, control, model, **kwargs)
        head = model.get_output_embeddings()
        model.get_decoder().register_forward_hook(lambda *_: head.unshard())


def counting():
    """Texts that count, and a tokenizer that has a token for each number."""
    vocabulary = {"<end>": 0, **{str(number): number for number in range(1, WORDS)}}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    texts = [" ".join(str(1 + (first + more) % 100) for more in range(63)) for first in range(100)]
    return (Dataset.from_dict({"text": texts}),
            PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>"))


def main():
    arguments = options()
    texts, tokenizer = counting()
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, hidden_size=256, intermediate_size=1024, num_hidden_layers=4,
                                         num_attention_heads=4, num_key_value_heads=4))
    # The MLP has no adapters: wrapped by itself it is frozen as a whole, and gets a replica.
    training = SFTConfig(
        "out/sft", max_steps=arguments.steps, per_device_train_batch_size=4, learning_rate=5e-3,
        lr_scheduler_type="constant", logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(), fsdp=True,
        fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": ["LlamaMLP", "LlamaDecoderLayer"]})
    compress = CompressWithHead(weights="int8:256", frozen="int8:256", node_size=arguments.node_size)
    trainer = SFTTrainer(model, training, train_dataset=texts, processing_class=tokenizer,
                         peft_config=LoraConfig(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
                         callbacks=[] if arguments.plain else [compress])
    trainer.model.print_trainable_parameters()
    trainer.train()


if __name__ == "__main__":
    main()
