# ctest: name=exact_differences cuda=mpi,nccl labels=cli timeout=400 processors=4
"""Exact weight differences in zpp_train: parameters have the bits of a run that sends whole weights, at stages 1, 2 and
3, whatever else is chosen; bytes follow from the shapes that ranks agreed on, and from nothing else; a run that resumes
has the bits of one that does not stop; wrong flags are refused with one line.

ZEROPP_RANDOM_PAIRS names another number of random pairs, ZEROPP_RANDOM_SEED another seed: a campaign."""

import os
import random
import shutil
import tempfile

import validate
import zpp

zpp.skip_without_gpus(4)
PAIRS, SEED = int(os.environ.get("ZEROPP_RANDOM_PAIRS", 10)), int(os.environ.get("ZEROPP_RANDOM_SEED", 1))
EXACT = ["--weight-differences", "--exact-differences"]
REFRESH = ["--weight-refresh-interval", "3"]  # of what EXACT adds
FLAGS = ["--deterministic", "--train-iters", "6"]
HPZ = ["--node-size", "2", "--zero-hpz-partition-size", "2"]
# Name: flags.
RUNS = {
    "defaults": [*HPZ, "--bf16"],
    "evaluations": [*HPZ, "--bf16", "--eval-interval", "2", "--eval-iters", "2"],
    "skipped steps": [*HPZ, "--fp16", "--initial-scale-power", "18", "--gradient-accumulation-steps", "2"],
    "units that stay": [*HPZ, "--bf16", "--param-persistence-threshold", "5000", "--update-in-backward"],
    "offload": [*HPZ, "--bf16", "--offload-optimizer", "cpu", "--offload-param", "cpu"],
    "stage 2 in two levels": ["--zero-stage", "2", "--node-size", "2", "--bf16"],
    "stage 1": ["--zero-stage", "1", "--bf16", "--zero-quantized-gradients", "--moments", "int8"],
    "measured": [*HPZ, "--bf16", "--measure-quantization-error", "2"],
    "measured at stage 2": ["--zero-stage", "2", "--fp16", "--loss-scale", "256", "--measure-quantization-error", "1"],
}
# Changes to entries of RUNS: what is changed, into what, and what the reason names.
CHANGES = [
    ("defaults", "exact_differences/escapes", 5, 10**9, "/exact_differences: row 5: no image"),
    ("defaults", "exact_differences/width", 3, 9, "/exact_differences: row 3: no image"),
    ("defaults", "exact_differences/step", 0, 5, "/exact_differences"),
    ("defaults", "exact_differences/unit", 2, 99, "/exact_differences: row 2: unit 99"),
    ("defaults", "steps/bytes_inter_node", 3, 1, "bytes of step 3"),
    ("defaults", "steps/time_agreement", 2, -0.1, "time_agreement"),
    ("measured", "errors/relative_l2", 6, 0.1, "there is an error without a codec"),
    ("measured at stage 2", "errors/largest", 0, 0.1, "there is an error without a codec"),
    ("evaluations", "exact_differences/width", 4, 5, "bytes"),
]


def random_flags(rng):
    """Ranks, and flags of a training without exact differences."""
    ranks = rng.choice([1, 2, 3, 4, 4, 6])
    node = rng.choice([size for size in range(1, ranks + 1) if ranks % size == 0])
    stage = rng.choice([1, 2, 3, 3])
    if stage == 3 and node == ranks:
        node = 1
    words = ["--zero-stage", stage, "--node-size", node, "--lr", 10 ** rng.uniform(-5, -1)]
    words += ["--zero-hpz-partition-size", node] if stage == 3 and node > 1 else []
    words += ["--bf16"] if rng.random() < 0.6 else ["--fp16", "--initial-scale-power", rng.choice([8, 16, 20])]
    in_backward = stage >= 2 and "--bf16" in words and rng.random() < 0.2
    words += ["--update-in-backward"] if in_backward else []
    for chosen, more in (
            (rng.random() < 0.4, ["--zero-quantized-gradients", "--gradient-codec-intra",
                                  rng.choice(["int4:128", "int8:256", "fp8e4m3:128"])]),
            (not in_backward and rng.random() < 0.3, ["--gradient-accumulation-steps", rng.choice([2, 3])]),
            (rng.random() < 0.3, ["--eval-interval", rng.choice([1, 2]), "--eval-iters", rng.choice([1, 2])]),
            (stage == 3 and rng.random() < 0.3, ["--param-persistence-threshold", rng.choice([100, 5000])]),
            (stage == 3 and rng.random() < 0.2, ["--max-reuse-distance", rng.choice([5000, 10**6])]),
            (not in_backward and rng.random() < 0.2, ["--offload-optimizer", "cpu"]),
            (not in_backward and rng.random() < 0.2, ["--measure-quantization-error", rng.choice([1, 2])]),
            (rng.random() < 0.2, ["--no-overlap-comm"]),
            (rng.random() < 0.2, ["--recompute-activations"]),
            (rng.random() < 0.2, ["--weight-decay", "0.1", "--clip-grad", "0.5"] if not in_backward else []),
            (rng.random() < 0.3, ["--optimizer", rng.choice(["SGD", "Adam", "AdamW"])]),
            (rng.random() < 0.2, ["--seed", rng.randint(2, 99)])):
        words += more if chosen else []
    if ("--offload-optimizer" in words and stage == 3 and "--measure-quantization-error" not in words
            and rng.random() < 0.5):
        words += ["--offload-param", "cpu"]
    return ranks, words


