"""ZeRO++ for PyTorch: compressed communication for models that FSDP2 or DDP trains.

    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=8)  # FSDP2's own form of hpZ
    fully_shard(model, mesh=mesh)
    zeropp.torch.compress(model, weights="int8:256", gradients="int4:128")  # qwZ and qgZ

compress() returns the model; report() says what was sent. allreduce_hook is a communication hook of DDP. The page
docs/howto/pytorch.md describes options and limits.
"""

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ImportError("zeropp.torch needs PyTorch 2.9 or later: pip install 'torch>=2.9'")

from zeropp.torch.compress import compress
from zeropp.torch.ddp import AllReduceState, allreduce_hook
from zeropp.torch.frozen import refresh
from zeropp.torch.report import report

__all__ = ["AllReduceState", "allreduce_hook", "compress", "refresh", "report"]
