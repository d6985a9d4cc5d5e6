#!/usr/bin/env python3
"""Trains a GPT on a text with PyTorch FSDP2, plain and with zeropp.torch.compress(), and says what compression costs in
held-out loss.

usage: mpirun -n 2 jobscripts/local/plugin_losses.py --data FILE [--seeds N] [--setting NAME=JSON]... [--json FILE]

Tokens are the bytes of FILE; its last part is held out. A seed draws the initial weights and the order of the data, and every
setting is trained from every seed, so that losses are compared in pairs. The learning rate rises over the first twentieth of
the steps and falls by a cosine to a tenth. Held-out losses are in nats a byte, means over the same sequences for all. NAME=JSON
are the arguments of compress(), such as 'int4={"weights": "int4:128"}'; without any, the defaults are trained. The column
"compressed" is the share of collectives that were: where it is 0 %, the difference says nothing (min_bytes, node_size).
With --json a study that was ended continues where it stopped, also on another day.
Run it with the Python that has PyTorch, the package zeropp, NumPy and SciPy.
Exit codes: 0 done; 1 failed in training; 2 usage; 3 a package is missing, or a rank has no GPU.
"""

import argparse
import gc
import hashlib
import importlib
import json
import math
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "validation"))
from zpp_validate.forms.transformer import Shape  # noqa: E402
from zpp_validate.peers import launch  # noqa: E402
from zpp_validate.tables import markdown_table  # noqa: E402

VOCABULARY = 256
PLAIN, LEVEL = "plain FSDP2", 0.95
COLUMNS = ("setting", "held-out loss", "spread of seeds", "difference", "95 % interval", "compressed")


def setting(text):
    name, _, values = text.partition("=")
    keywords = json.loads(values)
    if not name or name == PLAIN or not isinstance(keywords, dict):
        raise argparse.ArgumentTypeError(f"'{text}' is no NAME=JSON with an object of arguments of compress()")
    return name, keywords


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--held-out", type=int, default=128, help="sequences a rank of the held-out part [128]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--setting", type=setting, action="append", metavar="NAME=JSON")
    parser.add_argument("--num-layers", type=int, default=6)
    parser.add_argument("--hidden-size", type=int, default=384)
    parser.add_argument("--num-attention-heads", type=int, default=6)
    parser.add_argument("--seq-length", type=int, default=256)
    parser.add_argument("--micro-batch-size", type=int, default=16, help="sequences a rank and step [16]")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=1e-3, help="the highest [0.001]")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write losses there after every run; runs that FILE has already are not made again")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: an interval needs two at least")
    options.setting = options.setting or [("compressed", {})]
    return options


class Text:
    """Sequences of a text on the device. Training sequences are drawn by a generator of the seed and rank. The held-out
    sequences are the end of the text."""

    def __init__(self, torch, options, place, device):
        content = torch.frombuffer(bytearray(options.data.read_bytes()), dtype=torch.uint8)
        self.torch, self.length, self.device = torch, options.seq_length, device
        held_out = place.size * options.held_out * (self.length + 1)
        if content.numel() < 2 * held_out:
            launch.fail("plugin_losses", launch.USAGE, f"{options.data} has {content.numel()} bytes: the held-out part takes {held_out}")
        self.training = content[:-held_out].to(device)
        mine = content[-held_out:].view(place.size, options.held_out, self.length + 1)[place.rank]
        self.held_out = mine.to(device).long().split(options.micro_batch_size)

    def order(self, seed, rank):
        return self.torch.Generator().manual_seed(1000 * seed + rank)

    def batch(self, order, count):
        starts = self.torch.randint(self.training.numel() - self.length, (count, 1), generator=order)
        return self.training[(starts + self.torch.arange(self.length + 1)).to(self.device)].long()


