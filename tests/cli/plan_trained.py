# ctest: name=plan_trained labels=cli timeout=150 processors=4
"""zpp_plan says what zpp_train then does: bytes of every step and collective to the byte, memory by part, over random
configurations of any stage, codecs, hpZ, algorithms, nodes and micro-steps."""

import json
import random

import planned
import zpp

SEED = 20
RANDOM_RUNS = 12
RANDOM_EVALUATED = 8
SCHEDULE = [{"from_step": 1, "units": ["block"], "weight_codec": "int4:64", "gradient_codec_inter": "int8:128"}]
EDGES = {
    "nothing sharded": (2, ["--zero-stage", "0", "--node-size", "1", "--bf16"]),
    "measured errors": (4, [*zpp.ALL_FEATURES, "--measure-quantization-error", "2"]),
    "measured errors of differences": (4, [*zpp.ALL_FEATURES, "--bf16", "--weight-differences",
                                           "--weight-copy-dtype", "fp32", "--param-persistence-threshold", "5000",
                                           "--measure-quantization-error", "2"]),
    "measured errors of differences at stage 2": (4, ["--zero-stage", "2", "--zero-quantized-weights",
                                                      "--weight-differences", "--measure-quantization-error", "1"]),
    "measured errors of units that stay": (2, ["--zero-quantized-weights", "--param-persistence-threshold", "9000",
                                               "--measure-quantization-error", "1"]),
    "error feedback": (4, [*zpp.ALL_FEATURES, "--error-feedback", "both", "--reduce-bucket-size", "8192"]),
    "error feedback in int8": (2, ["--zero-quantized-gradients", "--reduce-scatter-algorithm", "1-hop",
                                   "--error-feedback",
                                   "both", "--error-feedback-dtype", "int8", "--bf16"]),
    "evaluations between steps": (4, [*zpp.ALL_FEATURES, "--eval-interval", "2", "--eval-iters", "1"]),
    "a model without layers of attention": (2, ["--model", "quadratic", "--zero-stage", "1"]),
    "offload": (4, [*zpp.ALL_FEATURES, "--offload-optimizer", "cpu", "--offload-optimizer-ratio", "0.5",
                    "--offload-piece-size", "1000"]),
    "offload of parameters": (4, [*zpp.ALL_FEATURES, "--bf16", "--offload-optimizer", "cpu", "--offload-param", "cpu"]),
    "hpZ in the memory of the host": (4, [*zpp.ALL_FEATURES, "--bf16", "--hpz-device", "cpu"]),
    "kept images of weights": (4, [*zpp.ALL_FEATURES, "--bf16", "--keep-weight-images"]),
    "kept images of weights without hpZ": (2, ["--zero-quantized-weights", "--weight-codec", "int4:64",
                                               "--keep-weight-images"]),
    "gradients in 16 bits": (4, [*zpp.ALL_FEATURES, "--bf16", "--gradient-dtype", "bf16",
                                 "--gradient-accumulation-steps", "2"]),
    "gradients in 16 bits at stage 2": (2, ["--zero-stage", "2", "--bf16", "--gradient-dtype", "bf16",
                                            "--no-tied-head"]),
    "inputs of blocks on the host": (4, [*zpp.ALL_FEATURES, "--bf16", "--num-layers", "5", "--recompute-activations",
                                         "--cpu-checkpointing"]),
    "exact differences": (4, ["--node-size", "2", "--zero-hpz-partition-size", "2", "--bf16", "--weight-differences",
                              "--exact-differences"]),
    "exact differences at stage 2": (4, ["--zero-stage", "2", "--node-size", "2", "--fp16", "--loss-scale", "256",
                                         "--weight-differences", "--exact-differences"]),
    "a Llama": (2, ["--model", "llama", "--num-key-value-heads", "1", "--recompute-activations"]),
    "a Qwen2 with wide heads": (4, [*zpp.ALL_FEATURES, "--model", "llama", "--head-dim", "32",
                                    "--ffn-hidden-size", "80", "--add-qkv-bias", "--bf16"]),
}


