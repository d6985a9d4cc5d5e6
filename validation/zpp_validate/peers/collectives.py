"""Times PyTorch's all-gather and reduce-scatter over NCCL: the peer that zpp_sweep is compared with.

    torchrun --nproc-per-node 4 validation/zpp-validate peer-collectives -b 1K -e 4G -f 4 --json torch.json
    mpirun -n 4 validation/zpp-validate peer-collectives --node-size 2 ...

all_gather_into_tensor and reduce_scatter_tensor, out of place, counted as nccl-tests and zpp_sweep count: a size is the
whole buffer, a part of it a multiple of 16 bytes. Shares no code with the library. Every result is compared with
integers that have an exact sum; a wrong value makes a row INVALID.

A sample is the mean over as many iterations as last a millisecond, the largest over ranks; on GPUs it is taken by CUDA
events around them, after a barrier. The shown time is the median of the samples, of which there are as many as fit into
--max-seconds, 3 to 200. The JSON is of the family of zpp_sweep's: zpp-validate compare, plot and sweep-table
read it.
Exit code 0: done; 1: wrong values, or failed; 2: usage; 3: no PyTorch, or no GPU for every rank.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import socket
import sys
import time

from zpp_validate import command_line, problem
from zpp_validate.peers import launch
from zpp_validate.stats import sample_statistics

PROGRAM = problem.program("peer-collectives")
COLLECTIVES = {"all_gather": "none", "reduce_scatter": "sum"}  # and their operations, by nccl-tests' names
TYPES = {"float": ("float32", 4), "half": ("float16", 2), "bfloat16": ("bfloat16", 2)}
CYCLE_SECONDS, FEWEST_CYCLES, MOST_CYCLES, MOST_ITERATIONS = 1e-3, 3, 200, 1000
SUFFIXES = {"": 0, "K": 10, "M": 20, "G": 30}


def size(text):
    """Bytes: "1K", "4G"."""
    digits = text.rstrip("kKmMgG")
    unit = text[len(digits):].upper()
    if not digits.isdigit() or unit not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text} is no size: give bytes, or K, M, G")
    return int(digits) << SUFFIXES[unit]


def names(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in COLLECTIVES:
            raise argparse.ArgumentTypeError(f"unknown {name}: give {','.join(COLLECTIVES)}")
    return chosen


def arguments(words):
    parser = command_line.parser("peer-collectives", __doc__)
    parser.add_argument("-b", "--minbytes", type=size, default=size("1K"), help="size to begin with [1K]")
    parser.add_argument("-e", "--maxbytes", type=size, default=size("64M"), help="size to end at [64M]")
    parser.add_argument("-f", "--stepfactor", type=int, default=4, help="from size to size, multiplied [4]")
    parser.add_argument("-w", "--warmup_iters", type=command_line.positive, default=5,
                        help="iterations before a row [5]")
    parser.add_argument("-d", "--datatype", choices=TYPES, default="bfloat16", help="[bfloat16]")
    parser.add_argument("--collective", type=names, default=list(COLLECTIVES), help=f"[{','.join(COLLECTIVES)}]")
    parser.add_argument("--max-seconds", type=command_line.positive_number, default=0.2,
                        help="of one row's samples [0.2]")
    parser.add_argument("--node-size", type=command_line.positive, metavar="N",
                        help="emulate nodes of N ranks on one host: NCCL takes sockets on loopback between them")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu, over gloo: to try the script")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write rows and raw samples there")
    options = parser.parse_args(words)
    if options.stepfactor < 2 or options.minbytes < 1:
        parser.error("sizes grow from 1 or more by a factor of 2 or more")
    if options.minbytes > options.maxbytes:
        parser.error("--minbytes is above --maxbytes: no size is left")
    return options


def elements_of_part(bytes_, element_bytes, ranks):
    """nccl-tests: a part is a multiple of 16 bytes."""
    quantum = 16 // element_bytes
    return bytes_ // element_bytes // ranks // quantum * quantum


class Run:
    """One collective of one size. `start` enqueues it."""

    def __init__(self, torch, name, count, dtype, device, place):
        self.name, self.count, self.place, self.torch = name, count, place, torch
        parts = {"all_gather": (1, place.size), "reduce_scatter": (place.size, 1)}[name]
        self.input = self.integers(torch.arange(parts[0] * count, device=device), place.rank).to(dtype)
        self.output = torch.empty(parts[1] * count, dtype=dtype, device=device)
        distributed = torch.distributed
        self.operate = {"all_gather": distributed.all_gather_into_tensor,
                        "reduce_scatter": distributed.reduce_scatter_tensor}[name]

    @staticmethod
    def integers(index, rank):
        """-3 to 4: the sum over up to 64 ranks is exact in every type."""
        return index.add_(rank).remainder_(8).sub_(3)

    def start(self):
        self.operate(self.output, self.input)

    def wrong(self):
        """Values of the output that are not what they have to be, in pieces: memory is scarce beside 4 GiB."""
        self.output.fill_(float("nan"))
        self.start()
        torch, piece, wrong = self.torch, 1 << 24, 0
        for part in range(self.place.size if self.name == "all_gather" else 1):
            for first in range(0, self.count, piece):
                length = min(piece, self.count - first)
                got = self.output[part * self.count + first:][:length]
                if self.name == "all_gather":
                    wanted = self.integers(torch.arange(first, first + length, device=got.device), part)
                else:
                    begin = self.place.rank * self.count + first
                    wanted = sum(self.integers(torch.arange(begin, begin + length, device=got.device), rank)
                                 for rank in range(self.place.size))
                wrong += int((got != wanted.to(got.dtype)).sum())
        return wrong


class Timer:
    """Seconds of `body`: by events on the GPU's stream, or on the host."""

    def __init__(self, torch, device):
        self.torch, self.cuda = torch, device.type == "cuda"

    def __call__(self, body):
        self.torch.distributed.barrier()
        if not self.cuda:
            begin = time.perf_counter()
            body()
            return time.perf_counter() - begin
        self.torch.cuda.synchronize()
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        body()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3


