"""The commands of zpp-validate: the module of each, an example, and what it does, in one line."""

from typing import NamedTuple


class Command(NamedTuple):
    module: str  # its main(words) is called
    example: str  # the words after the command
    summary: str


GROUPS = {
    "Is a file right?": {
        "check": Command("checkers.check_trace", "out/train.h5",
                         "Judges traces of any program: VALID, or INVALID with the reasons."),
        "checkpoint": Command("checkers.checkpoint", "checkpoints",
                              "Checks that the checkpoints in a folder are whole."),
        "exported-weights": Command("checkers.exported_weights", "checkpoints/step-100 out/train.h5",
                                    "Compares a model.safetensors with the master weights beside it."),
        "copy-drift": Command("oracles.copy_drift", "checkpoints --trace out/train.h5",
                              "Says whether the nodes' copies of the weights stay beside the weights."),
    },
    "What does it say?": {
        "summarize": Command("reports.summarize", "out/train.h5 --plot pictures",
                             "Says what ran, whether it is whole, what was sent, what came out."),
        "report": Command("reports.report", "--output report out/a/train.h5 out/b/train.h5",
                          "Makes one table and one picture from several training runs."),
        "html": Command("reports.html_report", "out/train.h5 --output report",
                        "Makes one HTML page about any set of traces."),
        "plot": Command("plots.plot", "sweep.json --output pictures",
                        "Draws a sweep over collectives, and from which size a codec pays."),
        "plan-plot": Command("plots.plan_plot", "plan.json --output pictures",
                             "Draws what zpp_plan said: memory, bytes, a step's timeline."),
        "timeline": Command("plots.timeline", "out/train.h5 -o timeline.json",
                            "Writes the times of a training run for ui.perfetto.dev."),
        "converge": Command("convergence.converge", "out/converge.h5 --output judged",
                            "Judges a matrix of zpp_converge: which codecs train as well as none?"),
        "power": Command("convergence.power", "out/pilot/converge.h5 --half-width 0.003 --margin 0.005",
                         "Says from a pilot how many seeds a matrix of zpp_converge needs."),
        "size-trend": Command("convergence.size_trend", "out/7m/converge.h5 out/27m/converge.h5",
                              "Says whether what compression costs grows with the model."),
    },
    "Did anything change?": {
        "compare": Command("gate.compare", "before.h5 after.h5",
                           "Compares two measurements: which rows became slower, which faster?"),
        "gate": Command("gate.gate", "runs --baseline regression",
                        "Compares runs with the baseline of a machine: did anything become worse?"),
    },
    "For operators": {
        "expected": Command("gate.expected", "sweep.json --cluster inputs/clusters/hgx-h100.json",
                            "Says how much of the bandwidth that links allow a sweep reached."),
        "prometheus": Command("reports.prometheus", "sweep.json fabric.json --output zeropp.prom",
                              "Writes metrics for node_exporter's textfile collector."),
    },
    "Tables of studies": {
        "train-table": Command("tables.train_table", "results/here/train-shapes --output table.md",
                               "Makes the table of a study of training times."),
        "sweep-table": Command("tables.sweep_table", "sweep.json peer.json",
                               "Makes one table from sweeps over collectives on the same ranks."),
        "exact-bits": Command("tables.exact_bits", "out/train.h5 --output table.md",
                              "Makes the table of the bits per weight that exact differences took."),
        "network-table": Command("tables.network_table", "out/studies/network/summaries.json --output table.md",
                                 "Makes the tables of a study over emulated networks."),
    },
    "The planner": {
        "planner": Command("planner.planner", "--program build/bin/zpp_plan",
                           "Judges planned times against published ones and our own traces."),
    },
    "Independent arithmetic": {
        "oracle": Command("oracles.oracle", "gradients DIR",
                          "Computes loss and gradients of a case again, with NumPy."),
        "torch-oracle": Command("oracles.torch_oracle", "DIR --device cpu",
                                "Computes loss and gradients of a case again, with PyTorch."),
        "transformers": Command("oracles.hugging_face_models", "loss checkpoints/step-100 out/train.h5",
                                "Sets a model of the package transformers beside a run, or beside the NumPy oracle."),
    },
    "The loss curve beside PyTorch's": {
        "torch-curve": Command("curves.torch_curve", "out/converge.h5 --output curves.json",
                               "Trains in plain PyTorch what zpp_converge trained without compression."),
        "curve-table": Command("curves.curve_table", "out/converge.h5 --curves curves.json --output compared",
                               "Says whether both have the same loss curve."),
    },
    "Peers": {
        "peer-fsdp2": Command("peers.fsdp2", "--num-layers 12 --hidden-size 768 --json fsdp2.json",
                              "Times the training of a GPT or a Llama with PyTorch FSDP2."),
        "peer-collectives": Command("peers.collectives", "-b 1K -e 64M --json torch.json",
                                    "Times PyTorch's all-gather and reduce-scatter."),
        "raw-copy": Command("peers.raw_copy", "--bytes 1000000000 --json copy.json",
                            "Measures how fast the memory of a host is copied."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