def random_run(generator):
    """(ranks, flags) of a run that is possible."""
    pick = generator.choice
    nodes, local = pick([(1, 4), (2, 2), (4, 1), (1, 2), (2, 1)])
    stage = pick([0, 1, 2, 3, 3, 3])
    flags = ["--node-size", local, "--zero-stage", stage,
             "--gradient-accumulation-steps", pick([1, 2, 3]),
             "--reduce-bucket-size", pick([4096, 20_000, 500_000_000]),
             "--optimizer", pick(["AdamW", "Lion", "SGD"]), "--vocab-size", generator.randrange(64, 300),
             "--num-layers", generator.randrange(1, 4), *pick([[], ["--bf16"], ["--fp16", "--loss-scale", "256"]]),
             *pick([[], ["--no-tied-head"]]), *pick([[], ["--recompute-activations"]]),
             *pick([[], ["--no-overlap-comm"]]), *pick([[], ["--model", "llama"]]),
             *pick([[], ["--num-key-value-heads", "1", "--head-dim", "8", "--ffn-hidden-size", "80"]]),
             "--all-gather-algorithm", pick(["flat", "direct", "native-images", "two-level", "auto"]),
             *pick([[], ["--eval-interval", pick([1, 2]), "--eval-iters", "1"]])]
    if stage > 0 and pick([True, False]):
        flags += ["--zero-quantized-weights",
                  "--weight-codec", pick(["int8:256", "int4:64", "int6:128+asym", "int3:32+sr", "mxfp8"])]
        if stage < 3:
            flags += pick([[], ["--weight-differences",
                                "--weight-difference-codec", pick(["int4:128", "int2:32+wide", "none"])]])
    if stage == 3 and pick([True, False]):
        flags += ["--zero-hpz-partition-size", pick([size for size in (2, 4) if nodes * local % size == 0])]
    if pick([True, False]):
        flags += ["--zero-quantized-gradients", "--gradient-codec-intra", pick(["int8:64", "int4:128", "int7:32+s32"]),
                  "--gradient-codec-inter", pick(["int4:256", "int5:128", "int4:128+had32"]),
                  "--pipeline-depth", pick([1, 3]),
                  "--reduce-scatter-algorithm", "2-hop", *pick([[], ["--error-feedback", "both"]])]
    return nodes * local, [str(flag) for flag in flags]


def random_evaluated(generator):
    """(ranks, flags) of a run of stage 3 with evaluations and something that outlives a gather."""
    pick = generator.choice
    nodes, local = pick([(2, 2), (4, 1)])
    size = pick([2, 4])
    kept = pick([["--zero-hpz-partition-size", size],
                 ["--zero-hpz-partition-size", size, "--zero-quantized-weights", "--keep-weight-images"],
                 ["--zero-quantized-weights", "--weight-differences",
                  *(["--zero-hpz-partition-size", local] if local > 1 else [])],
                 ["--max-reuse-distance", pick([5000, 10**9])],
                 ["--param-persistence-threshold", 10**9, "--model-persistence-threshold", pick([9000, 10**9])]])
    flags = ["--node-size", local, "--bf16", "--train-iters", "5", "--num-layers", pick([1, 3]),
             "--eval-interval", pick([1, 2, 3]), "--eval-iters", pick([1, 2]),
             "--gradient-accumulation-steps", pick([1, 2]), *kept]
    return nodes * local, [str(flag) for flag in flags]


