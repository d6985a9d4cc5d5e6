# ctest: name=contract9_options_matrix cuda=mpi,nccl labels=cli timeout=900 processors=4
"""No combination of options silently does something else: every pair of values of any two options is run.
A combination that cannot work ends with exit code 2 and one line that names the reason. The trace of every other run
shows that the requested options ran. And every option changes something, or is known to change nothing."""

import json
import tempfile
import unittest

import pairwise
import zpp

zpp.skip_without_gpus(4)
STEPS = 2
LOSS_SCALE = 256  # of fp16: the gradients of this model have room
FACTORS = {
    "nodes": [(1, 2), (1, 4), (2, 2), (4, 1)],  # nodes x ranks
    "stage": [0, 1, 2, 3],
    "weight_codec": [None, "int8:256", "int4:64"],  # qwZ
    "differences": [None, "int6:32"],  # of weights, with qwZ
    "hpz": [1, 2, 4],
    "gradient_codecs": [None, ("int4:128", "int4:128"), ("int8:64", "int4:256")],  # qgZ
    "all_gather": ["auto", "direct", "flat", "native", "native-images", "two-level"],
    "reduce_scatter": ["auto", "flat", "native", "ordered", "1-hop", "2-hop"],
    "depth": [1, 3],
    "overlap": [True, False],
    "precision": ["fp32", "bf16", "fp16", "bf16 fp16"],
    "gradient_dtype": ["fp32", "bf16"],
    "deterministic": [False, True],
    "accumulation": [1, 2],
    "clipping": [0.0, 0.01],
    "bucket": [500_000_000, 20_000],
    "prefetch": [None, 0],
    "tied": [True, False],
    "recompute": [False, True],
    "cpu_checkpointing": [False, True],
    "evaluate": [0, 1],
    "measured": [False, True],  # what compression loses
    "optimizer": ["AdamW", "Adam", "SGD", "Lion"],
    "moments": [None, "bf16", "int8"],
    "offload": [None, 1.0, 0.4],  # ratio of the optimizer that is offloaded
    "offload_to": ["cpu", "nvme"],  # the optimizer, where it is
    "offload_param": [None, "cpu", "nvme"],
}
FILES = tempfile.gettempdir()
IN_CPU = 4000  # elements of parameters on nvme that stay on the host
OFFLOAD_PIECE, OFFLOAD_BUFFERS = 960, 3


def reasons(row):
    """Keys or flags, one of which the refusal must name; empty: the combination is possible."""
    nodes, local = row["nodes"]
    found = []
    if row["stage"] < 3:
        found += [key for key, on in (("zero_quantized_weights", row["weight_codec"] and row["stage"] == 0),
                                      ("zero_hpz_partition_size", row["hpz"] > 1),
                                      ("stage3_prefetch_bucket_size", row["prefetch"] is not None)) if on]
    elif row["prefetch"] is not None and not row["overlap"]:
        found.append("stage3_prefetch_bucket_size")
    if row["differences"] and not row["weight_codec"]:
        found.append("weight_differences")
    # Where they go along rails; all runs name an algorithm of weight gathers.
    if row["differences"] and row["stage"] == 3:
        found += ["zeropp.all_gather_algorithm", *["zero_hpz_partition_size"] * (row["hpz"] != local),
                  *["several nodes"] * (nodes == 1)]
    if row["offload_param"] and (row["stage"] < 3 or row["offload"] != 1.0):
        found.append("offload_param.device")
    if row["measured"] and (row["gradient_dtype"] == "bf16" or row["offload_param"]):
        found.append("measure_quantization_error")
    if row["moments"] and row["optimizer"] == "SGD":
        found.append("zeropp.moments")
    if row["cpu_checkpointing"] and not row["recompute"]:
        found.append("cpu_checkpointing")
    if row["precision"] == "bf16 fp16":
        found.append("bf16.enabled")
    if row["gradient_dtype"] == "bf16" and (row["stage"] < 2 or "bf16" not in row["precision"]):
        found.append("gradient_dtype")
    if row["depth"] > 1 and (row["all_gather"], row["reduce_scatter"]) == ("native",) * 2:
        found.append("pipeline_depth")
    if local % row["hpz"] and (row["hpz"] % local or nodes * local % row["hpz"]):
        found.append("zero_hpz_partition_size")
    if row["weight_codec"] and row["all_gather"] == "native":
        found.append("all_gather_algorithm native")
    if row["gradient_codecs"]:
        if row["reduce_scatter"] in ("native", "ordered"):
            found.append("reduce_scatter_algorithm")
        elif row["reduce_scatter"] in ("flat", "1-hop") and len(set(row["gradient_codecs"])) > 1:
            found.append("gradient_codec_inter")
    if row["deterministic"] and row["reduce_scatter"] == "native":
        found.append("reduce_scatter_algorithm native")
    return found


