# ctest: name=contract6_world_sizes labels=cli timeout=120 processors=3
"""Any rank count, odd vocabularies and sizes that divide nothing: the loss goes down, and the bytes are the
closed form's."""

import math

import zpp

ODD = ["--vocab-size", "257", "--hidden-size", "21", "--num-attention-heads", "3", "--seq-length", "13",
       "--num-layers", "1", "--micro-batch-size", "3", "--train-iters", "30", "--lr", "0.01",
       "--eval-interval", "30", "--eval-iters", "3"]
QUANTIZED = ["--zero-quantized-weights", "--zero-quantized-gradients", "--weight-codec", "int8:64",
             "--gradient-codec-intra", "int8:32", "--gradient-codec-inter", "int8:32"]


class WorldSizes(zpp.TestCase):
    def check(self, ranks, *words):
        self.check_ok(self.train(ranks, *ODD, *words))
        judged = zpp.check_trace(self.out / "train.h5")
        self.assertEqual((judged.code, judged.stdout.strip()), (zpp.OK, "VALID"), judged)
        root, groups = self.trace()
        self.assertEqual(root["world_size"], ranks)
        self.assertEqual(groups["data"]["vocab_size"], 64)
        # Before training the model knows nothing of its 257 tokens; after it, more than that 64 occur.
        before, after = groups["evaluations"]["loss"]
        self.assertAlmostEqual(before, math.log(257), delta=0.25)
        self.assertLess(after, math.log(64))
        self.assertLess(groups["steps"]["loss"][-1], groups["steps"]["loss"][0])

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks_in_bf16(self):
        self.check(2, "--bf16", "--no-tied-head")

    def test_two_ranks_in_fp16(self):
        self.check(2, "--fp16", "--no-tied-head")

    def test_three_ranks(self):
        self.check(3)

    def test_three_ranks_quantized(self):
        self.check(3, *QUANTIZED, "--bf16")

    def test_three_nodes_of_one_rank_quantized(self):
        self.check(3, *QUANTIZED, "--node-size", "1", "--deterministic")

    def test_three_ranks_at_lower_stages(self):
        for stage in (0, 1, 2):
            with self.subTest(stage=stage):
                self.check(3, "--zero-stage", stage)


if __name__ == "__main__":
    zpp.main()
