"""Runs a script or, after -m, a module on CPUs over gloo, in which accelerate and torchtitan believe that they have
accelerators: without accelerators neither shards with FSDP2. PyTorch's and zeropp's own code shards, gathers and
reduces.

    torchrun --nproc-per-node 4 tests/support/on_cpus.py examples/accelerate/train.py --node-size 2
"""

import importlib.util
import os
import runpy
import sys
import types

import torch
import torch._utils
from torch.distributed.fsdp import FSDPModule
from torch.nn.attention import flex_attention


def accelerate_shards():
    """accelerate takes an FSDP plug-in for GPUs alone, and replicates on CPUs, where this has it shard."""
    from accelerate.state import AcceleratorState, DistributedType

    begin = AcceleratorState.__init__

    def with_plugin(self, *arguments, fsdp_plugin=None, **options):
        begin(self, *arguments, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin

    AcceleratorState.__init__ = with_plugin


def torchtitan_starts():
    """torchtitan takes "cuda" where it finds no accelerator, asks it for its memory, and compiles FlexAttention, whose
    backward PyTorch has on CPUs uncompiled alone (TORCHDYNAMO_DISABLE, before torch is imported)."""
    torch._utils._get_available_device_type = lambda: "cpu"
    known = {"get_device_name": "CPU", "current_device": 0, "reset_peak_memory_stats": None, "empty_cache": None,
             "memory_stats": {},
             "get_device_properties": types.SimpleNamespace(name="CPU", total_memory=1 << 30)}
    for name, answer in known.items():
        setattr(torch.cpu, name, lambda *_, answer=answer: answer)
    flex_attention._validate_device = lambda *_: None
    divide = FSDPModule.set_gradient_divide_factor

    def divide_after_the_sum(self, factor):  # gloo has no sum of products
        divide(self, factor)
        self.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = divide_after_the_sum


if importlib.util.find_spec("accelerate"):
    accelerate_shards()
if importlib.util.find_spec("torchtitan"):
    torchtitan_starts()
del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
