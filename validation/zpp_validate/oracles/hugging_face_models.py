"""GPT-2, Llama and Qwen2 as the package transformers has them, beside a run of zpp_train and beside the NumPy oracle.

usage: zpp-validate transformers loss FOLDER TRACE [--evaluation N] [--tolerance T]
       zpp-validate transformers make FOLDER [--model MODEL] [--num-layers N] ...
       zpp-validate transformers gradients [--model MODEL] [--num-layers N] ... [--tolerance T]

loss: FOLDER has config.json and model.safetensors, as a checkpoint of --gather-weights-on-save; the mean loss of the
held-out sequences that TRACE's evaluation N [-1: the last] read, computed in fp32, beside the one in the trace;
|difference| / loss is at most T [1e-4]. A run with qwZ evaluates with lossy weights, and differs by more. The run's
data is a text file (--data-source text), whose bytes are the tokens.
make: a model with random initial values, saved to FOLDER. gradients: logits, loss and every gradient of a model with
random weights and tokens, in fp64, beside those of the NumPy oracle; norm-wise relative differences are at most T
[1e-10]. Sizes have the flags of zpp_train; --model llama with --add-qkv-bias is Qwen2. Exit codes: 0 within the
tolerance; 1 not; 2 usage, or files that cannot be read; 3 no PyTorch or no transformers.
"""

import math
import os
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.forms import hugging_face, model_options
from zpp_validate.problem import Problem, Unfit, reading, require
from zpp_validate.readers import run_file

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here is fetched


def sequences_of(run, evaluation):
    """[sequences, length + 1] of bytes: those that the evaluation read."""
    own = run["config"]["zeropp"]
    if own["data"]["source"] != "text":
        raise Unfit("its run read no text file, whose bytes transformers could read: train with --data-source text "
                    "and --eval-interval")
    data = Path(own["data"]["path"]).read_bytes()
    held_out = data[len(data) - math.ceil(len(data) * own["data"]["held_out_fraction"]):]
    length = own["model"]["seq_length"]
    sequences = run["config"]["train_micro_batch_size_per_gpu"] * run["world_size"]
    count = run["evaluations"]["batches"][evaluation] * sequences
    return [list(held_out[i * length:(i + 1) * length + 1]) for i in range(count)]


def loss(arguments):
    import torch
    from transformers import AutoModelForCausalLM

    with reading(arguments.folder, "model of this run", "name a step-... folder with model.safetensors"):
        run = run_file.read(arguments.trace)
        model = AutoModelForCausalLM.from_pretrained(arguments.folder, local_files_only=True).float().eval()
        tokens = torch.tensor(sequences_of(run, arguments.evaluation))
    with torch.no_grad():
        logits = model(tokens[:, :-1]).logits
        found = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
    expected = run["evaluations"]["loss"][arguments.evaluation]
    error = abs(found - expected) / expected
    print(f"transformers {found:.7f}, trace {expected:.7f}, relative difference {error:.2e} of {len(tokens)} sequences")
    if error <= arguments.tolerance:
        return 0
    lossy = run["config"]["zero_optimization"]["zero_quantized_weights"]
    print(f"the losses differ by more than {arguments.tolerance:g}" + (
        ": the run evaluated with weights that qwZ sent, and the file has those of the owners: evaluate with "
        "--load-weights and without qwZ" if lossy else ""))
    return 1


def shape_of(arguments):
    try:
        shape = model_options.shape(vars(arguments))
        hugging_face.model_type(shape)
        return shape
    except ValueError as error:
        raise Problem(f"{error}: choose other sizes") from None


def made(shape, **options):
    """A model of the package, with random initial values."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**hugging_face.config(shape), bos_token_id=None, eos_token_id=None)
    return AutoModelForCausalLM.from_config(config, **options)


def make(arguments):
    import torch

    torch.manual_seed(arguments.seed)
    made(shape_of(arguments)).save_pretrained(arguments.folder)
    return 0


def in_double():
    """A context in which the norms, rotations and softmax of the package, which ask for fp32, get fp64."""
    import torch

    class InDouble(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            wider = lambda value: torch.float64 if value is torch.float32 else value
            if function is torch.Tensor.float:
                function = torch.Tensor.double
            return function(*map(wider, args), **{name: wider(value) for name, value in (kwargs or {}).items()})

    return InDouble()


def of_transformers(shape, w, tokens, targets):
    """Logits, loss, and gradients by the package's names, in fp64."""
    import torch

    with in_double():
        model = made(shape, dtype=torch.float64, attn_implementation="eager").eval()
        missing, unexpected = model.load_state_dict({name: torch.tensor(value) for name, value in w.items()},
                                                    strict=False)
        if unexpected or missing != ["lm_head.weight"] * shape.tied_head:
            raise Unfit(f"transformers misses {missing}, and does not expect {unexpected}")
        logits = model(torch.tensor(tokens)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten())
        loss.backward()
    return (logits.detach().numpy(), loss.item(),
            {name: parameter.grad.numpy() for name, parameter in model.named_parameters()})


def gradients(arguments):
    import numpy as np

    from zpp_validate.oracles import network, oracle

    def renamed(values):
        return {name: part for own, value in values.items()
                for name, part in hugging_face.tensors(shape, own, value).items()}

    shape, random = shape_of(arguments), np.random.default_rng(arguments.seed)
    w = {tensor.name: random.normal(float(tensor.initial == "one"), 0.2, tensor.shape) for tensor in shape.tensors()}
    tokens, targets = random.integers(shape.vocabulary, size=(2, 3, shape.seq_length))
    logits, saved = network.forward(shape, w, tokens)
    loss, d_logits = network.cross_entropy(logits, targets)
    own = {"logits": logits, "loss": loss} | renamed(network.backward(shape, w, tokens, d_logits, saved))
    their_logits, their_loss, found = of_transformers(shape, renamed(w), tokens, targets)
    theirs = {"logits": their_logits, "loss": their_loss} | found
    require(own.keys() == theirs.keys(), f"one side alone has {sorted(own.keys() ^ theirs.keys())}")
    report = oracle.Report(arguments.tolerance)
    for name, value in own.items():
        report.compare(name, theirs[name], value)
    return report.verdict()


def parse(words):
    parser = command_line.parser("transformers", __doc__)
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
    add_model(added)
    added = commands.add_parser("gradients")
    added.set_defaults(command=gradients)
    add_model(added)
    added.add_argument("--tolerance", type=command_line.share, default=1e-10)
    return parser.parse_args(words)


def add_model(parser):
    model_options.add(parser, hidden_size=32, num_attention_heads=2, seq_length=16)
    parser.add_argument("--seed", type=int, default=1)


def main(words):
    arguments = parse(words)
    return arguments.command(arguments)