def train(modules, options, place, text, device, seed, keywords):
    """(held-out loss, mean training loss of the last tenth, share of rank 0's collectives that were compressed, seconds) of one run."""
    torch, transformer, plugin = modules
    distributed = torch.distributed
    mesh = distributed.device_mesh.init_device_mesh(options.device, (place.size,), mesh_dim_names=("shard",))
    with torch.device("meta"):
        model = transformer.Transformer(Shape.of({"name": "gpt", "tied_head": False, **vars(options)}, VOCABULARY))
    transformer.shard(model, mesh, torch.bfloat16)
    model.to_empty(device=device)
    transformer.initialize(model, place.size * seed + place.rank)
    if keywords is not None:
        plugin.compress(model, **keywords)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1, fused=device.type == "cuda")
    order, rise = text.order(seed, place.rank), max(1, options.steps // 20)
    recent, begin = [], time.perf_counter()

    def loss_of(batch):
        return transformer.cross_entropy(model(batch[:, :-1]), batch[:, 1:])

    for step in range(options.steps):
        share = max(0, step - rise) / max(1, options.steps - rise)
        optimizer.param_groups[0]["lr"] = options.lr * min((step + 1) / rise, 0.55 + 0.45 * math.cos(math.pi * share))
        loss = loss_of(text.batch(order, options.micro_batch_size))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= options.steps - max(1, options.steps // 10):
            recent.append(loss.detach())
    with torch.no_grad():
        held_out = torch.stack([loss_of(batch).double() * len(batch) for batch in text.held_out]).sum() / options.held_out
    means = torch.stack([held_out, torch.stack(recent).double().mean()])
    distributed.all_reduce(means)
    calls = [(row.codec != "none", row.calls) for row in plugin.report(model)] if keywords is not None else []
    share = sum(count for coded, count in calls if coded) / max(1, sum(count for _, count in calls))
    return *(means / place.size).tolist(), share, time.perf_counter() - begin


def described(options, ranks, version):
    """Settings that the runs of one study share, as --json keeps them. The text is identified by its digest, not its
    path."""
    with options.data.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    given = {key: str(value) for key, value in vars(options).items() if key not in ("seeds", "json", "data")}
    return {**given, "data_sha256": digest, "ranks": ranks, "torch": version}


def earlier(path, study):
    """Losses that --json has from an earlier start of the same study."""
    if not path or not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text())
        of_study, losses = kept["study"], kept["losses"]
    except (ValueError, KeyError):
        launch.fail("plugin_losses", launch.USAGE, f"{path} is no file that --json wrote: give another")
    for key, value in study.items():
        if of_study.get(key) != value:
            launch.fail("plugin_losses", launch.USAGE, f"{path} has runs with {key} {of_study.get(key)}, not {value}: give the same, "
                                                       "or another --json")
    return losses


def write(path, study, losses):
    """Whole, or as it was."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps({"study": study, "losses": losses}, indent=1) + "\n")
    os.replace(part, path)


def table(losses):
    """Means over the seeds, and over pairs of one seed the difference with Student's interval. `losses`: for PLAIN and each
    setting, dicts with seed, held_out and compressed, of the same seeds."""
    from zpp_validate.stats import paired

    plain = {run["seed"]: run["held_out"] for run in losses[PLAIN]}
    rows = []
    for name, runs in losses.items():
        held_out = paired.of([run["held_out"] for run in runs])
        row = [name, f"{held_out.mean:.4f}", f"{held_out.spread:.4f}", "", "", ""]
        if name != PLAIN:
            pairs = paired.of([run["held_out"] - plain[run["seed"]] for run in runs])
            low, high = pairs.interval(LEVEL)
            row[3:] = f"{pairs.mean:+.4f}", f"{low:+.4f} to {high:+.4f}", f"{runs[0]['compressed']:.0%}"
        rows.append(row)
    return markdown_table.aligned(COLUMNS, rows, {"setting"})


def main():
    options, place = arguments(), launch.Place(os.environ)
    place.tell_torch(os.environ)
    launch.set_nccl(os.environ, place, None)
    torch = launch.import_torch("plugin_losses", place, options.device == "cuda")
    try:
        from zpp_validate.peers import transformer
        importlib.import_module("scipy.stats")  # the table needs it: its absence is an error before the first run
        import zeropp.torch
    except ImportError as missing:
        launch.fail("plugin_losses", launch.ENVIRONMENT, f"{missing}: give {sys.executable} the packages zeropp, numpy and scipy")
    modules = torch, transformer, zeropp.torch

    device = torch.device("cuda", place.local) if options.device == "cuda" else torch.device("cpu")
    if options.device == "cuda":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")
    gc.disable()  # a collection stops the host of one rank, and all ranks wait for it
    try:
        study = described(options, place.size, torch.__version__)
        losses = earlier(options.json, study)
        text = Text(torch, options, place, device)
        for seed in range(1, options.seeds + 1):
            for name, keywords in [(PLAIN, None), *options.setting]:
                if any(run["seed"] == seed for run in losses.get(name, [])):
                    continue
                held_out, training, share, seconds = train(modules, options, place, text, device, seed, keywords)
                gc.collect()
                losses.setdefault(name, []).append({"seed": seed, "held_out": held_out, "training": training, "compressed": share,
                                                        "seconds": seconds})
                if place.rank == 0:
                    print(f"seed {seed}, {name}: held-out {held_out:.4f}, training {training:.4f}, {seconds:.0f} s", flush=True)
                    if options.json:
                        write(options.json, study, losses)
    except (RuntimeError, ValueError, OSError) as error:
        launch.leave("plugin_losses", place, error)
    if place.rank == 0:
        print(table(losses))
    sys.stdout.flush()
    os._exit(0)  # threads of the communication libraries may abort an ordinary exit


if __name__ == "__main__":
    main()
