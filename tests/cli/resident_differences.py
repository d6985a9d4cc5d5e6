# ctest: name=resident_differences cuda=mpi,nccl labels=cli timeout=300 processors=4
"""Weight differences at stages 1 and 2 in zpp_train, where they are added to the weights that every rank holds. Bytes,
memory and checkpoints follow the closed forms; all ranks end with the same weights, and a change to the entries that
say so is found; a run that resumes from its checkpoint, also at another stage, has the bits of a run that does not
stop; wrong flags are refused with one line."""

import shutil

import zpp

zpp.skip_without_gpus(4)
NODES = ["--node-size", "2", "--zero-quantized-weights", "--zero-quantized-gradients"]
SWITCHES = ["--zero-quantized-weights", "--zero-quantized-gradients", "--weight-differences", "--deterministic"]
VALUES = ["--node-size", "2", "--train-iters", "6"]
# Name: (stage, flags).
RUNS = {
    "defaults": (2, ["--bf16"]),
    "stage 1": (1, ["--bf16", "--gradient-accumulation-steps", "2", "--all-gather-algorithm", "flat"]),
    "interval": (2, ["--bf16", "--weight-refresh-interval", "3", "--eval-interval", "2", "--eval-iters", "1",
                     "--node-size", "4"]),
    "codecs": (1, ["--fp16", "--weight-difference-codec", "int3:64+had32", "--weight-codec", "none",
                   "--pipeline-depth", "2"]),
    "fp32": (2, ["--weight-copy-dtype", "fp32", "--all-gather-algorithm", "direct"]),
    "gradients' codecs change": (2,
                                 ["--bf16", "--codec-schedule",
                                  '[{"from_step": 3, "gradient_codec_inter": "int8:64"}]']),
    "updates in backward": (2, ["--bf16", "--update-in-backward"]),
    "offload": (1, ["--bf16", "--offload-optimizer", "cpu", "--offload-optimizer-ratio", "0.4"]),
    "measured": (2, ["--bf16", "--measure-quantization-error", "2"]),
    "saved": (2, ["--bf16", "--save", "kept", "--save-interval", "4"]),
}
# Changes to entries of RUNS: what is changed, into what, and what the reason names.
CHANGES = [
    ("defaults", "weight_copies/hash", 3, "0" * 64, "the copies of the ranks differ: 2 of 4"),
    ("defaults", "weight_copies/found", None, "behind", "found is 'behind' after 0 steps"),
    ("stage 1", "steps/bytes_inter_node", 3, 1, "bytes of step 3"),
    ("measured", "errors/kind", 0, "gradients", "/errors has not exactly a row"),
    ("measured", "errors/relative_l2", 6, 0.5, "does not follow from cosine"),
    ("saved", "checkpoints/bytes", 0, 7, "/checkpoints: of step 4"),
]
ANEW = "weight differences begin anew with whole weights"


def flags(*words):
    """The flags of all runs and `words`; a flag in `words` replaces the common one."""
    own = dict(zip(VALUES[::2], VALUES[1::2]))
    kept = [word for flag, value in own.items() if flag not in words for word in (flag, value)]
    return [*SWITCHES, *kept, *words]


