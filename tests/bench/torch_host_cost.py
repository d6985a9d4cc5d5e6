"""Host time of one call of the gathers and reductions that zeropp.torch puts into FSDP2, and of PyTorch's own; and time
of a training step of blocks so small that the host decides it:
  torchrun --nproc-per-node 2 tests/bench/torch_host_cost.py [--json FILE]
Every rank counts as a node. The host enqueues some calls and waits for the device between samples. Needs zeropp's
Python package in PYTHONPATH."""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import zeropp.torch

BLOCKS, CALLS, SAMPLES, STEPS = 24, 16, 25, 30
SETTINGS = {
    "PyTorch": None,
    "none, process groups": {"weights": "none", "gradients": "none"},
    "int8:256, int4:128": {},
    "int8:256, int4:128, own communicators": {"transport": "nccl"},
    "int4:128 differences, int4:128": {"weight_differences": "int4:128"},
    "exact, int8:256": {"weights": "exact", "gradients": "int8:256"},
}


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def made(device, width, settings):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(BLOCKS))).to(device, torch.bfloat16)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    if settings is not None:
        zeropp.torch.compress(model, min_bytes=0, node_size=1, **settings)
    return model


def quartiles(samples):
    return dict(zip(("q1_us", "median_us", "q3_us"), (1e6 * each for each in statistics.quantiles(samples, n=4))))


def of_calls(call, device):
    """Host time of one call, by samples of CALLS calls after a warm-up."""
    samples = []
    for sample in range(SAMPLES + 5):
        wait(device)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        samples.append((time.perf_counter() - start) / CALLS)
    wait(device)
    return quartiles(samples[5:])


def of_steps(model, width, device):
    """Time of a step, by steps after a warm-up."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(4, width, device=device, dtype=torch.bfloat16)
    samples = []
    for _ in range(STEPS + 5):
        start = time.perf_counter()
        model(batch).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        wait(device)
        samples.append(time.perf_counter() - start)
    return quartiles(samples[5:])


def measure(name, settings, device):
    width, group = 256, dist.group.WORLD
    model = made(device, width, settings)
    row = {"setting": name, "step": of_steps(model, width, device)}
    part = torch.randn(width * width // dist.get_world_size(), device=device).bfloat16()
    whole = torch.empty(width * width, device=device, dtype=torch.bfloat16)
    if settings is None:
        row["gather"] = of_calls(lambda: dist.all_gather_into_tensor(whole, part, group=group), device)
        row["reduce"] = of_calls(lambda: dist.reduce_scatter_tensor(part, whole, group=group), device)
        return row
    gather, reduce = model[0]._zeropp_hooks
    if settings.get("weights") != "exact" and "weight_differences" not in settings:  # these gather what changed
        row["gather"] = of_calls(lambda: gather(whole, part, group), device)
    row["reduce"] = of_calls(lambda: reduce(part, whole, group, dist.ReduceOp.SUM), device)
    return row


def table(rows):
    """Medians, and quartiles in brackets, in us; the step's in ms."""
    def cell(row, kind, unit):
        if kind not in row:
            return "-"
        low, middle, high = (row[kind][name] / unit for name in ("q1_us", "median_us", "q3_us"))
        return f"{middle:.0f} ({low:.0f} to {high:.0f})"

    lines = [f"{'setting':40}{'gather: us':>20}{'reduction: us':>20}{'step: ms':>20}"]
    for row in rows:
        lines.append(f"{row['setting']:40}{cell(row, 'gather', 1):>20}{cell(row, 'reduce', 1):>20}"
                     f"{cell(row, 'step', 1e3):>20}")
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--json", help="file of the rows")
    chosen = options.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rows = [measure(name, settings, device) for name, settings in SETTINGS.items()
            if on_gpu or (settings or {}).get("transport") != "nccl"]
    if dist.get_rank() == 0:
        print(table(rows))
        if chosen.json:
            made = {"torch": torch.__version__, "blocks": BLOCKS, "rows": rows}
            with open(chosen.json, "w", encoding="utf-8") as file:
                print(json.dumps(made, separators=(",", ":")), file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
