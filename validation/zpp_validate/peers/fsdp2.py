"""Times the training of a transformer with PyTorch FSDP2: the peer that zpp_train is compared with.

    torchrun --nproc-per-node 4 validation/zpp-validate peer-fsdp2 --num-layers 48 --hidden-size 1600 ...
    mpirun -n 4 validation/zpp-validate peer-fsdp2 ...

bf16 compute and reductions, fp32 parameters, gradients and AdamW states (fused), one FSDP group a block; flat over
all ranks, or hybrid (--hybrid). With --plain one rank trains without FSDP: fp32 parameters, bf16 autocast, and
--compile of the whole. Shares no code with the library. Random tokens: speed does not depend on them. The vocabulary is
padded (--vocab-multiple); tokens, and the FLOP of MFU, are those of the vocabulary without padding.

A step ends with its last rank: all ranks begin together, and a step's time is the difference of the largest times
since then over ranks, so that steps add up to the run where ranks are late in turns. On GPUs times are taken by CUDA
events between steps, so that the host may run ahead, as it does in training (--timing).

Prints the median with its 95 % interval, the 95th percentile, the coefficient of variation, tokens/s/GPU, MFU
(validation/zpp_validate/forms/model_flops.py), the peak of allocated memory, and what the loopback interface sent a
step.
Exit code 0: done; 1: failed in training, out of memory say; 2: usage; 3: no PyTorch, or no GPU for every rank.
"""

import argparse
import datetime
import gc
import importlib
import json
import os
import pathlib
import sys
import time

from zpp_validate import command_line, problem
from zpp_validate.forms import model_flops, model_options
from zpp_validate.peers import launch
from zpp_validate.stats import sample_statistics

PROGRAM = problem.program("peer-fsdp2")


OF_FSDP = {"hybrid": None, "reshard": None, "prefetch": 0, "blocks_per_group": 1, "root_group": False,
           "keep_weights": False, "symmetric_memory": False}  # options, and their defaults


def prepared(text):
    """(module, function, keyword arguments) of --prepare."""
    name, _, values = text.partition(" ")
    module, colon, function = name.partition(":")
    try:
        keywords = json.loads(values or "{}")
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"after '{name}', {error}") from None
    if not (module and colon and function and isinstance(keywords, dict)):
        raise argparse.ArgumentTypeError(f"'{text}' is no MODULE:FUNCTION with a JSON object of arguments")
    return module, function, keywords


def arguments(words):
    parser = command_line.parser("peer-fsdp2", __doc__)
    shape = parser.add_argument_group("model")
    model_options.add(shape, vocab_size=50257)
    shape.add_argument("--micro-batch-size", type=command_line.positive, default=1, help="sequences a rank and step")
    shape.add_argument("--vocab-multiple", type=command_line.positive, default=64, metavar="N",
                       help="pad the vocabulary to a multiple of N: tensor cores are slow on rows of 50257 [64]")
    run = parser.add_argument_group("run")
    run.add_argument("--steps", type=command_line.positive, default=20, help="timed steps [20]")
    run.add_argument("--warmup", type=command_line.positive, default=5, help="steps before them [5]")
    run.add_argument("--lr", type=float, default=1e-4)
    run.add_argument("--recompute", action="store_true", help="keep a block's input alone for backward")
    run.add_argument("--compile", action="store_true",
                     help="torch.compile of each block and of the loss; with --plain of both in one graph")
    run.add_argument("--autotune", action="store_true",
                     help="have --compile time several kernels for each product (max-autotune-no-cudagraphs)")
    run.add_argument("--attention", choices=("auto", "flash", "cudnn"), default="auto",
                     help="kernel of scaled_dot_product_attention [auto: PyTorch's choice]")
    run.add_argument("--plain", action="store_true", help="one rank, no FSDP: fp32 parameters and bf16 autocast")
    run.add_argument("--reduce-dtype", choices=("bf16", "fp32"), default="bf16", help="of gradient reductions [bf16]")
    run.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu, over gloo: to try the script")
    run.add_argument("--deterministic", action="store_true",
                     help="the same losses in every bit from run to run, in slower steps")
    run.add_argument("--prepare", type=prepared, metavar="MODULE:FUNCTION[ JSON]",
                     help="call the function with the sharded model, and the members of the JSON object as keyword "
                     "arguments")
    run.add_argument("--expandable-segments", action=argparse.BooleanOptionalAction, default=None,
                     help="PyTorch's allocator maps memory into segments that grow (expandable_segments), instead of "
                          "segments that it frees and asks for again [on; off with --symmetric-memory, which cannot "
                          "use them]")
    run.add_argument("--timing", choices=("events", "barriers"), default="events",
                     help="events: CUDA events between steps; barriers: each step begins and ends on all ranks "
                          "together [events]")
    groups = parser.add_argument_group("FSDP2")
    groups.add_argument("--prefetch", type=command_line.natural, default=0, metavar="N",
                        help="gather the weights of N groups ahead (set_modules_to_forward_prefetch and "
                             "..._backward_prefetch), in the memory of so many more groups [0: FSDP2's own order]")
    groups.add_argument("--blocks-per-group", type=command_line.positive, default=1, metavar="N",
                        help="gather and reduce N blocks at a time: fewer and larger collectives, less work of the "
                             "host [1]")
    groups.add_argument("--root-group", action="store_true",
                        help="embedding, last norm and head in one group, which is kept between forward and backward, "
                             "instead of a group for the embedding and one for norm and head")
    groups.add_argument("--keep-weights", action="store_true",
                        help="keep gathered weights between forward and backward (reshard_after_forward=False), in the "
                             "memory of the whole model in bf16")
    groups.add_argument("--symmetric-memory", action="store_true",
                        help="buffers in NCCL's symmetric memory (set_symm_mem_for_comm), gathers by copy engines")
    place = parser.add_argument_group("nodes")
    place.add_argument("--hybrid", type=command_line.positive, metavar="NODE_SIZE",
                       help="shard inside groups of this many ranks, replicate across (HSDP)")
    place.add_argument("--reshard", type=command_line.positive, metavar="N",
                       help="gather weights for backward in groups of N ranks, a node's (reshard_after_forward=N: hpZ)")
    place.add_argument("--node-size", type=command_line.positive, metavar="N",
                       help="emulate nodes of N ranks on one host: NCCL takes sockets on loopback between them")
    result = parser.add_argument_group("results")
    result.add_argument("--peak-tflops", type=command_line.positive_number, default=model_flops.PEAK_TFLOPS,
                        help=f"of one GPU in bf16, for MFU [{model_flops.PEAK_TFLOPS}: dense, H200]")
    result.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write results and raw samples there")
    options = parser.parse_args(words)
    if options.expandable_segments is None:
        options.expandable_segments = not options.symmetric_memory
    return options


