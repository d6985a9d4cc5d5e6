"""GPT-2 as `transformers` has it, beside a run of zpp_train: the loss of exported weights, and weights to begin with.

usage: zpp-validate gpt2 loss FOLDER TRACE [--evaluation N] [--tolerance T]
       zpp-validate gpt2 make FOLDER [--layers N] [--hidden N] [--heads N] [--length N] [--vocabulary N] [--seed N]

loss: FOLDER has config.json and model.safetensors, as a checkpoint of --gather-weights-on-save; the mean loss of the
held-out sequences that TRACE's evaluation N [-1: the last] read, computed in fp32, beside the one in the trace;
|difference| / loss is at most T [1e-4]. The run's data is a text file (--data-source text), whose bytes are the tokens.
make: a GPT2LMHeadModel with random initial values, saved to FOLDER. Exit codes: 0 within the tolerance; 1 not; 2 usage,
or files that cannot be read; 3 no PyTorch or no transformers.
"""

import math
import os
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Unfit, reading
from zpp_validate.readers import run_file

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here is fetched


def sequences_of(run, evaluation):
    """[sequences, length + 1] of bytes: those that the evaluation read."""
    own = run["config"]["zeropp"]
    if own["data"]["source"] != "text":
        raise Unfit("the run read no text file: use --data-source text")
    data = Path(own["data"]["path"]).read_bytes()
    held_out = data[len(data) - math.ceil(len(data) * own["data"]["held_out_fraction"]):]
    length = own["model"]["seq_length"]
    sequences = run["config"]["train_micro_batch_size_per_gpu"] * run["world_size"]
    count = run["evaluations"]["batches"][evaluation] * sequences
    return [list(held_out[i * length:(i + 1) * length + 1]) for i in range(count)]


def loss(arguments):
    import torch
    from transformers import GPT2LMHeadModel

    run = run_file.read(arguments.trace)
    model = GPT2LMHeadModel.from_pretrained(arguments.folder, local_files_only=True).float().eval()
    tokens = torch.tensor(sequences_of(run, arguments.evaluation))
    with torch.no_grad():
        logits = model(tokens[:, :-1]).logits
        found = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
    expected = run["evaluations"]["loss"][arguments.evaluation]
    error = abs(found - expected) / expected
    print(f"transformers {found:.7f}, trace {expected:.7f}, relative difference {error:.2e} of {len(tokens)} sequences")
    return 0 if error <= arguments.tolerance else 1


def make(arguments):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(arguments.seed)
    config = GPT2Config(n_layer=arguments.layers, n_embd=arguments.hidden, n_head=arguments.heads,
                        n_positions=arguments.length,
                        vocab_size=arguments.vocabulary, bos_token_id=None, eos_token_id=None)
    GPT2LMHeadModel(config).save_pretrained(arguments.folder)
    return 0


def parse(words):
    parser = command_line.parser("gpt2", __doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    added = commands.add_parser("loss")
    added.set_defaults(command=loss)
    added.add_argument("folder", type=command_line.InputFolder)
    added.add_argument("trace", type=command_line.InputFile)
    added.add_argument("--evaluation", type=int, default=-1)
    added.add_argument("--tolerance", type=command_line.share, default=1e-4)
    added = commands.add_parser("make")
    added.set_defaults(command=make)
    added.add_argument("folder", type=Path)
    for name, value in (("layers", 2), ("hidden", 32), ("heads", 2), ("length", 16), ("vocabulary", 256), ("seed", 1)):
        added.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    with reading(arguments.folder, "GPT-2 of this run", "name a step-... folder with model.safetensors"):
        return arguments.command(arguments)
