# ctest: name=weight_differences cuda=mpi,nccl labels=cli timeout=300 processors=4
"""Weight differences in zpp_train: bytes, memory and checkpoints follow the closed forms; all nodes end with the same
copy, and a change to the entries that say so is found; a run that resumes from its checkpoint has the bits of a run
that does not stop; wrong flags are refused with one line."""

import json
import shutil

import zpp

zpp.skip_without_gpus(4)
FLAGS = [*zpp.ALL_FEATURES, "--weight-differences", "--bf16", "--deterministic", "--train-iters", "6"]
SCHEDULE = [{"weight_codec": "int6:64"}, {"from_step": 4, "units": ["h.1"], "weight_codec": "int4:64"}]
# Name: flags.
RUNS = {
    "defaults": [],
    "interval": ["--weight-refresh-interval", "3", "--eval-interval", "2", "--eval-iters", "1",
                 "--weight-copy-dtype", "fp32"],
    "codecs": ["--weight-difference-codec", "int3:64+had32", "--weight-codec", "none", "--pipeline-depth", "2"],
    "schedule": ["--codec-schedule", json.dumps(SCHEDULE), "--gradient-accumulation-steps", "2"],
    "units that stay": ["--param-persistence-threshold", "5000", "--all-gather-algorithm", "flat",
                        "--max-reuse-distance", "20000", "--save", "kept", "--save-interval", "4"],
    "updates in backward": ["--update-in-backward"],
    "measured": ["--measure-quantization-error", "2", "--weight-copy-dtype", "fp32", "--eval-interval", "1",
                 "--eval-iters", "1", "--param-persistence-threshold", "5000"],
    "offload": ["--offload-optimizer", "cpu", "--offload-param", "cpu"],
}
# Changes to entries of RUNS: what is changed, into what, and what the reason names.
CHANGES = [
    ("defaults", "weight_copies/hash", 1, "0" * 64, "the copies of the nodes differ"),
    ("defaults", "weight_copies/hash", 0, "none", "not one SHA-256"),
    ("defaults", "weight_copies/found", None, "behind", "found is 'behind' after 0 steps"),
    ("interval", "steps/bytes_inter_node", 3, 1, "bytes of step 3"),
    ("measured", "errors/kind", 0, "gradients", "/errors has not exactly a row"),
    ("measured", "errors/relative_l2", 6, 0.5, "does not follow from cosine"),
    ("units that stay", "checkpoints/bytes", 0, 7, "/checkpoints: of step 4"),
]


