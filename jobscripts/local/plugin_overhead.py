#!/usr/bin/env python3
"""Times what zeropp.torch adds to a collective of PyTorch: host time of a call, and encode and decode beside a copy.

usage: mpirun -n 2 jobscripts/local/plugin_overhead.py [--transport nccl|torch] [--device cuda|cpu] [--mib 1,16,64] [--json FILE]

Run it with the Python that has PyTorch and the package zeropp. For each size of a rank's bf16 shard it prints the host
time of one call (it returns before a GPU has finished) and the time until the result is there, of PyTorch's own
all-gather and of the plug-in with int8:256, and of its reduce-scatter with int4:128; then the time of the codec's encode
and decode of that shard and of a copy of it. Medians of 30 calls, microseconds, the largest over ranks.
Exit codes: 0 done; 2 usage; 3 no PyTorch, or no GPU for every rank.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "validation"))
from zpp_validate.peers import launch  # noqa: E402
from zpp_validate.tables import markdown_table  # noqa: E402

CALLS, WARM_UP = 30, 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=("nccl", "torch"), default="nccl")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mib", type=lambda text: [float(each) for each in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Bench:
    def __init__(self, torch, device):
        self.torch, self.device = torch, device

    def wait(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def microseconds(self, call):
        """(host time of a call, time until its result is there): medians, the largest over ranks."""
        host, whole = [], []
        for index in range(WARM_UP + CALLS):
            self.wait()
            self.torch.distributed.barrier()
            begin = time.perf_counter()
            call()
            returned = time.perf_counter()
            self.wait()
            if index >= WARM_UP:
                host.append(returned - begin)
                whole.append(time.perf_counter() - begin)
        medians = self.torch.tensor([1e6 * statistics.median(host), 1e6 * statistics.median(whole)], device=self.device)
        self.torch.distributed.all_reduce(medians, op=self.torch.distributed.ReduceOp.MAX)
        return medians.tolist()


def codec_calls(torch, device, shard, codec):
    """Encode and decode of a shard, by the library."""
    from zeropp import collectives
    from zeropp.library import Device
    from zeropp.torch.process_groups import stream_of
    from zeropp.torch.shared_plan import DTYPES

    dtype, where = DTYPES[shard.dtype], Device.CUDA if device.type == "cuda" else Device.HOST
    image = torch.empty(collectives.image_bytes(codec, dtype, shard.numel()), dtype=torch.uint8, device=device)
    back, stream = torch.empty_like(shard), stream_of(device)
    return (lambda: collectives.encode(codec, dtype, where, shard.data_ptr(), shard.numel(), image.data_ptr(), stream),
            lambda: collectives.decode(codec, dtype, where, image.data_ptr(), shard.numel(), back.data_ptr(), stream))


def measured(torch, device, transport, mib):
    """{what: (host time, time)} for a shard of so many MiB."""
    from zeropp.torch.compress import Settings
    from zeropp.torch.hooks import CompressedAllGather, CompressedReduceScatter
    from zeropp.torch.process_groups import Communicators
    from zeropp.torch.shared_plan import Plans

    dist, bench = torch.distributed, Bench(torch, device)
    group, ranks = dist.group.WORLD, dist.get_world_size()
    settings = Settings("int8:256", ("int4:128", "int4:128"), "int8:256", None, "auto", "auto", None, transport, 0)
    hook = ("overhead", None, settings, Plans(Communicators(1, transport)), lambda count: True)
    gather, reduce = CompressedAllGather(*hook), CompressedReduceScatter(*hook)
    shard = torch.randn(int(mib * 2**20 / 2), device=device).to(torch.bfloat16)
    full = torch.empty(ranks * shard.numel(), dtype=torch.bfloat16, device=device)
    copy = torch.empty_like(shard)
    encode, decode = codec_calls(torch, device, shard, "int8:256")
    calls = {
        "all-gather, PyTorch": lambda: dist.all_gather_into_tensor(full, shard, group=group),
        "all-gather, zeropp int8:256": lambda: gather(output_tensor=full, input_tensor=shard, group=group),
        "reduce-scatter, PyTorch": lambda: dist.reduce_scatter_tensor(copy, full, group=group),
        "reduce-scatter, zeropp int4:128": lambda: reduce(output_tensor=copy, input_tensor=full, group=group,
                                                          op=dist.ReduceOp.SUM),
        "copy": lambda: copy.copy_(shard), "encode int8:256": encode, "decode int8:256": decode}
    return {what: bench.microseconds(call) for what, call in calls.items()}


def main():
    options, place = arguments(), launch.Place(os.environ)
    place.tell_torch(os.environ)
    torch = launch.import_torch("plugin_overhead", place, options.device == "cuda")
    device = torch.device(options.device, place.local) if options.device == "cuda" else torch.device("cpu")
    if options.device == "cuda":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")
    found = {mib: measured(torch, device, options.transport, mib) for mib in options.mib}
    if place.rank == 0:
        head = ["microseconds"] + [f"{mib:g} MiB: {what}" for mib in options.mib for what in ("host", "done")]
        rows = [[what] + [f"{value:,.0f}" for mib in options.mib for value in found[mib][what]] for what in found[options.mib[0]]]
        print(markdown_table.aligned(head, rows, {"microseconds"}))
        if options.json:
            options.json.write_text(json.dumps({"transport": options.transport, "device": options.device, "torch": torch.__version__,
                                                "ranks": place.size, "microseconds": found}, indent=1) + "\n")
    sys.stdout.flush()
    os._exit(0)  # threads of the communication libraries may abort an ordinary exit


if __name__ == "__main__":
    main()