def loopback_bytes():
    """Sent by the loopback interface since the host started, or None where it does not say."""
    try:
        for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == "lo":
                return int(counters.split()[8])
    except OSError:
        pass
    return None


def check(options, place):
    try:
        model_options.shape(vars(options))
    except ValueError as error:
        launch.fail(PROGRAM, launch.USAGE, f"{error}: choose other sizes")
    for flag, size in (("--hybrid", options.hybrid), ("--node-size", options.node_size),
                       ("--reshard", options.reshard)):
        if size and place.size % size:
            launch.fail(PROGRAM, launch.USAGE, f"{flag} {size} does not divide the {place.size} ranks")
    if options.autotune and not options.compile:
        launch.fail(PROGRAM, launch.USAGE, "--autotune chooses among compiled kernels: add --compile")
    if options.keep_weights and options.reshard:
        launch.fail(PROGRAM, launch.USAGE, "--keep-weights leaves no gather for backward, which --reshard is about: "
                                           "drop one")
    if options.symmetric_memory and options.expandable_segments:
        launch.fail(PROGRAM, launch.USAGE, "--symmetric-memory cannot use --expandable-segments: drop one")
    if options.symmetric_memory and options.device == "cpu":
        launch.fail(PROGRAM, launch.USAGE, "--symmetric-memory is NCCL's, and --device cpu has gloo: drop one")
    if options.plain:
        if place.size > 1:
            launch.fail(PROGRAM, launch.USAGE, f"--plain is for one rank, and there are {place.size}")
        for name, default in OF_FSDP.items():
            if getattr(options, name) != default:
                launch.fail(PROGRAM, launch.USAGE, f"--{name.replace('_', '-')} is of FSDP2, which --plain does "
                                                   "without: drop one")


class Clock:
    """Seconds from its first mark to each later one: by events on the GPU's stream where it has one and `events` are
    asked for, else on the host."""

    def __init__(self, torch, device, events):
        self.torch, self.cuda, self.marks = torch, events and device.type == "cuda", []

    def mark(self):
        if self.cuda:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def elapsed(self):
        start, *ends = self.marks
        if not self.cuda:
            return [end - start for end in ends]
        self.torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 for end in ends]


def step_seconds(elapsed):
    """Seconds of each step from each rank's times at which steps ended, since all began together: a step ends with its
    last rank. The largest of the ranks' own intervals would count lateness twice that ranks make up for in turns."""
    ends = [max(ranks) for ranks in zip(*elapsed)]
    return [end - start for start, end in zip([0.0, *ends], ends)]