class WeightDifferences(zpp.TestCase):
    def train_with(self, *words, out=None):
        return self.check_ok(self.train(4, *FLAGS, *words, out=out or self.out))

    def test_traces(self):
        paths = {}
        for name, words in RUNS.items():
            with self.subTest(name):
                out = self.folder / name.replace(" ", "_")
                self.train_with(*[out / "kept" if word == "kept" else word for word in words], out=out)
                paths[name] = out / "train.h5"
        judged = zpp.check_trace(*paths.values())
        self.assertEqual((judged.code, judged.stdout.count(": VALID\n")), (zpp.OK, len(RUNS)), judged)
        root, groups = zpp.read_trace(paths["defaults"])
        across = groups["steps"]["bytes_inter_node"]
        self.assertGreater(across[0], across[1])  # whole weights in int8, then differences in int4
        self.assertEqual(across[1:], across[1:2] * 5)
        copies = groups["weight_copies"]["hash"]
        self.assertEqual(len(copies), 2)
        self.assertEqual(copies[0], copies[1])
        self.check_tampering(paths, CHANGES)

    def test_nodes_of_one_rank(self):
        """A rank that is a node holds the whole copy, and gathers nothing from others; alone, it exchanges with
        itself."""
        flags = [word for word in FLAGS if word not in zpp.ALL_FEATURES]
        flags += ["--node-size", "1", "--zero-quantized-weights", "--zero-quantized-gradients"]
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.check_ok(self.train(ranks, *flags, out=self.out))
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                _, groups = self.trace()
                self.assertEqual(len(set(groups["weight_copies"]["hash"])), 1)

    def bits(self):
        root, groups = self.trace()
        return root["parameters_hash"], groups["steps"]["loss"], groups["weight_copies"]["hash"]

    def test_a_restart_has_the_same_bits(self):
        kept = self.folder / "kept"
        for words in ([], ["--weight-copy-dtype", "fp32", "--weight-difference-codec", "int4:64+asym"],
                      ["--weight-refresh-interval", "4", "--eval-interval", "3", "--eval-iters", "1"],
                      ["--codec-schedule", json.dumps(SCHEDULE)]):
            with self.subTest(words):
                self.train_with(*words, "--save", kept, "--save-interval", "3")
                whole = self.bits()
                shutil.rmtree(kept / "step-000000006")
                self.train_with(*words, "--load", kept)
                rest = self.bits()
                self.assertEqual((rest[0], rest[1], rest[2]), (whole[0], whole[1][3:], whole[2]))
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                shutil.rmtree(kept)

    def test_a_checkpoint_without_copies(self):
        kept = self.folder / "kept"
        self.check_ok(self.train(4, "--deterministic", "--bf16", "--train-iters", "3", "--save", kept))
        result = self.train(4, *FLAGS, "--load", kept)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertIn("weight differences begin anew with whole weights", result.stderr)
        self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)

    def test_copies_that_are_not_used(self):
        """A run without weight differences says that it gives up the checkpoint's copies; after a checkpoint without
        copies it does not."""
        kept = self.folder / "kept"
        for words, told in ((["--weight-differences"], 1), ([], 0)):
            flags = [*zpp.ALL_FEATURES, "--bf16", "--train-iters"]
            self.check_ok(self.train(4, *flags, "3", *words, "--save", kept))
            result = self.train(4, *flags, "4", "--load", kept)
            self.assertEqual(result.code, zpp.OK, result)
            self.assertEqual(result.stderr.count(zpp.COPIES_GIVEN_UP), told, result)
            shutil.rmtree(kept)

    def test_refusals(self):
        for words, parts in (
                (["--zero-stage", "0", "--zero-quantized-weights"],
                 ("zero_quantized_weights", "set the stage to 1, 2 or 3")),
                (["--node-size", "2", "--zero-hpz-partition-size", "2"],
                 ("zeropp.weight_differences", "zero_quantized_weights")),
                (["--node-size", "2", "--zero-quantized-weights"],
                 ("zeropp.weight_differences needs", "zero_hpz_partition_size 2")),
                (["--node-size", "1", "--zero-quantized-weights", "--zero-hpz-partition-size", "2"],
                 ("zeropp.weight_differences needs", "zero_hpz_partition_size 1")),
                (["--node-size", "1", "--zero-quantized-weights", "--shard-group-size", "2"],
                 ("zeropp.shard_group_size 2 and zeropp.weight_differences",)),
                (["--node-size", "4", "--zero-quantized-weights", "--zero-hpz-partition-size", "4"],
                 ("zeropp.weight_differences needs several nodes",)),
                ([*zpp.ALL_FEATURES, "--adaptive-bits", "weights"], ("zeropp.weight_differences", "no effect")),
                ([*zpp.ALL_FEATURES, "--bf16", "--offload-optimizer", "cpu", "--offload-param", "cpu",
                  "--measure-quantization-error", "1"], ("offload_param", "zeropp.measure_quantization_error")),
                ([*zpp.ALL_FEATURES, "--all-gather-algorithm", "flat"], ("zeropp.all_gather_algorithm", "no effect"))):
            with self.subTest(words):
                self.check_fails(self.train(4, *words, "--weight-differences"), zpp.USAGE, *parts)


if __name__ == "__main__":
    zpp.main()
