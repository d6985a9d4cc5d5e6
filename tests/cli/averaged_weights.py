# ctest: name=averaged_weights cuda=mpi,nccl timeout=300 labels=cli processors=2
"""zeropp.averaged_steps: the loss of the mean of the weights that the last steps left, beside the mean that NumPy makes
of the saved ones; the run itself and what it saves are as without it. All in fp32, in which the weights are saved
then."""

import sys

import zpp

sys.path.insert(0, str(zpp.SOURCE / "validation"))
import numpy as np  # noqa: E402

from zpp_validate.readers import safetensors_file  # noqa: E402

zpp.skip_without_gpus(4)
MODEL = ["--num-layers", 2, "--hidden-size", 48, "--seq-length", 24, "--eval-interval", 5, "--eval-iters", 3,
         "--deterministic", "--lr", 0.01]
STEPS, AVERAGED = 6, 3
RUNS = [
    (1, []),
    (4, ["--zero-stage", 3, "--node-size", 2, "--zero-quantized-weights", "--zero-hpz-partition-size", 2]),
    (3, ["--zero-stage", 2]),
    (2, ["--zero-stage", 0]),
    (2, ["--zero-stage", 3, "--param-persistence-threshold", 100, "--offload-optimizer", "cpu"]),
]


class AveragedWeights(zpp.TestCase):
    def run_of(self, ranks, words, name, warning=None):
        out = self.folder / name
        result = self.train(ranks, *MODEL, *words, out=out)
        if warning:
            self.assertIn(warning, result.stderr)
            result.stderr = ""
        self.check_ok(result)
        self.check_accepted(out / "train.h5")
        return out, *self.trace(out)

    def test_mean(self):
        for number, (ranks, words) in enumerate(RUNS):
            with self.subTest(ranks=ranks, words=words):
                steps = ["--train-iters", STEPS]
                out, root, groups = self.run_of(ranks, [*words, *steps, "--averaged-steps", AVERAGED,
                                                        "--save", self.folder / f"kept-{number}",
                                                        "--save-interval", 1, "--save-keep", AVERAGED,
                                                        "--gather-weights-on-save"], f"mean-{number}")
                _, plain, without = self.run_of(ranks, [*words, *steps], f"plain-{number}")
                self.assertEqual(root["parameters_hash"], plain["parameters_hash"])
                self.assertEqual(groups["evaluations"]["loss"], without["evaluations"]["loss"])
                self.assertNotIn("averaged_weights", without)
                self.assertEqual(groups["averaged_weights"]["steps"], [AVERAGED])
                kept = [safetensors_file.read(self.folder / f"kept-{number}" / f"step-{step:09}"
                                              / "model.safetensors")[0]
                        for step in range(STEPS - AVERAGED + 1, STEPS + 1)]
                mean = self.folder / f"mean-{number}.safetensors"
                safetensors_file.write(mean, {name: np.mean([each[name].astype(np.float64) for each in kept], axis=0)
                                              for name in kept[0]})
                _, _, began = self.run_of(ranks, [*words, "--train-iters", 1, "--load-weights", mean],
                                          f"began-{number}")
                averaged = groups["averaged_weights"]["loss"][0]
                self.assertAlmostEqual(averaged, began["evaluations"]["loss"][0], delta=1e-6)
                self.assertGreater(abs(averaged - groups["evaluations"]["loss"][-1]), 1e-4,
                                   "the mean of three weights is none of them")

    def test_resumed(self):
        """A run that goes on averages the steps that it takes itself; one that goes on from its end takes none, and is
        VALID."""
        words = ["--zero-stage", 1, "--bf16"]
        self.run_of(2, [*words, "--train-iters", 4, "--averaged-steps", 4, "--save", self.folder / "kept"], "first")
        _, resumed, groups = self.run_of(2, [*words, "--train-iters", 6, "--averaged-steps", 4,
                                             "--load", self.folder / "kept", "--save",
                                             self.folder / "more"], "second",
                                         "the mean after the last 2 steps, not after 4")
        _, whole, _ = self.run_of(2, [*words, "--train-iters", 6], "whole")
        self.assertEqual(resumed["parameters_hash"], whole["parameters_hash"])
        self.assertEqual(groups["averaged_weights"]["steps"], [2])
        _, _, ended = self.run_of(2, [*words, "--train-iters", 6, "--averaged-steps", 4,
                                      "--load", self.folder / "more"], "ended")
        self.assertEqual(ended["averaged_weights"]["loss"], [])

    def test_more_steps_than_there_are(self):
        _, _, groups = self.run_of(1, ["--train-iters", 2, "--averaged-steps", 2**64 - 1], "all")
        self.assertEqual(groups["averaged_weights"]["steps"], [2])

    def test_a_run_that_gives_up(self):
        result = self.train(1, *MODEL, "--fp16", "--initial-scale-power", 31, "--min-loss-scale", 2**31,
                            "--train-iters", 2, "--averaged-steps", 1)
        self.assertEqual(result.code, zpp.INVALID, result)
        self.assertIn("INVALID: training gave up", result.stdout)

    def test_needs_evaluations(self):
        self.check_fails(self.train(1, "--averaged-steps", 2, "--train-iters", 2), zpp.USAGE, "averaged_steps",
                         "evaluation_interval")


if __name__ == "__main__":
    zpp.main()