class ResidentDifferences(zpp.TestCase):
    def train_at(self, stage, *words, ranks=4, out=None):
        return self.check_ok(self.train(ranks, *flags("--zero-stage", stage, *words), out=out or self.out))

    def sent(self, groups, purpose, phase):
        columns = groups["collectives"]
        return [sum(sent) for *key, sent in zip(columns["purpose"], columns["phase"],
                                                zip(columns["wire_bytes_intra"], columns["wire_bytes_inter"]))
                if key == [purpose, phase]]

    def test_traces(self):
        paths = {}
        for name, (stage, words) in RUNS.items():
            with self.subTest(name):
                out = self.folder / name.replace(" ", "_")
                self.train_at(stage, *[out / "kept" if word == "kept" else word for word in words], out=out)
                paths[name] = out / "train.h5"
        judged = zpp.check_trace(*paths.values())
        self.assertEqual((judged.code, judged.stdout.count(": VALID\n")), (zpp.OK, len(RUNS)), judged)
        _, groups = zpp.read_trace(paths["defaults"])
        self.assertEqual(len(set(map(tuple, zip(groups["steps"]["bytes_intra_node"],
                                                groups["steps"]["bytes_inter_node"])))), 1)
        self.assertEqual((len(groups["weight_copies"]["hash"]), len(set(groups["weight_copies"]["hash"]))), (4, 1))
        self.assertEqual(self.sent(groups, "weights", "update"), [])
        whole, codes = self.sent(groups, "weights", "initial")[0], self.sent(groups, "weights_difference", "update")[0]
        self.assertAlmostEqual(codes / 6 / whole, (64 + 2) / 128 / (258 / 256), delta=0.02)
        _, refreshed = zpp.read_trace(paths["interval"])
        self.assertEqual(self.sent(refreshed, "weights", "update"),
                         [2 * sent for sent in self.sent(refreshed, "weights", "initial")])
        self.check_tampering(paths, CHANGES)

    def test_other_numbers_of_ranks(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.train_at(2, "--bf16", "--node-size", ranks, ranks=ranks)
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                _, groups = self.trace()
                self.assertEqual((len(groups["weight_copies"]["hash"]), len(set(groups["weight_copies"]["hash"]))),
                                 (ranks, 1))

    def bits(self):
        root, groups = self.trace()
        return root["parameters_hash"], groups["steps"]["loss"], groups["weight_copies"]["hash"][0]

    def test_all_stages_train_alike(self):
        words = ["--bf16", "--weight-refresh-interval", "4", "--eval-interval", "1", "--eval-iters", "1"]
        found = []
        for stage in (1, 2, 3):
            self.train_at(stage, *words, "--zero-hpz-partition-size", 2 if stage == 3 else 1)
            found.append(self.bits())
        self.assertEqual(found, [found[0]] * 3)

    def test_a_restart_has_the_same_bits(self):
        kept = self.folder / "kept"
        for stage, words in ((1, ["--bf16"]), (2, ["--bf16", "--weight-difference-codec", "int4:64+sr"]),
                             (2, ["--fp16", "--initial-scale-power", "17", "--weight-refresh-interval", "4",
                                  "--eval-interval", "3", "--eval-iters", "1"]),
                             (2, []), (1, ["--bf16", "--offload-optimizer", "cpu"])):
            with self.subTest(words, stage=stage):
                self.train_at(stage, *words, "--save", kept, "--save-interval", "3")
                whole = self.bits()
                shutil.rmtree(kept / "step-000000006")
                result = self.train_at(stage, *words, "--load", kept)
                self.assertIn(zpp.FROM_COPIES, result.stderr)
                rest = self.bits()
                self.assertEqual((rest[0], rest[1], rest[2]), (whole[0], whole[1][3:], whole[2]))
                _, groups = self.trace()
                self.assertEqual(self.sent(groups, "weights", "initial") + self.sent(groups, "weights_difference",
                                                                                     "initial"), [])
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                shutil.rmtree(kept)

    def test_a_restart_at_another_stage_has_the_same_bits(self):
        """Copies of stage 3 are those before its last step: what stages 1 and 2 then send first are differences."""
        kept = self.folder / "kept"
        stages = {stage: ["--bf16", "--zero-hpz-partition-size", 2 if stage == 3 else 1] for stage in (1, 2, 3)}
        for first, then in ((3, 2), (2, 3), (1, 2), (3, 1)):
            with self.subTest(first=first, then=then):
                self.train_at(first, *stages[first], "--save", kept, "--save-interval", "3")
                whole = self.bits()
                shutil.rmtree(kept / "step-000000006")
                self.train_at(then, *stages[then], "--load", kept)
                rest = self.bits()
                self.assertEqual(rest[:2], (whole[0], whole[1][3:]))
                _, groups = self.trace()
                self.assertEqual(len(self.sent(groups, "weights_difference", "initial")), int(first == 3))
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                shutil.rmtree(kept)

    def test_other_ranks_and_checkpoints_without_copies(self):
        kept, plain = self.folder / "kept", self.folder / "plain"
        batch = 12  # sequences in a step, over all ranks
        short = ["--bf16", "--train-iters", 3, "--micro-batch-size", batch // 4, "--save"]
        self.train_at(2, *short, kept)
        self.check_ok(self.train(4, "--zero-stage", 2, "--deterministic", *short, plain))
        for folder, ranks, line in ((kept, 2, zpp.FROM_COPIES), (kept, 1, zpp.FROM_COPIES), (kept, 3, ANEW),
                                    (plain, 4, ANEW)):
            with self.subTest(ranks=ranks, line=line):
                result = self.train(ranks, *flags("--zero-stage", 1, "--bf16", "--node-size", ranks,
                                                  "--micro-batch-size", batch // ranks, "--load", folder))
                self.assertEqual((result.code, result.stderr.count(line)), (zpp.OK, 1), result)
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)

    def test_refusals(self):
        for words, parts in (
                ([*NODES, "--bf16", "--weight-copy-dtype", "fp32"],
                 ("zeropp.weight_copy_dtype fp32 at zero_optimization.stage 2", "in bf16", "stage to 3")),
                ([*NODES, "--zero-hpz-partition-size", "2"], ("zero_hpz_partition_size", "stage")),
                ([*NODES, "--hpz-device", "cpu"], ("zeropp.hpz_device", "no effect")),
                (["--node-size", "2"], ("zeropp.weight_differences", "zero_quantized_weights"))):
            with self.subTest(words):
                self.check_fails(self.train(4, "--zero-stage", "2", *words, "--weight-differences"), zpp.USAGE, *parts)


if __name__ == "__main__":
    zpp.main()
