"""Brings copies of 16-bit weights on all ranks up to date, as a trainer does with the weights of its rollout engines:
PyTorch's broadcast and all-gather of whole weights beside those of exact differences:
  torchrun --nproc-per-node 2 tests/bench/torch_weight_sync.py [--mib N] [--rates LIST] [--json FILE]
A weight moves by k or more units in the last place with probability RATE ** k. `bits`: per weight that exact
differences send, and `expected` of a closed form; `whole` and `exact`: median of the slowest rank, and its first and
third quartile; `ratio`: whole over exact. Every run is timed whole: what changed
is counted, ranks agree on the size, the image is encoded, sent and decoded. Copies are compared bit for bit after each
run; a difference ends in exit code 1. docs/concepts/exact-differences.md has the format. Needs zeropp's Python package
in PYTHONPATH."""

import argparse
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

from zeropp.collectives import ExactDifferences
from zeropp.library import EXACT_WIDTHS, Device, Dtype
from zeropp.torch.process_groups import stream_of

from torch_host_cost import wait

BLOCK = 1024  # weights that share an offset of 32 bits


def expected_bits(rate):
    """Bits per weight of the shortest image: codes, offsets, and 16 bits for each escape. A code of w bits escapes
    where a weight moves by 2 ** (w - 1) or more."""
    widths = (width + 32 / BLOCK + 16 * rate ** 2 ** (width - 1) for width in range(1, EXACT_WIDTHS + 1))
    return min(*widths, 16)


def moved(weights, rate, generator):
    """The weights after a step."""
    uniform = torch.rand(weights.shape, generator=generator, dtype=torch.float64)
    steps = (uniform.clamp_min(1e-300).log() / math.log(rate)).floor().clamp_max(2**14).to(torch.int32)
    signs = torch.randint(0, 2, weights.shape, generator=generator, dtype=torch.int32) * 2 - 1
    bits = weights.view(torch.int16).to(torch.int32)
    ordered = torch.where(bits < 0, -(bits & 0x7FFF) - 1, bits) + steps * signs
    ordered = (ordered + 0x8000) % 0x10000 - 0x8000  # modulo 2^16
    return torch.where(ordered < 0, (-(ordered + 1)) - 0x8000, ordered).to(torch.int16).view(torch.bfloat16)


class Exact:
    """Exact differences of `count` weights on every rank, or on the first alone."""

    def __init__(self, count, device, images):
        self.differences = ExactDifferences(Dtype.BF16, Device.CUDA if device.type == "cuda" else Device.HOST, count)
        self.counts = torch.empty(self.differences.count_bytes, dtype=torch.uint8, device=device)
        self.escapes = torch.empty(EXACT_WIDTHS, dtype=torch.int64, device=device)
        self.memory = torch.empty(images * (2 * count + 64), dtype=torch.uint8, device=device)
        self.stream = stream_of(device)
        self.shape = None

    def count(self, weights, copy):
        self.differences.count(weights.data_ptr(), copy.data_ptr(), self.counts.data_ptr(), self.escapes.data_ptr(),
                               self.stream)

    def images(self, number):
        """Memory for the images; the host waits for the counts on which ranks have agreed."""
        self.shape = self.differences.shape(self.escapes.tolist())
        return self.memory[:number * self.shape.bytes].view(number, self.shape.bytes)

    def encode(self, weights, copy, image):
        self.differences.encode(weights.data_ptr(), copy.data_ptr(), self.counts.data_ptr(), self.shape,
                                image.data_ptr(), self.stream)

    def decode(self, images, copies):
        self.differences.decode(images.data_ptr(), len(images), self.shape, copies.data_ptr(), self.stream)


def broadcast(weights, copies):
    copies.copy_(weights)
    dist.broadcast(copies, 0)


def all_gather(weights, copies):
    dist.all_gather_into_tensor(copies, weights)


def exact_broadcast(exact, weights, copies):
    root = dist.get_rank() == 0
    if root:
        exact.count(weights, copies)
    dist.broadcast(exact.escapes, 0)
    images = exact.images(1)
    if root:
        exact.encode(weights, copies, images)
    dist.broadcast(images, 0)
    exact.decode(images, copies)