def flags(row):
    nodes, local = row["nodes"]
    words = ["--train-iters", STEPS, "--node-size", local, "--zero-stage", row["stage"],
             "--zero-hpz-partition-size", row["hpz"], "--all-gather-algorithm", row["all_gather"],
             "--reduce-scatter-algorithm", row["reduce_scatter"], "--pipeline-depth", row["depth"],
             "--gradient-accumulation-steps", row["accumulation"], "--clip-grad", row["clipping"],
             "--reduce-bucket-size", row["bucket"], "--eval-interval", row["evaluate"],
             "--optimizer", row["optimizer"]]
    for name, flag in (("overlap", "overlap-comm"), ("deterministic", "deterministic"),
                       ("tied", "tied-head"), ("recompute", "recompute-activations")):
        words.append(f"--{flag}" if row[name] else f"--no-{flag}")
    for precision in ("bf16", "fp16"):
        words.append(f"--{precision}" if precision in row["precision"] else f"--no-{precision}")
    if row["gradient_dtype"] != "fp32":
        words += ["--gradient-dtype", row["gradient_dtype"]]
    if "fp16" in row["precision"]:
        words += ["--loss-scale", LOSS_SCALE]
    if row["weight_codec"]:
        words += ["--zero-quantized-weights", "--weight-codec", row["weight_codec"]]
    if row["differences"]:
        words += ["--weight-differences", "--weight-difference-codec", row["differences"]]
    if row["gradient_codecs"]:
        words += ["--zero-quantized-gradients", "--gradient-codec-intra", row["gradient_codecs"][0],
                  "--gradient-codec-inter", row["gradient_codecs"][1]]
    if row["moments"]:
        words += ["--moments", row["moments"]]
    if row["cpu_checkpointing"]:  # of three inputs one
        words += ["--cpu-checkpointing", "--num-layers", 3]
    if row["evaluate"]:
        words += ["--eval-iters", 1]
    if row["measured"]:
        words += ["--measure-quantization-error", 1]
    if row["offload"]:
        words += ["--offload-optimizer", row["offload_to"], "--offload-optimizer-ratio", row["offload"],
                  "--sub-group-size", OFFLOAD_PIECE,
                  "--offload-optimizer-buffer-count", OFFLOAD_BUFFERS]
        if row["offload_to"] == "nvme":
            words += ["--offload-optimizer-nvme-path", FILES, "--no-offload-optimizer-pipeline-write"]
    if row["offload_param"]:
        words += ["--offload-param", row["offload_param"]]
    if row["offload_param"] == "nvme":
        words += ["--offload-param-nvme-path", FILES, "--offload-param-max-in-cpu", IN_CPU,
                  "--offload-param-buffer-count", 2]
    if row["prefetch"] is not None:
        words += ["--prefetch-bucket-size", row["prefetch"]]
    return words


