"""zeropp: compressed collectives for PyTorch, what ZeRO++ saves, and traces as tables.

    zeropp.torch.compress(model)       two lines on a training script with FSDP2 (`import zeropp.torch`)
    zeropp.savings(18e9, 384, ..., baseline="bf16")
                                       bytes of a step without and with ZeRO++
    zeropp.savings_table()             bytes per parameter by codec
    zeropp.read("out/train.h5")        a trace as pandas frames

Modules are imported when they are first used: the package itself needs only Python's standard library.
"""

__all__ = ["Error", "read", "savings", "savings_table"]


def __getattr__(name):
    if name in ("Error", "savings", "savings_table"):
        from zeropp import _savings

        return getattr(_savings, name)
    if name == "read":
        from zeropp.traces import read

        return read
    raise AttributeError(f"module 'zeropp' has no attribute '{name}'")