def exact_all_gather(exact, weights, copies):
    own = copies.view(dist.get_world_size(), -1)[dist.get_rank()]
    exact.count(weights, own)
    dist.all_reduce(exact.escapes, dist.ReduceOp.MAX)
    images = exact.images(dist.get_world_size())
    exact.encode(weights, own, images[dist.get_rank()])
    dist.all_gather_into_tensor(images.view(-1), images[dist.get_rank()])
    exact.decode(images, copies)


def measure(update, turns, copies, samples):
    """Medians and quartiles of the slowest rank, in ms. `turns`: weights, and the copies that they give, in turn."""
    device, times = copies.device, []
    for turn in range(samples + 3):
        weights, expected = turns[turn % len(turns)]
        wait(device)
        dist.barrier()
        start = time.perf_counter()
        update(weights, copies)
        wait(device)
        slowest = torch.tensor([time.perf_counter() - start], device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        times.append(1e3 * slowest.item())
        if not torch.equal(copies.view(torch.int16), expected.view(torch.int16)):
            sys.exit(f"rank {dist.get_rank()}: the copies differ from the weights")
    return dict(zip(("q1", "median", "q3"), statistics.quantiles(times[3:], n=4)))


def row(collective, rate, count, device, samples):
    ranks, gathers = dist.get_world_size(), collective == "all_gather"
    states = []  # of the weights and of all copies: before and after a step
    generators = [torch.Generator().manual_seed(1 + rank) for rank in range(ranks if gathers else 1)]
    parts = [torch.randn(count, generator=generator).mul_(0.02).bfloat16() for generator in generators]
    for step in range(2):
        if step:
            parts = [moved(part, rate, generator) for part, generator in zip(parts, generators)]
        states.append((parts[dist.get_rank() if gathers else 0].to(device), torch.cat(parts).to(device)))
    copies = states[0][1].clone()
    exact = Exact(count, device, ranks if gathers else 1)
    whole, different = (all_gather, exact_all_gather) if gathers else (broadcast, exact_broadcast)
    turns = states[::-1]
    found = {"collective": collective, "rate": rate, "weights": count * (ranks if gathers else 1),
             "exact_ms": measure(lambda *both: different(exact, *both), turns, copies, samples)}
    found["bits"], found["expected_bits"] = 8 * exact.shape.bytes / count, expected_bits(rate)
    found["whole_ms"] = measure(whole, turns, copies, samples)
    return found


def table(rows):
    def cell(times):
        return f"{times['median']:.2f} ({times['q1']:.2f} to {times['q3']:.2f})"

    lines = [f"{'collective':12}{'rate':>6}{'bits':>7}{'expected':>10}{'whole: ms':>26}{'exact: ms':>26}{'ratio':>7}"]
    for each in rows:
        ratio = each["whole_ms"]["median"] / each["exact_ms"]["median"]
        lines.append(f"{each['collective']:12}{each['rate']:6g}{each['bits']:7.2f}{each['expected_bits']:10.2f}"
                     f"{cell(each['whole_ms']):>26}{cell(each['exact_ms']):>26}{ratio:7.2f}")
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mib", type=float, default=64, help="size of one part, or of what is broadcast [64]")
    options.add_argument("--rates", default="0.01,0.1,0.5,0.9", help="probabilities that a weight moves [%(default)s]")
    options.add_argument("--samples", type=int, default=15, help="timed runs, after three [15]")
    options.add_argument("--json", help="file of the rows")
    chosen = options.parse_args()
    rates = [float(each) for each in chosen.rates.split(",")]
    if not all(0 < rate < 1 for rate in rates):
        options.error(f"--rates {chosen.rates}: give numbers above 0 and below 1")
    if chosen.mib <= 0 or chosen.samples < 2:
        options.error("--mib is above 0, and --samples 2 or more")
    if int(os.environ.get("WORLD_SIZE", 1)) < 2:
        options.error("start two ranks or more, with torchrun")
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    count = max(8, int(chosen.mib * 2**20) // 16 * 8)
    rows = [row(collective, rate, count, device, chosen.samples)
            for collective in ("broadcast", "all_gather") for rate in rates]
    if dist.get_rank() == 0:
        print(table(rows))
        if chosen.json:
            made = {"torch": torch.__version__, "ranks": dist.get_world_size(), "rows": rows}
            with open(chosen.json, "w", encoding="utf-8") as file:
                print(json.dumps(made, separators=(",", ":")), file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
