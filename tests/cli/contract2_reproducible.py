# ctest: name=contract2_reproducible cuda=mpi,nccl labels=cli timeout=300 processors=4
"""Two runs, each in processes of its own, give the same bits: with `deterministic`, and with the quantized collectives
always."""

import zpp

zpp.skip_without_gpus(4)
OVERLAP = ["--overlap-comm", "--gradient-accumulation-steps", "2", "--pipeline-depth", "3",
           "--reduce-bucket-size", "20000", "--eval-interval", "2", "--eval-iters", "2", "--clip-grad", "0.5"]


class Reproducible(zpp.TestCase):
    def bits(self, *words):
        """Everything that must repeat: parameters, losses, norms, evaluations."""
        self.check_ok(self.train(4, *words, *OVERLAP, apart=True))
        root, groups = self.trace()
        return (root["parameters_hash"], groups["steps"]["loss"], groups["steps"]["grad_norm"],
                groups["evaluations"]["loss"])

    def check(self, *words):
        first = self.bits(*words)
        self.assertEqual(len(first[0]), 64)
        self.assertEqual(first, self.bits(*words))
        return first

    def test_deterministic_with_all_features(self):
        first = self.check("--deterministic", *zpp.ALL_FEATURES)
        other = self.bits("--deterministic", *zpp.ALL_FEATURES, "--seed", "2")
        self.assertNotEqual(first[0], other[0], "the hash does not depend on the parameters")

    def test_deterministic_in_bf16_without_compression(self):
        self.check("--deterministic", "--node-size", "2", "--bf16")

    def test_deterministic_in_fp16_without_compression(self):
        self.check("--deterministic", "--node-size", "2", "--fp16")

    def test_quantized_without_deterministic(self):
        self.check(*zpp.ALL_FEATURES, "--bf16")

    def test_deterministic_at_stage_1(self):
        self.check("--deterministic", "--zero-stage", "1")


if __name__ == "__main__":
    zpp.main()
