"""Trains again, in plain PyTorch, what zpp_converge trained without compression: same initial weights, same data, same
order.

usage: zpp-validate torch-curve TRACE... --output FILE [--data FILE] [--setting NAME] [--device cuda|cpu] [--no-compile]

TRACE is the converge.h5 of zpp_converge, or several of one matrix. Every seed of its uncompressed setting is trained on
one device: initial weights by the library's rule, drawn again here; the sequences of each step by the sampler's rule;
AdamW with fp32 master weights, schedule and clipping by the trace's configuration. A GPT with AdamW, in fp32 or bf16,
on tokens of a text or of llm.c. In bf16 the model is a bf16 copy of the masters, whose activations are bf16 where
zpp_converge ran on GPUs, and fp32 where it ran on the host.

Nothing is trained where the hash of tokens, seed, batches and steps is not the trace's /runs/data_hash. FILE, a JSON,
has losses, held-out losses, times and versions; seeds that it has already are kept. `zpp-validate curve-table` compares
both. Exit codes: 0 done; 2 usage, files of another kind, another configuration or other data; 3 no PyTorch, or no
such device.
"""

import argparse
import json
import os
import platform
from pathlib import Path

import numpy as np

from zpp_validate import command_line
from zpp_validate.curves import token_batches, trained
from zpp_validate.forms import learning_rate
from zpp_validate.problem import ENVIRONMENT, Problem, reading


def parse(words):
    parser = command_line.parser("torch-curve", __doc__)
    parser.add_argument("traces", type=command_line.InputFile, nargs="+", metavar="TRACE",
                        help="converge.h5 of zpp_converge")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE",
                        help="the JSON; one that is there is continued")
    parser.add_argument("--data", type=command_line.InputFile, metavar="FILE", help="tokens [the path in the trace]")
    parser.add_argument("--setting", metavar="NAME", help="which, where several are uncompressed")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="[cuda where there is one]")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction,
                        help="torch.compile of forward and loss [on cuda]")
    return parser.parse_intermixed_args(words)


def write(path, curves):
    """Whole, or as it was."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(curves))
    os.replace(new, path)


def open_tokens(work, place):
    """The tokens that every run of the trace read. Raises Problem."""
    data = work.config["zeropp"]["data"]
    tokens = token_batches.Tokens(data["source"], place or Path(work.path), data["held_out_fraction"])
    fingerprint = tokens.fingerprint()
    for run in work.runs:
        if token_batches.data_hash(fingerprint, work.config, run.seed) != run.data_hash:
            raise Problem(f"{place or work.path} with seed {run.seed} is not the data of the trace: /runs/data_hash is "
                          "another; give the file with --data")
    return tokens


def train(work, tokens, arguments, curves):
    import torch

    from zpp_validate.curves import trainer as trainers

    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise Problem("PyTorch sees no GPU: run on one, or with --device cpu", ENVIRONMENT)
    compiled = device == "cuda" if arguments.compile is None else arguments.compile
    own, config = work.config["zeropp"], work.config
    length, sequences, steps = own["model"]["seq_length"], config["train_batch_size"], own["train_steps"]
    vocabulary = own["model"].get("vocab_size") or own["data"].get("vocab_size") or 256
    trainer = trainers.Trainer(work, vocabulary, device, compiled)
    together = config["train_micro_batch_size_per_gpu"] * work.world_size
    batches = min(own["evaluation_batches"], tokens.held_out_sequences(length) // together)
    held_out = trainer.on_device(tokens.held_out_rows(batches * together, length))
    rates = [learning_rate.rate(config, step) for step in range(steps)]
    place = {"device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(), "compiled": compiled,
             "versions": {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda,
                          "numpy": np.__version__}}
    write(arguments.output, curves)  # what cannot be written is known before the first seed
    done = {(run["seed"], run["data_hash"]) for run in curves["runs"]}
    for number, run in enumerate(work.runs, 1):
        if run.key in done:
            continue
        rows = trainer.on_device(tokens.train_rows(run.seed, steps, sequences, length))
        if len(curves["runs"]) == len(done):
            trainer.warm_up(rows, held_out)
        result = trainer.run(run.seed, rows, held_out, rates, own["evaluation_interval"])
        result["tokens_per_second"] = steps * sequences * length / result["step_seconds"]
        curves["runs"].append({"seed": run.seed, "data_hash": run.data_hash} | place | result)
        write(arguments.output, curves)
        print(f"{number} of {len(work.runs)}: seed {run.seed}, held-out loss {result['evaluations'][-1][1]:.5f}, "
              f"zeropp's "
              f"{run.final_held_out_loss:.5f}, {result['seconds']:.1f} s, {result['tokens_per_second']:,.0f} tokens/s",
              flush=True)


def main(words):
    arguments = parse(words)
    work = trained.read(arguments.traces, arguments.setting)
    fresh = {"schema": trained.SCHEMA, "setting": work.setting, "config": work.config,
             "activations": work.activations, "runs": []}
    curves = trained.read_curves(arguments.output, work) if arguments.output.exists() else fresh
    with reading(arguments.data or work.path, "token file", "give the file with --data"):
        tokens = open_tokens(work, arguments.data)
    train(work, tokens, arguments, curves)
    return 0