class Trained(zpp.TestCase):
    def run_and_plan(self, ranks, words, name, schedule=None):
        """(trace, plan) of a run; with a codec schedule the plans of its steps."""
        path = self.folder / f"{name}.json"
        if schedule:
            words = [*words, "--config", self.write_json(f"{name}-config.json",
                                                         {"zeropp": {"codec_schedule": schedule}})]
        self.check_ok(self.train(ranks, *words, "--json", path, out=self.folder / name))
        return json.loads(path.read_text())

    def check(self, trace, equal_steps):
        differences = planned.sends_differences(trace)
        plan, first = planned.plan(trace, 1 if differences else None), planned.plan(trace) if differences else None
        self.assertEqual(planned.wrong_steps(trace, plan, first), [])
        self.assertEqual(planned.wrong_memory(trace, plan), [])
        if equal_steps:
            self.assertEqual(planned.wrong_collectives(trace, plan, first=first), [])

    def test_edges(self):
        for number, (name, (ranks, words)) in enumerate(EDGES.items()):
            with self.subTest(name):
                self.check(self.run_and_plan(ranks, words, f"edge{number}"), "--eval-interval" not in words)

    def test_random_configurations(self):
        generator = random.Random(SEED)
        for number in range(RANDOM_RUNS):
            ranks, words = random_run(generator)
            with self.subTest(" ".join(words)):
                self.check(self.run_and_plan(ranks, words, str(number)), "--eval-interval" not in words)

    def test_steps_after_an_evaluation(self):
        """hpZ, differences and units that stay gathered have what the evaluation gathered: every step is planned with
        the evaluations before it, and its collectives too."""
        generator = random.Random(SEED)
        for number in range(RANDOM_EVALUATED):
            ranks, words = random_evaluated(generator)
            with self.subTest(" ".join(words)):
                trace = self.run_and_plan(ranks, words, f"evaluated{number}")
                plans = [planned.plan(trace, step) for step in range(len(trace["steps"]["loss"]))]
                for kind, column in (("intra", 0), ("inter", 1)):
                    for told in (f"bytes_{kind}_node", f"bytes_predicted_{kind}_node"):
                        self.assertEqual(trace["steps"][told],
                                         [planned.traffic(plan)["step"][column] for plan in plans])
                for plan in plans:
                    self.assertEqual(planned.wrong_memory(trace, plan), [])

    def test_codec_schedule(self):
        trace = self.run_and_plan(4, zpp.ALL_FEATURES, "scheduled", SCHEDULE)
        totals = [(trace["steps"]["bytes_intra_node"][step], trace["steps"]["bytes_inter_node"][step])
                  for step in range(3)]
        self.assertNotEqual(totals[0], totals[1])
        self.assertEqual(totals, [planned.traffic(planned.plan(trace, step))["step"] for step in range(3)])
        self.assertEqual(planned.wrong_memory(trace, planned.plan(trace)), [])

    def test_copies_that_differences_are_added_to(self):
        words = [*zpp.ALL_FEATURES, "--bf16", "--weight-differences", "--weight-copy-dtype", "fp32",
                 "--weight-codec", "none", "--hpz-device"]
        for device in ("device", "cpu"):
            trace = self.run_and_plan(4, [*words, device], device)
            self.assertEqual(planned.wrong_memory(trace, planned.plan(trace)), [])

    def test_differences_between_nodes_of_one_rank(self):
        """Each rank holds the whole copy; the first step sends whole weights, the others differences."""
        words = ["--node-size", "1", "--zero-quantized-weights", "--zero-quantized-gradients", "--bf16",
                 "--weight-differences", "--hpz-device"]
        for device in ("device", "cpu"):
            with self.subTest(device):
                trace = self.run_and_plan(3, [*words, device], device)
                plans = [planned.plan(trace, step) for step in range(3)]
                totals = list(zip(trace["steps"]["bytes_intra_node"], trace["steps"]["bytes_inter_node"]))
                self.assertEqual(totals, [planned.traffic(plan)["step"] for plan in plans])
                self.assertGreater(totals[0], totals[1])
                self.assertEqual(planned.wrong_memory(trace, plans[1]), [])

    def test_differences_below_stage_three(self):
        """Every rank holds the copy; each step sends differences, but where whole weights are due after it."""
        words = ["--zero-quantized-weights", "--zero-quantized-gradients", "--bf16", "--weight-differences",
                 "--weight-refresh-interval", "2"]
        for stage, ranks, local in ((1, 4, 2), (2, 4, 1), (2, 3, 3), (1, 1, 1)):
            with self.subTest(stage=stage, ranks=ranks, local=local):
                trace = self.run_and_plan(ranks, [*words, "--zero-stage", str(stage), "--node-size", str(local)],
                                          f"{stage}{ranks}{local}")
                plans = [planned.plan(trace, step) for step in range(3)]
                totals = list(zip(trace["steps"]["bytes_intra_node"], trace["steps"]["bytes_inter_node"]))
                self.assertEqual(totals, [planned.traffic(plan)["step"] for plan in plans])
                self.assertEqual(totals[1] > totals[0], ranks > 1)
                self.assertEqual(planned.wrong_memory(trace, plans[0]), [])

    def test_adaptive_bits_are_refused(self):
        result = zpp.Process([planned.PLAN, "--num-layers", "2", "--zero-quantized-weights",
                              "--adaptive-bits", "weights"], cwd=self.folder).end()
        self.check_fails(result, zpp.USAGE, "zeropp.adaptive_bits", "budget_codec", program="zpp_plan")


zpp.main()