def effective(row):
    """The values that `auto` stands for."""
    nodes, local = row["nodes"]
    gather, reduction = row["all_gather"], row["reduce_scatter"]
    plain = "native" if zpp.TRANSPORT == "nccl" and not row["deterministic"] and row["depth"] == 1 else "flat"
    if gather == "auto":
        image = ("flat" if zpp.TRANSPORT != "nccl" or row["deterministic"] else
                 "direct" if row["depth"] == 1 else "native-images")
        gather = "two-level" if nodes > 1 and local > 1 else image if row["weight_codec"] else plain
    if reduction == "auto":
        reduction = ("2-hop" if row["gradient_codecs"] else "ordered" if row["deterministic"]
                     else "2-hop" if nodes > 1 and local > 1 else plain if nodes == 1 else "flat")
    return gather, reduction, plain


class Matrix(zpp.TestCase):
    def test_every_pair(self):
        # One reason at a time, so that a refusal cannot stand in for another.
        # The test weight_differences covers weight differences at stage 3.
        rows = pairwise.cover(FACTORS, [lambda row: not reasons(row), lambda row: len(set(reasons(row))) == 1])
        possible = [row for row in rows if not reasons(row)]
        self.assertGreater(len(possible), 25)
        self.assertGreater(len(rows) - len(possible), 5)
        print(f"{len(possible)} combinations run, {len(rows) - len(possible)} are refused")
        runs = zpp.side_by_side(lambda numbered: self.run_row(*numbered), enumerate(rows))
        traces = []
        for row, (out, result) in zip(rows, runs):
            with self.subTest(**row):
                why = reasons(row)
                if why:
                    self.assertEqual((result.code, len(result.errors())), (zpp.USAGE, 1), result)
                    self.assertTrue(any(key in result.errors()[0] for key in why), (why, result.errors()))
                    self.assertFalse(out.exists(), "refused after it began")
                else:
                    self.check_ok(result)
                    traces.append(out / "train.h5")
                    self.check_effective(row, *self.trace(out))
        self.check_accepted(*traces)

    def run_row(self, index, row):
        out = self.folder / str(index)
        return out, self.train(row["nodes"][0] * row["nodes"][1], *flags(row), out=out)

    def check_effective(self, row, root, groups):
        nodes, local = row["nodes"]
        self.assertEqual((root["node_count"], root["ranks_per_node"], root["emulated"]), (nodes, local, 1))
        self.check_configuration(row, json.loads(root["config_json"]), root)
        self.check_collectives(row, groups)
        # The checker judges their sizes, like the sizes of all rows of /memory.
        self.assertEqual("offloaded_activations" in groups["memory"]["name"], row["cpu_checkpointing"])
        self.assertEqual(("errors" in groups, "measurement" in groups["memory"]["name"]), (row["measured"],) * 2)
        self.assertEqual("offloaded_master" in groups["memory"]["name"], row["offload"] is not None)
        self.assertEqual("offloaded_weights" in groups["memory"]["name"], row["offload_param"] is not None)
        self.assertEqual(groups["steps"]["skipped"], [0] * STEPS)
        self.assertEqual(groups["steps"]["loss_scale"],
                         [float(LOSS_SCALE) if row["precision"] == "fp16" else 1.0] * STEPS)
        self.assertEqual(len(groups["evaluations"]["loss"]), (STEPS + 1) * row["evaluate"])
        uses = groups["layers"]["units"]
        self.assertEqual(uses[0].split(",")[0] in uses[-1].split(","), row["tied"])

    def check_configuration(self, row, config, root):
        gather, reduction, _ = effective(row)
        zero, own = config["zero_optimization"], config["zeropp"]
        codecs = row["gradient_codecs"] or (None, None)
        asked = {
            "stage": (zero["stage"], row["stage"]),
            "qwZ": (zero["zero_quantized_weights"], row["weight_codec"] is not None),
            "hpZ": (zero["zero_hpz_partition_size"], row["hpz"]),
            "qgZ": (zero["zero_quantized_gradients"], row["gradient_codecs"] is not None),
            "weight codec": (own.get("weight_codec"), row["weight_codec"]),
            "codec of differences": (own.get("weight_difference_codec"), row["differences"]),
            "first gradient codec": (own.get("gradient_codec_intra"), codecs[0]),
            "second gradient codec": (own.get("gradient_codec_inter"), codecs[1]),
            "all-gather": (own["all_gather_algorithm"], gather),
            "reduce-scatter": (own["reduce_scatter_algorithm"], reduction),
            "depth": (own["pipeline_depth"], row["depth"]),
            "overlap": (zero["overlap_comm"], row["overlap"]),
            "precision": ([name for name in ("bf16", "fp16") if config[name]["enabled"]],
                          [row["precision"]] if row["precision"] != "fp32" else []),
            "gradients": (own.get("gradient_dtype"),
                          row["gradient_dtype"] if row["stage"] >= 2 and row["precision"] == "bf16" else None),
            "deterministic": (own["deterministic"], row["deterministic"]),
            "deterministic attribute": (root["deterministic"], int(row["deterministic"])),
            "measured": (own["measure_quantization_error"], int(row["measured"])),
            "accumulation": (config["gradient_accumulation_steps"], row["accumulation"]),
            "batch": (config["train_batch_size"], 2 * row["accumulation"] * root["world_size"]),
            "clipping": (config["gradient_clipping"], row["clipping"]),
            "bucket": (zero["reduce_bucket_size"], row["bucket"]),
            "optimizer": (config["optimizer"]["type"], row["optimizer"]),
            "moments": (own.get("moments"), None if row["optimizer"] == "SGD" else row["moments"] or "fp32"),
            "prefetch": (zero.get("stage3_prefetch_bucket_size"),
                         None if row["stage"] < 3 or not row["overlap"] else 50_000_000 if row["prefetch"] is None
                         else 0),
            "tied head": (own["model"]["tied_head"], row["tied"]),
            "offload": (zero["offload_optimizer"], {
                "device": row["offload_to"], "ratio": row["offload"], "buffer_count": OFFLOAD_BUFFERS,
                "pin_memory": False,
                **({"nvme_path": FILES, "pipeline_read": True, "pipeline_write": False} if row["offload_to"] == "nvme"
                   else {}),
            } if row["offload"] else {"device": "none"}),
            "sub-groups": (zero.get("sub_group_size"), OFFLOAD_PIECE if row["offload"] else None),
            "offload of parameters": (zero["offload_param"], {
                "device": row["offload_param"], "pin_memory": False,
                **({"nvme_path": FILES, "max_in_cpu": IN_CPU, "buffer_count": 2} if row["offload_param"] == "nvme"
                   else {}),
            } if row["offload_param"] else {"device": "none"}),
            "recompute": (own["model"]["recompute_activations"], row["recompute"]),
            "cpu checkpointing": (own["model"].get("cpu_checkpointing", False), row["cpu_checkpointing"]),
            "FLOPs twice": (root["hardware_flops_per_token"] > root["flops_per_token"], row["recompute"]),
        }
        for name, (found, expected) in asked.items():
            self.assertEqual(found, expected, name)

    def check_collectives(self, row, groups):
        """Every collective that ran, and no other."""
        gather, reduction, inside = effective(row)
        nodes, local = row["nodes"]
        weights = ("all_gather", "weights", gather, row["weight_codec"] or "none", "world")
        secondary = ("all_gather", "weights_secondary", inside, "none", "secondary")
        if not row["gradient_codecs"]:
            codec = "none/none" if reduction == "2-hop" and nodes > 1 and local > 1 else "none"
        elif reduction != "2-hop" or nodes == 1:
            codec = row["gradient_codecs"][0]
        elif local == 1:
            codec = row["gradient_codecs"][1]
        else:
            codec = "/".join(row["gradient_codecs"])
        expected = {("reduce_scatter", "gradients", reduction, codec, "world", "backward")}
        if row["stage"] == 3:
            # With hpZ the first use after a step gathers globally; where evaluation is that first use and
            # every step is followed by one, forward never does.
            later = secondary if row["hpz"] > 1 else weights
            expected |= {(*later, "forward"), (*later, "backward")}
            if row["evaluate"]:
                expected |= {(*weights, "evaluation"), (*later, "evaluation")}
            if not row["evaluate"] or row["hpz"] == 1:
                expected.add((*weights, "forward"))
            if row["hpz"] > 1 and not row["tied"]:
                # No unit is used twice in a forward pass: only a pass that is not the first reads the
                # secondary shards.
                if not row["evaluate"] and row["accumulation"] == 1:
                    expected.discard((*secondary, "forward"))
                expected.discard((*secondary, "evaluation"))
        elif row["stage"] in (1, 2):
            differences = ("all_gather", "weights_difference", gather, row["differences"], "world")
            expected |= {(*weights, "initial"), (*(differences if row["differences"] else weights), "update")}
        else:
            expected.add(("all_gather", "gradients", gather, "none", "world", "backward"))
        columns = groups["collectives"]
        found = list(zip(*(columns[name] for name in ("operation", "purpose", "algorithm", "codec", "group",
                                                      "phase"))))
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(columns["modelled"],
                         [int(name in ("native", "native-images")) for name in columns["algorithm"]])
        counters = dict(zip(groups["counters"]["name"], groups["counters"]["value"]))
        self.assertEqual(counters.get("secondary_gathers", 0) > 0, row["hpz"] > 1)
        if row["hpz"] > 1 and local % row["hpz"] == 0:
            backward = [sent for sent, phase, purpose in zip(columns["wire_bytes_inter"], columns["phase"],
                                                             columns["purpose"])
                        if phase == "backward" and purpose != "gradients"]
            self.assertEqual(sum(backward), 0)
        calls = columns["calls"][found.index(next(key for key in found if key[0] == "reduce_scatter"))]
        reductions = STEPS * (row["accumulation"] if row["stage"] >= 2 else 1)
        self.assertEqual(calls % reductions, 0)
        # The embedding's gradients, which stay fp32, travel apart from gradients in bf16.
        several = row["bucket"] < 500_000_000 or row["gradient_dtype"] == "bf16"
        self.assertEqual(calls // reductions > 1, several, "buckets")


# Flags that must change the final parameters of a run, and flags that must not.
BASE = {"--deterministic": None, "--node-size": "2", "--zero-quantized-weights": None,
        "--zero-quantized-gradients": None, "--zero-hpz-partition-size": "2", "--clip-grad": "0.5",
        "--error-feedback": "both", "--error-feedback-beta": "0.5"}
CHANGES = {
    "--seed": "2", "--lr": "0.005", "--adam-beta1": "0.5", "--adam-beta2": "0.5", "--adam-eps": "0.01",
    "--weight-decay": "0.3", "--decayed-parameters": "all", "--clip-grad": "0.1", "--bf16": None,
    "--weight-codec": "int8:64",
    "--gradient-codec-intra": "int8:128", "--gradient-codec-inter": "int8:128", "--node-size": "4",
    "--micro-batch-size": "3", "--gradient-accumulation-steps": "2", "--global-batch-size": "16",
    "--train-iters": "4", "--num-layers": "3", "--hidden-size": "48", "--num-attention-heads": "4",
    "--num-key-value-heads": "1", "--head-dim": "10", "--ffn-hidden-size": "40", "--norm-eps": "0.001",
    "--add-qkv-bias": None, "--rope-theta": "500",
    "--seq-length": "12", "--vocab-size": "70", "--no-tied-head": None, "--held-out-fraction": "0.2",
    "--reduce-scatter-algorithm": "1-hop", "--no-zero-quantized-weights": None, "--model": "quadratic",
    "--no-zero-quantized-gradients": None, "--optimizer": "Lion", "--moments": "bf16", "--sgd-momentum": "0.9",
    "--sgd-nesterov": None, "--adam-w-mode": None,
    "--no-zero-quantized-gradients": None, "--error-feedback": "intra", "--error-feedback-beta": "0.8",
    "--error-feedback-reset-period": "1", "--error-feedback-dtype": "int8",
    "--scheduler": "WarmupLR", "--warmup-min-lr": "0.0005", "--warmup-max-lr": "0.004", "--lr-warmup-iters": "3",
    "--warmup-type": "linear",
    "--lr-decay-iters": "4", "--warmup-min-ratio": "0.5", "--cos-min-ratio": "0.5",
    "--gradient-dtype": "bf16", "--fp16": None, "--loss-scale": "1000", "--initial-scale-power": "17",
    "--loss-scale-window": "1", "--hysteresis": "1",
    "--min-loss-scale": "65537",
    "--codec-schedule": '[{"from_step": 1, "units": ["block"], "gradient_codec_inter": "int8:128"}]',
    "--adaptive-bits": "weights", "--adaptive-bits-minimum": "4", "--adaptive-bits-maximum": "3",
    "--adaptive-bits-block": "64",
    "--adaptive-bits-budget-codec": "int6:128", "--adaptive-bits-budget-bytes": "200K",
    "--weight-differences": None, "--weight-difference-codec": "int8:64", "--weight-copy-dtype": "fp32",
    "--weight-refresh-interval": "1",
}
NEUTRAL = {
    "--zero-hpz-partition-size": "4", "--hpz-device": "cpu", "--keep-weight-images": None,
    "--all-gather-algorithm": "flat",
    "--pipeline-depth": "4", "--recompute-activations": None, "--checkpoint-activations": None,
    "--recompute-interval": "2",
    "--cpu-checkpointing": None, "--checkpoint-in-cpu": None, "--deepspeed-activation-checkpointing": None,
    "--max-live-parameters": "0",
    "--max-reuse-distance": "1000000000", "--param-persistence-threshold": "10000",
    "--model-persistence-threshold": "20000",
    "--measure-quantization-error": "1", "--no-overlap-comm": None, "--prefetch-bucket-size": "0",
    "--eval-interval": "1", "--eval-iters": "2",
    "--log-interval": "1", "--zero-stage": "3", "--verify-interval": "2", "--verify-action": "warn",
    "--backend": "host", "--transport": "mpi", "--hash-parameters": None, "--device-memory-limit": "1G",
    "--offload-optimizer": "cpu", "--offload-optimizer-pin-memory": None, "--offload-optimizer-buffer-count": "1",
    "--offload-optimizer-ratio": "0.3", "--offload-piece-size": "1K", "--offload-param": "cpu",
    "--offload-param-pin-memory": None,
    "--sub-group-size": "500", "--offload-optimizer-nvme-path": "/var/tmp",
    "--no-offload-optimizer-pipeline-read": None,
    "--no-offload-optimizer-pipeline-write": None, "--offload-param-nvme-path": "/var/tmp",
    "--offload-param-buffer-count": "1",
    "--offload-param-max-in-cpu": "0", "--aio-block-size": "4K", "--aio-queue-depth": "1", "--aio-thread-count": "3",
    "--aio-single-submit": None, "--no-aio-overlap-events": None, "--update-in-backward": None,
}
ON_FILES = {"--offload-optimizer": "nvme", "--offload-optimizer-nvme-path": FILES}
# Flags that a flag needs to have an effect: its run is compared with a run that has these alone.
NEEDS = {"--update-in-backward": {"--clip-grad": "0"}, "--decayed-parameters": {"--weight-decay": "0.3"},
         "--model-persistence-threshold": {"--param-persistence-threshold": "1000000"},
         "--eval-iters": {"--eval-interval": "1"}, "--verify-action": {"--verify-interval": "1"},
         "--sgd-momentum": {"--optimizer": "SGD"},
         "--recompute-interval": {"--recompute-activations": None, "--num-layers": "3"},
         "--cpu-checkpointing": {"--recompute-activations": None, "--num-layers": "5"},
         "--checkpoint-in-cpu": {"--recompute-activations": None, "--num-layers": "5", "--recompute-interval": "2"},
         "--warmup-min-lr": {"--scheduler": "WarmupLR"}, "--warmup-max-lr": {"--scheduler": "WarmupLR"},
         "--lr-warmup-iters": {"--scheduler": "WarmupLR"}, "--warmup-type": {"--scheduler": "WarmupLR"},
         "--lr-decay-iters": {"--scheduler": "WarmupDecayLR", "--lr-warmup-iters": "2", "--lr-decay-iters": "9",
                              "--train-iters": "5"},
         "--warmup-min-ratio": {"--scheduler": "WarmupCosineLR", "--lr-decay-iters": "9"},
         "--cos-min-ratio": {"--scheduler": "WarmupCosineLR", "--lr-warmup-iters": "2", "--lr-decay-iters": "5",
                             "--train-iters": "5"},
         "--sgd-nesterov": {"--optimizer": "SGD", "--sgd-momentum": "0.9"},
         "--adam-w-mode": {"--optimizer": "Adam", "--weight-decay": "0.3"},
         "--gradient-dtype": {"--bf16": None},
         "--add-qkv-bias": {"--model": "llama"}, "--rope-theta": {"--model": "llama"},
         # Gradients of these runs overflow at 2^17, and not at 2^16.
         "--loss-scale": {"--fp16": None}, "--initial-scale-power": {"--fp16": None},
         "--loss-scale-window": {"--fp16": None},
         "--hysteresis": {"--fp16": None, "--initial-scale-power": "17"},
         "--min-loss-scale": {"--fp16": None, "--initial-scale-power": "17", "--hysteresis": "1"},
         **{flag: {"--offload-optimizer": "cpu"} for flag in NEUTRAL
            if flag.startswith(("--offload-optimizer-", "--offload-p"))},
         "--sub-group-size": {"--offload-optimizer": "cpu"},
         "--offload-param-pin-memory": {"--offload-optimizer": "cpu", "--offload-param": "cpu"},
         **{flag: ON_FILES for flag in NEUTRAL
            if flag.startswith(("--no-offload-optimizer-pipe", "--offload-optimizer-nvme", "--aio", "--no-aio"))},
         **{flag: {**ON_FILES, "--offload-param": "nvme", "--offload-param-nvme-path": FILES,
                   "--offload-param-max-in-cpu": "3000"}
            for flag in NEUTRAL
            if flag.startswith(("--offload-param-nvme", "--offload-param-buffer", "--offload-param-max"))},
         **{flag: {"--weight-differences": None} for flag in ("--weight-difference-codec",
                                                              "--weight-refresh-interval")},
         "--weight-copy-dtype": {"--weight-differences": None, "--bf16": None},
         **{flag: {"--adaptive-bits": "weights", "--train-iters": "4"} for flag in CHANGES
            if flag.startswith("--adaptive-bits-")}}


# Flags of BASE that one rank takes. REFUSED_ALONE: part of the line that refuses a flag on one rank.
ALONE = {flag: value for flag, value in BASE.items() if flag not in ("--node-size", "--zero-hpz-partition-size")}
REFUSED_ALONE = {"--adaptive-bits": "would have no effect on 1 rank",
                 "--zero-hpz-partition-size": "the 1 ranks of a node",
                 "--hpz-device": "zero_hpz_partition_size"}


def with_flag(base, flag, value):
    """`base`, what the flag needs, and the flag."""
    flags = {**base, **NEEDS.get(flag, {}), flag: value}
    if flag.startswith("--no-"):
        flags.pop("--" + flag[5:], None)
    if flag == "--no-zero-quantized-gradients":  # error feedback has no effect without
        flags = {name: value for name, value in flags.items() if not name.startswith("--error-feedback")}
    return flags


@unittest.skipIf(zpp.BACKEND != "host", "changes of parameters are compared on the host")
class Effects(zpp.TestCase):
    def run_with(self, numbered):
        """The hash of the parameters after a run with these flags."""
        index, flags = numbered
        out = self.folder / str(index)
        self.check_ok(self.train(4, *(word for item in flags.items() for word in item if word is not None), out=out))
        return self.trace(out)[0]["parameters_hash"]

    def test_every_flag_has_its_effect(self):
        bases = [BASE, *({**BASE, **needs} for needs in NEEDS.values())]
        changes = [*CHANGES.items(), *NEUTRAL.items()]
        runs = [*bases, *(with_flag(BASE, *change) for change in changes)]
        of_run = [json.dumps(flags) for flags in runs]  # many flags need the same others
        once = dict(zip(of_run, runs))
        made = dict(zip(once, zpp.side_by_side(self.run_with, enumerate(once.values()))))
        print(f"{len(once)} runs for {len(runs)} comparisons")
        self.check_accepted(*(self.folder / str(index) / "train.h5" for index in range(len(once))))
        hashes = [made[flags] for flags in of_run]
        base = dict(zip(["", *NEEDS], hashes))
        for (flag, _), found in zip(changes, hashes[len(bases):]):
            without = base.get(flag, base[""])
            if flag in CHANGES:
                self.assertNotEqual(found, without, f"{flag} has no effect")
            else:
                self.assertEqual(found, without, f"{flag} changes the parameters")

    def test_every_flag_on_one_rank(self):
        """Which sends nothing. Refused in one line, or a trace that the checker accepts."""
        changes = [(flag, value) for flag, value in [*CHANGES.items(), *NEUTRAL.items()]
                   if flag != "--node-size" and not flag.startswith("--adaptive-bits-")]

        def run(change):
            words = [word for item in with_flag(ALONE, *change).items() for word in item if word is not None]
            return self.train(1, *words, out=self.folder / change[0])

        traces = []
        for (flag, _), result in zip(changes, zpp.side_by_side(run, changes)):
            with self.subTest(flag=flag):
                if flag in REFUSED_ALONE:
                    self.assertEqual((result.code, len(result.errors())), (zpp.USAGE, 1), result)
                    self.assertIn(REFUSED_ALONE[flag], result.errors()[0])
                else:
                    self.check_ok(result)
                    traces.append(self.folder / flag / "train.h5")
        self.check_accepted(*traces)

    def test_every_flag_is_listed_here(self):
        known = {word for word in zpp.Process([zpp.TRAIN, "--help-all"]).end().stdout.split()
                 if word.startswith("--") and not word.startswith("--no-")
                 and word.strip("-").replace("-", "").isalnum()}
        tested = {"--" + flag[5:] if flag.startswith("--no-") else flag for flag in [*BASE, *CHANGES, *NEUTRAL]}
        others = {"--help", "--help-all", "--version", "--config", "--output", "--json", "--timeout", "--data-source",
                  "--data-path",
                  "--data-vocab-size",  # of a file of tokens: token_files
                  # --micro-batch-size, and what is accepted with a warning: deepspeed_examples
                  "--num-query-groups", "--kv-channels", "--rotary-base", "--norm-epsilon", "--layernorm-epsilon",
                  "--batch-size", "--tensor-model-parallel-size", "--pipeline-model-parallel-size",
                  "--shard-group-size",  # contract9_shard_groups
                  "--virtual-ranks",  # virtual_ranks
                  "--reduce-bucket-size",  # buckets change which values share a block: the matrix counts them
                  # refused without a GPU: contract9_config_resolve, contract3_gpu_train
                  "--autotune-gemm", "--copy-engines", "--rail-lanes", "--gpu-sampling",
                  "--consecutive-hysteresis",  # needs overflows between steps without: the test zero_loss_scale
                  "--save", "--load", "--save-interval", "--save-keep", "--async-save",  # contract7_restart
                  "--load-weights", "--gather-weights-on-save",  # exported_weights
                  "--exact-differences", "--exact-planned-bits",  # exact_differences, plan_compare
                  # Steps of so short a run may all choose alike: codec_schedule checks when they do.
                  "--adaptive-bits-interval"}
        self.assertEqual(known - others - tested, set())


if __name__ == "__main__":
    zpp.main()
