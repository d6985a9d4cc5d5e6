"""Every program that writes a trace, at its smallest."""

import zpp

MATRIX = {"base": {"train_batch_size": 1, "zeropp": {"backend": "host", "train_steps": 2, "evaluation_interval": 2,
              "evaluation_batches": 1, "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32,
                                                 "num_attention_heads": 2, "seq_length": 8}}},
          "seeds": [1], "settings": [{"name": "zero3", "level": "markov"}]}
SWEEP = ["-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "--collective", "all_gather", "--algorithm", "direct",
         "--backend", "host"]
MODEL = ["--num-layers", "2", "--nodes", "2", "--ranks-per-node", "2", "--micro-batch-size", "1"]
CLUSTER = [*MODEL, "--gpu", "h100", "--node-gbit", "400", "--bf16"]
# By program, its words; zpp_converge reads matrix.json, which write_inputs() makes.
TRACED = {
    "train": zpp.TINY,
    "sweep": SWEEP,
    "fabric": ["--backend", "host", "--fabric-bytes", "4K", "--fabric-threshold", "1000"],
    "kernels": ["--filter", "^copy", "--values", "1000", "--samples", "5", "--cache", "1M", "--backend", "host"],
    "converge": ["--config", "matrix.json"],
    "plan": ["estimate", *MODEL],
}
# The commands of zpp_plan that write a trace.
PLANNED = {"compare": MODEL, "search": [*MODEL, "--goal", "bytes"], "time": CLUSTER, "breakeven": CLUSTER}


def write_inputs(case):
    case.write_json("matrix.json", MATRIX)


def command(program, *words):
    """The words that run a program, which has ranks unless it plans."""
    return [*([] if program == "plan" else [*zpp.MPIRUN, "-n", "1"]), zpp.BIN / f"zpp_{program}", *words]