def padded_shape(options):
    rows = -(-options.vocab_size // options.vocab_multiple) * options.vocab_multiple
    return model_options.shape(vars(options) | {"vocab_size": rows})


def sharded(options, place, torch, transformer, model, device, compiled):
    """A function of tokens and targets that gives the loss of a model, which it shards and initializes."""
    shape, names = (((place.size // options.hybrid, options.hybrid), ("replicate", "shard")) if options.hybrid
                    else ((place.size,), ("shard",)))
    mesh = torch.distributed.device_mesh.init_device_mesh(options.device, shape, mesh_dim_names=names)
    cross_entropy = transformer.cross_entropy
    if options.compile:
        cross_entropy = torch.compile(cross_entropy, **compiled)
        for block in model.blocks:  # they share one graph
            block.compile(**compiled)
    reduce_dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[options.reduce_dtype]
    reshard = not options.keep_weights and (options.reshard or True)
    transformer.shard(model, mesh, reduce_dtype, reshard, options.blocks_per_group, options.root_group)
    order = transformer.groups(model, options.blocks_per_group)
    if options.prefetch:
        transformer.prefetch(order, options.prefetch)
    if options.symmetric_memory:
        transformer.use_symmetric_memory([*order, model])
    model.to_empty(device=device)
    transformer.initialize(model, mesh.get_local_rank("shard"))  # replicas begin alike
    return lambda tokens, targets: cross_entropy(model(tokens), targets)


def plain(options, torch, transformer, model, device, compiled):
    """The same without FSDP: weights in fp32, which autocast rounds to bf16 for products and attention."""
    model.to_empty(device=device)
    transformer.initialize(model, 0)

    def batch_loss(tokens, targets):
        with torch.autocast(options.device, torch.bfloat16):
            return transformer.cross_entropy(model(tokens), targets)

    return torch.compile(batch_loss, fullgraph=True, **compiled) if options.compile else batch_loss


def train(options, place, torch, transformer):
    """Seconds of each timed step (of step_seconds()), loopback bytes of all of them, losses of all steps (means over
    ranks), parameters, peak of allocated bytes (largest over ranks)."""
    distributed = torch.distributed
    torch.use_deterministic_algorithms(options.deterministic)
    on_gpu = options.device == "cuda"
    device = torch.device("cuda", place.local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    with torch.device("meta"):
        model = transformer.Transformer(padded_shape(options), options.recompute)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    compiled = {"mode": "max-autotune-no-cudagraphs"} if options.autotune else {}
    if options.plain:
        batch_loss = plain(options, torch, transformer, model, device, compiled)
    else:
        batch_loss = sharded(options, place, torch, transformer, model, device, compiled)
    if options.prepare:
        module, function, keywords = options.prepare
        getattr(importlib.import_module(module), function)(model, **keywords)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    size = (options.micro_batch_size, options.seq_length)
    tokens, targets = (torch.randint(options.vocab_size, size, device=device) for _ in range(2))

    losses = []

    def step():
        with transformer.attention(options.attention):
            loss = batch_loss(tokens, targets)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())

    def wait_for_all():
        if on_gpu:
            torch.cuda.synchronize()
        distributed.barrier()

    gc.collect()
    gc.disable()  # as torchtitan does: a collection stops the host of one rank, and all ranks wait for it
    for _ in range(options.warmup):
        step()
    wait_for_all()
    before = loopback_bytes()
    clock = Clock(torch, device, options.timing == "events")
    clock.mark()
    for _ in range(options.steps):
        step()
        if options.timing == "barriers":
            wait_for_all()
        clock.mark()
    elapsed = clock.elapsed()
    wait_for_all()
    after = loopback_bytes()

    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    own = torch.tensor([*elapsed, float(peak)], dtype=torch.float64, device=device)
    of_ranks = [torch.empty_like(own) for _ in range(place.size)]
    distributed.all_gather(of_ranks, own)
    means = torch.stack(losses).double()
    distributed.all_reduce(means)
    wait_for_all()
    distributed.destroy_process_group()
    *_, peak = torch.stack(of_ranks).amax(0).tolist()
    seconds = step_seconds([values.tolist()[:-1] for values in of_ranks])
    loopback = None if before is None or after is None else after - before
    return {"seconds": seconds, "loopback": loopback, "losses": (means / place.size).tolist(), "parameters": parameters,
            "peak_bytes": int(peak) if on_gpu else None}


def describe(options):
    """Name of the run, with each option of its speed that is no default."""
    parts = ["PyTorch, one GPU, bf16 autocast" if options.plain else "FSDP2"]
    for name, words in (("hybrid", "hybrid"), ("reshard", "hpZ"), ("prefetch", "prefetch")):
        if getattr(options, name):
            parts.append(f"{words} {getattr(options, name)}")
    if options.blocks_per_group > 1:
        parts.append(f"{options.blocks_per_group} blocks a group")
    if options.vocab_multiple != 64:
        parts.append(f"vocabulary in multiples of {options.vocab_multiple}")
    if options.attention != "auto":
        parts.append(f"{options.attention} attention")
    parts += [name.replace("_", " ") for name in ("root_group", "keep_weights", "symmetric_memory", "compile",
                                                  "autotune", "recompute", "deterministic") if getattr(options, name)]
    if not options.expandable_segments and not options.symmetric_memory:
        parts.append("no expandable segments")
    if options.timing != "events":
        parts.append(f"timed by {options.timing}")
    if options.reduce_dtype != "bf16":
        parts.append(f"reduced in {options.reduce_dtype}")
    if options.prepare:
        module, function, keywords = options.prepare
        parts.append(f"{module}:{function} {json.dumps(keywords)}")
    return ", ".join(parts)


def result(options, place, torch, run):
    """Content of --json."""
    times = sample_statistics.summarize(run["seconds"])
    tokens = options.micro_batch_size * options.seq_length
    rate = tokens / times.median
    flops = model_flops.flops_per_token(model_options.shape(vars(options)))
    on_gpu = options.device == "cuda"
    return {
        "schema": "zeropp-peer", "peer": describe(options), "command_line": sys.argv,
        "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__, "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        "gpu": torch.cuda.get_device_name() if on_gpu else None,
        "env": launch.told_environment(),
        "world_size": place.size, "node_size": options.node_size, "hybrid": options.hybrid,
        "emulated": options.node_size is not None, "parameters": run["parameters"],
        "options": {name: str(value) if isinstance(value, pathlib.Path) else value
                    for name, value in vars(options).items()},
        "step_seconds": run["seconds"], "step_median": times.median, "step_median_95": [times.low, times.high],
        "step_p95": times.p95, "step_variation": times.variation, "tokens_per_second_per_gpu": rate,
        "flops_per_token": flops, "peak_tflops": options.peak_tflops,
        "mfu": model_flops.utilization(rate, flops, options.peak_tflops), "peak_memory_bytes": run["peak_bytes"],
        "loopback_bytes_per_step": None if run["loopback"] is None else run["loopback"] / options.steps,
        "losses": run["losses"], "loss": run["losses"][-1],
    }


def show(values):
    low, high = values["step_median_95"]
    emulated = f", nodes of {values['node_size']} emulated" if values["emulated"] else ""
    lines = [f"{values['peer']} on {values['world_size']} ranks{emulated}: {values['parameters'] / 1e9:.2f} billion "
             f"parameters, loss {values['loss']:.3f}",
             f"step {values['step_median'] * 1e3:.1f} ms (95 %: {low * 1e3:.1f} to {high * 1e3:.1f}), p95 "
             f"{values['step_p95'] * 1e3:.1f} ms, CV {values['step_variation']:.1%}",
             f"{values['tokens_per_second_per_gpu']:,.0f} tokens/s/GPU, MFU {values['mfu']:.1%}"]
    if values["peak_memory_bytes"] is not None:
        lines.append(f"peak memory {values['peak_memory_bytes'] / 2**30:.1f} GiB")
    if values["loopback_bytes_per_step"] is not None:
        lines.append(f"{values['loopback_bytes_per_step'] / 1e9:.3f} GB per step on the loopback interface")
    print("\n".join(lines), flush=True)


def main(words):
    options = arguments(words)
    place = launch.Place(os.environ)
    check(options, place)
    place.tell_torch(os.environ)
    launch.set_nccl(os.environ, place, options.node_size)
    if options.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # else products on several streams differ from run to run
    launch.set_allocator(os.environ, options.expandable_segments)
    if options.compile:
        launch.set_compiler(os.environ)
    if options.symmetric_memory:
        launch.set_symmetric_memory(os.environ)
    torch = launch.import_torch(PROGRAM, place, options.device == "cuda")
    from zpp_validate.peers import transformer

    if options.symmetric_memory and not hasattr(transformer.FSDPModule, "set_symm_mem_for_comm"):
        launch.fail(PROGRAM, launch.ENVIRONMENT, f"PyTorch {torch.__version__} has no set_symm_mem_for_comm: install a "
                                                 "newer one, or drop --symmetric-memory")
    try:
        run = train(options, place, torch, transformer)
    except (RuntimeError, ValueError) as error:
        launch.leave(PROGRAM, place, error)
    if place.rank == 0:
        values = result(options, place, torch, run)
        show(values)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(values) + "\n")
    sys.stdout.flush()
    os._exit(0)  # threads of the communication libraries may abort an ordinary exit
