# ctest: name=update_in_backward cuda=mpi,nccl timeout=300 labels=cli processors=4
"""zeropp.update_in_backward: the parameters, norms and bytes of a run without it, in less memory; refused, with one
line, beside what needs all gradients at once; a gradient that is not finite ends the run; a run that was resumed goes
on as one that was not."""

import json
import math

import zpp
from zpp_validate.checkers import checkpoint

zpp.skip_without_gpus(4)
MODEL = ["--num-layers", 6, "--hidden-size", 64, "--seq-length", 32, "--deterministic"]
STEPS = ["--train-iters", 4]
SCHEDULE = [{"from_step": 2, "gradient_codec_intra": "int8:64", "gradient_codec_inter": "int8:64"}]
BLOCKS = ["--reduce-bucket-size", 60000]  # a block each
RUNS = [
    (4, ["--bf16", "--zero-stage", 3, *BLOCKS]),
    (2, ["--bf16", "--zero-stage", 2, *BLOCKS, "--optimizer", "Lion"]),
    (3, ["--bf16", "--zero-stage", 3, "--reduce-bucket-size", 9000, "--tied-head", "--gradient-dtype", "bf16"]),
    (4, ["--bf16", "--zero-stage", 3, "--node-size", 2, "--zero-quantized-weights", "--zero-quantized-gradients",
         "--zero-hpz-partition-size", 2,
         "--error-feedback", "both", "--reduce-bucket-size", 30000]),
    (2, ["--bf16", "--zero-stage", 3, *BLOCKS, "--no-overlap-comm", "--param-persistence-threshold", 30000]),
    (1, ["--bf16", "--zero-stage", 3, *BLOCKS, "--moments", "int8"]),
    (2, ["--zero-stage", 2, *BLOCKS, "--eval-interval", 1, "--eval-iters", 1]),
    (2, ["--bf16", "--zero-stage", 3, *BLOCKS, "--zero-quantized-weights", "--adaptive-bits", "weights",
         "--adaptive-bits-interval", 2]),
    (2, ["--bf16", "--zero-stage", 2, *BLOCKS, "--zero-quantized-gradients", "--codec-schedule", json.dumps(SCHEDULE)]),
]
REFUSED = {
    "gradient_clipping": ["--clip-grad", 1],
    "fp16.enabled": ["--fp16"],
    "gradient_accumulation_steps": ["--gradient-accumulation-steps", 2],
    "zero_optimization.offload_optimizer": ["--offload-optimizer", "cpu"],
    "zeropp.shard_group_size": ["--shard-group-size", 2, "--node-size", 2],
    "zeropp.measure_quantization_error": ["--measure-quantization-error", 1],
    "zero_optimization.stage 2 or 3": ["--zero-stage", 1],
}


class UpdateInBackward(zpp.TestCase):
    def run_of(self, ranks, words, name):
        out = self.folder / name
        self.check_ok(self.train(ranks, *MODEL, *STEPS, *words, out=out))
        self.check_accepted(out / "train.h5")
        root, groups = self.trace(out)
        return root["parameters_hash"], groups

    def test_same_bits_in_less_memory(self):
        for number, (ranks, words) in enumerate(RUNS):
            with self.subTest(words=words):
                plain, before = self.run_of(ranks, words, f"plain-{number}")
                early, after = self.run_of(ranks, [*words, "--update-in-backward"], f"early-{number}")
                self.assertEqual(early, plain)
                for column in ("grad_norm", "loss"):
                    self.assertEqual(after["steps"][column], before["steps"][column])
                for bytes_sent in ("wire_bytes_intra", "wire_bytes_inter"):
                    self.assertEqual(after["collectives"][bytes_sent], before["collectives"][bytes_sent])
                kept = [dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))
                        for groups in (before, after)]
                self.assertLess(kept[1]["gradient_shard"], 0.8 * kept[0]["gradient_shard"])
                for part in ("master", "moments", "arena"):
                    self.assertEqual(kept[1][part], kept[0][part])

    def test_few_units_have_one_slab(self):
        plain, before = self.run_of(2, [], "plain")
        early, after = self.run_of(2, ["--update-in-backward"], "early")
        self.assertEqual(early, plain)
        kept = [dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))["gradient_shard"]
                for groups in (before, after)]
        self.assertLess(abs(kept[1] - kept[0]), 8 * 64 * 4)  # each unit's begins on 256 bytes

    def test_the_host_counts_updates_as_the_optimizer(self):
        _, groups = self.run_of(1, [*BLOCKS, "--update-in-backward"], "timed")
        seconds = dict(zip(groups["timers"]["category"], groups["timers"]["seconds"]))
        if zpp.BACKEND == "host":
            self.assertGreater(seconds["optimizer"], 0.5 * sum(groups["steps"]["time_optimizer"]))

    def test_refusals(self):
        for number, (key, words) in enumerate(REFUSED.items()):
            result = self.train(4, *MODEL, *STEPS, *words,
                                "--update-in-backward", out=self.folder / f"refused-{number}")
            self.check_fails(result, zpp.USAGE, "zeropp.update_in_backward", key)

    def test_a_gradient_that_is_not_finite(self):
        result = self.train(2, *MODEL, *STEPS, "--optimizer", "SGD", "--lr", 1e30,
                            "--update-in-backward", out=self.folder / "infinite")
        self.assertEqual(result.code, zpp.INVALID, result)
        errors = result.errors()
        self.assertEqual(len(errors), 1, result)
        self.assertIn("zeropp.update_in_backward had updated weights", errors[0])
        root, groups = self.trace(self.folder / "infinite")
        self.assertEqual(root["verdict"], f"INVALID: {errors[0]}")
        steps = groups["steps"]["grad_norm"]
        self.assertEqual([math.isfinite(norm) for norm in steps], [True] * (len(steps) - 1) + [False])
        self.assertGreater(len(steps), 1)
        judged = zpp.check_trace(self.folder / "infinite" / "train.h5")
        self.assertEqual(judged.code, zpp.INVALID, judged)

    def test_damaged_weights_are_not_saved(self):
        """The checkpoint of the step before stays the newest, and a run resumes from it."""
        kept = self.folder / "kept"
        words = [*MODEL, *STEPS, "--optimizer", "SGD", "--update-in-backward", "--save", kept, "--load", kept,
                 "--save-interval", 1]
        result = self.train(2, *words, "--lr", 1e30, out=self.folder / "infinite")
        self.assertEqual((result.code, len(result.errors())), (zpp.INVALID, 1), result)
        steps = len(self.trace(self.folder / "infinite")[1]["steps"]["loss"])
        self.assertEqual(sorted(path.name for path in kept.iterdir())[-1], f"step-{steps - 1:09}", result)
        self.assertEqual(checkpoint.main([str(kept)]), zpp.OK)

    def test_restart(self):
        whole, _ = self.run_of(2, ["--update-in-backward"], "whole")
        saved = self.folder / "saved"
        self.check_ok(self.train(2, *MODEL, "--train-iters", 2, "--update-in-backward", "--save", saved,
                                 out=self.folder / "first"))
        again, _ = self.run_of(2, ["--update-in-backward", "--load", saved], "again")
        self.assertEqual(again, whole)


if __name__ == "__main__":
    zpp.main()
