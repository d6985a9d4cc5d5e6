"""torchtitan's configurations of Llama 3, trained by a Trainer that compresses what FSDP2 sends:

    torchrun ... -m torchtitan.train --module compressed_llama3 --config llama3_debugmodel --zeropp.weights int8:256
"""

import dataclasses
import sys
from typing import Literal

try:
    import torch.distributed as dist
    from torchtitan.models.llama3 import config_registry
    from torchtitan.trainer import Trainer

    import zeropp.torch
except ModuleNotFoundError as missing:
    sys.exit(f"{__file__}: error: {sys.executable} has no module {missing.name}: "
             "python3 -m pip install 'torch>=2.9' torchtitan, and zeropp as README.md beside this file says")


@dataclasses.dataclass(kw_only=True, slots=True)
class Compression:
    """Arguments of zeropp.torch.compress(), on the command line as --zeropp.NAME; `none` for both codecs is plain FSDP2."""

    weights: str = "int8:256"
    gradients: str = "int4:128"
    min_bytes: int = 1 << 20
    node_size: int | None = None
    transport: Literal["torch", "nccl"] = "torch"


class CompressingTrainer(Trainer):
    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(Trainer.Config):
        zeropp: Compression = dataclasses.field(default_factory=Compression)

    def __init__(self, config):
        parallelize = config.model_spec.parallelize_fn

        def parallelize_and_compress(model, **arguments):
            return zeropp.torch.compress(parallelize(model, **arguments), **dataclasses.asdict(config.zeropp))

        config.model_spec = dataclasses.replace(config.model_spec, parallelize_fn=parallelize_and_compress)
        super().__init__(config)

    def close(self):
        if dist.get_rank() == 0 and hasattr(self, "model_parts"):
            for part in self.model_parts:
                print(zeropp.torch.report(part))
        super().close()


def __getattr__(name):
    """The configuration `name` of torchtitan.models.llama3.config_registry, as torchtitan looks it up."""
    configure = getattr(config_registry, name)

    def compressed():
        plain = configure()
        plain.training.disable_cuda_graphs = True  # captured collectives would neither be counted nor set up
        return CompressingTrainer.Config(**{each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)})

    return compressed
