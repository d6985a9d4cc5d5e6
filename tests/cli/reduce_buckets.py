# ctest: name=reduce_buckets cuda=mpi,nccl labels=cli timeout=120 processors=2
"""Buckets decide when gradients travel, not what becomes of them: units cut into many, over several micro-steps whose
gradients take the memory of the ones before, give the bits of one bucket."""

import zpp

zpp.skip_without_gpus(2)
MICRO_STEPS = ["--deterministic", "--reduce-scatter-algorithm", "flat", "--train-iters", 2,
               "--gradient-accumulation-steps"]
ONE = 500_000_000
# The vocabulary's table is the unit that is cut most; what is kept until its next use makes buckets of two micro-steps
# follow each other.
CASES = {
    "stage 2": ([*MICRO_STEPS, 2, "--zero-stage", 2, "--num-layers", 1, "--vocab-size", 2000], 20_000),
    "stage 3": ([*MICRO_STEPS, 3, "--num-layers", 3, "--vocab-size", 2000, "--no-tied-head"], 10_000),
    "narrow gradients": ([*MICRO_STEPS, 3, "--bf16", "--gradient-dtype", "bf16", "--num-layers", 3, "--seq-length", 256,
                          "--vocab-size", 4000,
                          "--no-tied-head"], 40_000),
    "kept weights": ([*MICRO_STEPS, 2, "--max-reuse-distance", 100_000, "--num-layers", 4], 100_000),
}


class ReduceBuckets(zpp.TestCase):
    def bits(self, words, bucket):
        self.check_ok(self.train(2, *words, "--reduce-bucket-size", bucket))
        root, groups = self.trace()
        return root["parameters_hash"], groups["steps"]["loss"], groups["steps"]["grad_norm"]

    def test_change_no_bit(self):
        for name, (words, cut) in CASES.items():
            with self.subTest(name):
                self.assertEqual(self.bits(words, cut), self.bits(words, ONE))

    def test_that_cut_too_much_are_refused(self):
        result = self.train(2, "--num-layers", 4, "--hidden-size", 256, "--reduce-bucket-size", 1)
        self.check_fails(result, zpp.USAGE, "reduce_bucket_size 1 ", "pieces", "--reduce-bucket-size to ")

    def test_of_one_rank_follow_each_other(self):
        words = [*MICRO_STEPS[3:], 2, "--num-layers", 4, "--hidden-size", 48, "--bf16", "--gradient-dtype", "bf16",
                 "--zero-quantized-gradients",
                 "--zero-quantized-weights", "--max-reuse-distance", 100_000, "--reduce-bucket-size", 100_000]
        self.check_ok(self.train(1, *words))


if __name__ == "__main__":
    zpp.main()