class ExactDifferences(zpp.TestCase):
    def bits(self, ranks, words, out):
        self.check_ok(self.train(ranks, *FLAGS, *words, out=out))
        return self.result_of(out)

    def result_of(self, out):
        root, groups = self.trace(out)
        return root["parameters_hash"], groups["steps"]["loss"], groups["steps"]["skipped"]

    def test_traces(self):
        """Equal parameters, valid traces, fewer bytes than whole weights, and changed entries that are found."""
        paths = {}
        for name, words in RUNS.items():
            with self.subTest(name):
                out = self.folder / name.replace(" ", "_")
                more = [*EXACT, *REFRESH] if name == "evaluations" else EXACT
                self.assertEqual(self.bits(4, [*words, *more], out), self.bits(4, words, self.out))
                paths[name] = out / "train.h5"
        judged = zpp.check_trace(*paths.values())
        self.assertEqual((judged.code, judged.stdout.count(": VALID\n")), (zpp.OK, len(RUNS)), judged)
        _, groups = zpp.read_trace(paths["defaults"])
        across, copies = groups["steps"]["bytes_inter_node"], groups["weight_copies"]["hash"]
        self.assertEqual(len(set(copies)), 1)
        self.assertTrue(all(later < across[0] for later in across[1:]), across)
        self.check_tampering(paths, CHANGES)

    def test_random_pairs(self):
        found = []
        for number in range(PAIRS):
            ranks, words = random_flags(random.Random(f"{SEED}/{number}"))
            with self.subTest(number=number, ranks=ranks, words=words):
                ends = [self.train(ranks, *FLAGS, *words, *more, out=self.folder / name)
                        for name, more in (("plain", []), ("exact", EXACT))]
                self.assertEqual(ends[0].code, ends[1].code, ends)
                if ends[0].code != zpp.OK:  # a rate or a scale that no training stands
                    self.assertIn("not finite", ends[0].stdout + ends[0].stderr, ends)
                    continue
                hashes = {self.trace(self.folder / name)[0]["parameters_hash"] for name in ("plain", "exact")}
                self.assertEqual(len(hashes), 1)
                judged = zpp.check_trace(self.folder / "exact" / "train.h5")
                self.assertEqual(judged.code, zpp.OK, judged)
                found.append(number)
        print(f"{len(found)} of {PAIRS} pairs trained, all with equal parameters", flush=True)
        self.assertGreater(len(found), PAIRS // 2)

    def test_a_restart_has_the_same_bits(self):
        """Also at other numbers of nodes and at another stage, with which no sum of gradients is the same: there the
        run with whole weights that resumes from the same checkpoint is the reference."""
        kept = self.folder / "kept"
        whole = self.bits(4, [*HPZ, "--bf16", *EXACT, "--save", kept, "--save-interval", "3"], self.out)
        shutil.rmtree(kept / "step-000000006")
        for ranks, words in ((4, HPZ), (4, ["--node-size", "1"]), (2, ["--node-size", "1"]),
                             (4, ["--zero-stage", "2", "--node-size", "2"])):
            with self.subTest(ranks=ranks, words=words):
                rest = self.bits(ranks, ["--bf16", *words, *EXACT, "--load", kept], self.out)
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                result = self.train(ranks, *FLAGS, "--bf16", *words, "--load", kept, out=self.out)
                self.assertEqual((result.code, result.stderr.count(zpp.COPIES_GIVEN_UP)), (zpp.OK, 1), result)
                plain = self.result_of(self.out)
                self.assertEqual(rest, plain)
                if words is HPZ:
                    self.assertEqual((rest[0], rest[1]), (whole[0], whole[1][3:]))

    def test_a_checkpoint_of_lossy_copies_leaves_no_trace(self):
        """Copies of a run that loses something are brought to the weights before their first use, also where they are
        of the current weights, as at stages 1 and 2 and after an evaluation."""
        kept, lossy = self.folder / "kept", ["--zero-quantized-weights", "--weight-differences"]
        resumed = ["--deterministic", "--bf16", "--train-iters", "5", "--load", kept]
        evaluated = ["--eval-interval", "3", "--eval-iters", "1"]
        for before, after in ((["--zero-stage", "2"], ["--zero-stage", "2"]),
                              (["--zero-stage", "2", "--node-size", "2"], HPZ), ([*HPZ, *evaluated], HPZ),
                              (["--zero-stage", "1"], ["--zero-stage", "1", *evaluated])):
            with self.subTest(before=before, after=after):
                self.check_ok(self.train(4, *before, *lossy, "--bf16", "--deterministic", "--train-iters", "3",
                                         "--save", kept))
                self.check_ok(self.train(4, *after, *resumed, *EXACT))
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                exact = self.result_of(self.out)
                self.assertEqual(self.train(4, *after, *resumed).code, zpp.OK)
                self.assertEqual(self.result_of(self.out), exact)
                shutil.rmtree(kept)

    def test_a_run_with_nothing_left_to_do_is_valid(self):
        kept = self.folder / "kept"
        for words in (["--zero-stage", "2"], HPZ):
            for more in (EXACT, []):
                self.bits(4, [*words, "--bf16", *more, "--save", kept], self.out)
                self.bits(4, [*words, "--bf16", *more, "--load", kept], self.out)
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                shutil.rmtree(kept)

    def test_table_of_bits(self):
        """Stages have the same exchanges after the same steps; a run without one is refused by one line."""
        paths = [self.folder / str(stage) for stage in (2, 3)]
        for out, words in zip(paths, (["--zero-stage", "2", "--node-size", "2"], HPZ)):
            self.bits(4, [*words, "--bf16", *EXACT], out)
        done = validate.run("exact-bits", *(out / "train.h5" for out in paths))
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
        self.assertEqual([row[0] for row in rows[2:]], ["1", "2", "5", "6"])
        self.assertEqual([row[1] for row in rows[2:5]], [row[2] for row in rows[2:5]])  # the last update has none
        self.assertEqual(rows[5][2], "-")
        self.check_ok(self.train(4, *HPZ, "--bf16", "--train-iters", "1", *EXACT))
        done = validate.run("exact-bits", self.out / "train.h5")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.USAGE, 1), done)
        self.assertIn("no exchange of exact differences", done.stderr)

    def test_nothing_is_sent_of_weights_that_stay(self):
        self.bits(4, [*HPZ, "--bf16", "--lr", "0", "--weight-decay", "0", *EXACT], self.out)
        _, groups = self.trace(self.out)
        self.assertEqual(set(groups["exact_differences"]["width"]), {0})
        rows = groups["collectives"]
        sent = [each for purpose, each in zip(rows["purpose"], rows["wire_bytes_inter"])
                if purpose == "weights_difference"]
        self.assertEqual(sent, [0])
        self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)

    def test_refusals(self):
        for words, parts in (
                (["--zero-stage", "0", "--bf16"], ("zeropp.exact_differences", "stage 1 or higher")),
                (HPZ, ("zeropp.exact_differences", "16 bits")),
                ([*zpp.ALL_FEATURES, "--bf16"], ("zeropp.exact_differences", "zero_quantized_weights")),
                ([*HPZ, "--bf16", "--hpz-device", "cpu"], ("zeropp.exact_differences", "hpz_device")),
                ([*HPZ, "--bf16", "--offload-optimizer", "cpu", "--offload-param", "nvme", "--offload-param-nvme-path",
                  tempfile.gettempdir()], ("zeropp.exact_differences", "choose cpu")),
                ([*HPZ, "--bf16", "--weight-copy-dtype", "fp32"], ("zeropp.weight_copy_dtype", "no effect")),
                ([*HPZ, "--bf16", "--weight-difference-codec", "int4"], ("weight_difference_codec", "no effect"))):
            with self.subTest(words):
                self.check_fails(self.train(4, *words, *EXACT), zpp.USAGE, *parts)
        self.check_fails(self.train(4, *HPZ, "--bf16", "--exact-differences"), zpp.USAGE, "zeropp.exact_differences",
                         "no effect")


if __name__ == "__main__":
    zpp.main()