def over_ranks(torch, values, device, operation):
    """`values` of all ranks, element by element."""
    shared = torch.tensor(values, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(shared, op=operation)
    return shared.tolist()


def measure(options, torch, run, device):
    """(samples in microseconds, iterations of each, wrong values): the same on every rank."""
    operations = torch.distributed.ReduceOp
    timer = Timer(torch, device)
    (wrong,) = over_ranks(torch, [run.wrong()], device, operations.SUM)
    warm = [timer(run.start) for _ in range(options.warmup_iters)]
    one = max(min(over_ranks(torch, warm, device, operations.MAX)), 1e-9)
    iterations = max(1, min(MOST_ITERATIONS, math.ceil(CYCLE_SECONDS / one)))
    cycles = max(FEWEST_CYCLES, min(MOST_CYCLES, int(options.max_seconds / (one * iterations))))

    def cycle():
        for _ in range(iterations):
            run.start()

    samples = [timer(cycle) / iterations * 1e6 for _ in range(cycles)]
    return over_ranks(torch, samples, device, operations.MAX), iterations, int(wrong)


def row(name, run, options, element_bytes, measured):
    """As zpp_sweep writes it. The vendor's route is not counted: no wire bytes."""
    samples, iterations, wrong = measured
    times, ranks = sample_statistics.summarize(samples), run.place.size
    bytes_ = ranks * run.count * element_bytes
    algorithm_bandwidth = bytes_ / times.median * 1e-3
    return {"collective": name, "codec": "none", "algorithm": "native", "group": "world",
            "transport": "nccl" if options.device == "cuda" else "gloo", "size": bytes_, "count": run.count,
            "type": options.datatype, "redop": COLLECTIVES[name], "root": -1, "modelled": True,
            "out_of_place": {"time": times.median, "alg_bw": algorithm_bandwidth,
                             "bus_bw": algorithm_bandwidth * (ranks - 1) / ranks, "nwrong": wrong, "samples": samples,
                             "iterations": iterations, "p50": times.median, "p95": times.p95, "cv": times.variation,
                             "ci95": [times.low, times.high],
                             "verdict": "VALID" if wrong == 0 else f"INVALID: {wrong} wrong values"}}


def sweep(options, place, torch):
    """(rows, devices of all ranks)"""
    distributed = torch.distributed
    on_gpu = options.device == "cuda"
    device = torch.device("cuda", place.local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    own = {"rank": place.rank, "group": 0, "pid": os.getpid(), "hostname": socket.gethostname(),
           "node": place.local // options.node_size if options.node_size else 0, "device": place.local,
           "device_info": torch.cuda.get_device_name(device) if on_gpu else "host"}
    devices = [None] * place.size
    distributed.all_gather_object(devices, own)
    dtype, element_bytes = TYPES[options.datatype]
    rows = []
    for name in options.collective:
        bytes_ = options.minbytes
        while bytes_ <= options.maxbytes:
            count = elements_of_part(bytes_, element_bytes, place.size)
            if count > 0:
                run = Run(torch, name, count, getattr(torch, dtype), device, place)
                rows.append(row(name, run, options, element_bytes, measure(options, torch, run, device)))
                del run
                if place.rank == 0:
                    show(rows[-1])
            bytes_ *= options.stepfactor
    distributed.barrier()
    distributed.destroy_process_group()
    return rows, devices


def show(values):
    measured = values["out_of_place"]
    print(f"{values['size']:>12}  {values['count']:>12}  {values['type']:>8}  {values['redop']:>6}  "
          f"{measured['time']:>12.2f} us  "
          f"{measured['bus_bw']:>8.2f} GB/s  {measured['nwrong']} wrong  {values['collective']}", flush=True)


def result(options, torch, rows, devices):
    """Content of --json: zpp_sweep's keys, as far as the peer has values for them."""
    on_gpu = options.device == "cuda"
    wrong = sum(entry["out_of_place"]["nwrong"] for entry in rows)
    return {"schema": "zeropp-sweep", "schema_version": "1.0", "peer": "PyTorch", "command_line": sys.argv,
            "start_time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "torch": torch.__version__, "cuda": torch.version.cuda,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None, "env": launch.told_environment(),
            "provenance": {"emulated": options.node_size is not None},
            "config": {"minimum_bytes": options.minbytes, "maximum_bytes": options.maxbytes,
                       "step_factor": options.stepfactor, "warmup_iters": options.warmup_iters,
                       "maximum_seconds": options.max_seconds, "node_size": options.node_size or 0},
            "devices": devices, "results": rows, "out_of_bounds": {"count": wrong, "okay": wrong == 0}, "errors": [],
            "verdict": "VALID" if wrong == 0 else f"INVALID: {wrong} wrong values"}


def main(words):
    options = arguments(words)
    place = launch.Place(os.environ)
    if options.node_size and place.size % options.node_size:
        launch.fail(PROGRAM, launch.USAGE, f"--node-size {options.node_size} does not divide the {place.size} ranks")
    place.tell_torch(os.environ)
    launch.set_nccl(os.environ, place, options.node_size)
    torch = launch.import_torch(PROGRAM, place, options.device == "cuda")
    try:
        rows, devices = sweep(options, place, torch)
    except (RuntimeError, ValueError) as error:
        launch.leave(PROGRAM, place, error)
    values = result(options, torch, rows, devices)
    if place.rank == 0 and options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(values) + "\n")
    sys.stdout.flush()
    os._exit(0 if values["verdict"] == "VALID" else launch.FAILED)  # threads of NCCL may abort an ordinary exit
