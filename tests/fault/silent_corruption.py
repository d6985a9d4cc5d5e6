# ctest: name=silent_corruption labels=fault,nightly timeout=900 processors=4
"""Silent corruption of training, which --verify-interval finds: a bit that is flipped in a message, in a copy, in a sum
or in memory that lies still ends the run in the step where it shows, and the line names the step, the rank and the
unit. No checkpoint has that step."""

import re

import zpp

UNITS = ["embedding", "h.0", "h.1", "head"]
DEFECTIVE = zpp.TEST_BIN / "defective_train"
STEPS = 7
BASE = [*(word for word in zpp.TINY if word not in ("--train-iters", "3")), "--train-iters", STEPS,
        "--log-interval", 100]
QGZ = ["--zero-quantized-gradients"]
FEEDBACK = [*QGZ, "--error-feedback", "both"]
DIFFERENCES = ["--zero-quantized-weights", "--weight-differences"]
HPZ = ["--zero-stage", 3, "--zero-hpz-partition-size", 2]
ON_RAILS = [*HPZ, *DIFFERENCES]

# Ranks, ranks of a node, options, and the values in memory that a bit is flipped in.
AT_REST = ("master", "moments")
CASES = [
    *((2, 2, ["--zero-stage", stage], ("resident", "sum", *AT_REST)) for stage in (0, 1, 2)),
    *((4, 2, ["--zero-stage", stage, *QGZ], ("resident", "sum", *AT_REST)) for stage in (0, 1, 2)),
    (4, 2, ["--zero-stage", 2, *DIFFERENCES], ("resident", *AT_REST)),
    (3, 3, ["--zero-stage", 3], ("gathered", "sum", *AT_REST)),
    (6, 3, ["--zero-stage", 3, "--zero-quantized-weights", "--bf16"], ("gathered", "sum", *AT_REST)),
    (4, 2, [*HPZ, "--gradient-accumulation-steps", 2], ("gathered", "secondary", *AT_REST)),
    (6, 2, [*HPZ, *FEEDBACK], ("sum", "secondary")),
    (4, 2, [*ON_RAILS, *FEEDBACK, "--error-feedback-dtype", "int8"], ("sum", *AT_REST)),
    (4, 2, ["--zero-stage", 3, "--moments", "int8", "--update-in-backward", "--clip-grad", 0], AT_REST),
    (4, 2, ["--zero-stage", 3, "--shard-group-size", 2], ("gathered", "sum", *AT_REST)),
    (4, 1, ["--zero-stage", 3, "--fp16", *QGZ, "--gradient-codec-intra", "int8:64+sr"], ("gathered", "sum", *AT_REST)),
]


class SilentCorruption(zpp.TestCase):
    def run_with(self, fault, ranks, node, words, interval, *more, base=BASE):
        command = [DEFECTIVE, *base, "--node-size", node, *words, "--verify-interval", interval, *more]
        process = zpp.launch([(ranks, command)], cwd=self.folder, env={"ZEROPP_FAULT": fault})
        self.addCleanup(process.stop)
        return process.end()

    def found(self, result):
        """(step, ranks that may be damaged, unit) that the only error line names."""
        self.assertEqual((result.code, len(result.errors("zpp_train"))), (zpp.INVALID, 1), result)
        line = result.errors("zpp_train")[0]
        match = re.search(r"step (\d+) is damaged on (one of )?ranks? ([-\d, ]+) \(\S+\): "
                          r".*?\b(embedding|h\.\d|head)\b.*: take the host out of the job", line)
        self.assertIsNotNone(match, line)
        ranks = set()
        for part in match[3].split(", "):
            first, _, last = part.partition("-")
            ranks |= set(range(int(first), int(last or first) + 1))
        return int(match[1]), ranks, match[4], bool(match[2])

    def test_a_flipped_bit_is_found_where_it_is(self):
        cases = [(ranks, node, words, values, rank, unit)
                 for ranks, node, words, each in CASES for number, values in enumerate(each)
                 for rank, unit in [((number + 1) % ranks, number % 3)]]

        def problem(case):
            ranks, node, words, values, rank, unit = case
            result = self.run_with(f"flip_{values}:{rank}:{400 + unit}", ranks, node, words, 1)
            step, named, what, one_of = self.found(result)
            self.assertEqual((step, what), (4, UNITS[unit]), result)
            self.assertIn(rank, named, result)
            self.assertTrue(named == {rank} or one_of and ranks == 2, result)

        for case, failure in zip(cases, zpp.side_by_side(self.failure_of(problem), cases)):
            with self.subTest(case=case):
                self.assertIsNone(failure, failure)

    @staticmethod
    def failure_of(check):
        def caught(case):
            try:
                check(case)
            except AssertionError as failure:
                return str(failure)
            return None
        return caught

    def test_a_wrong_update_is_found_when_its_unit_is_sampled(self):
        """One unit is sampled in a verified step."""
        for words in (["--zero-stage", 1], ["--zero-stage", 3, "--update-in-backward", "--clip-grad", 0]):
            result = self.run_with("flips_updated:1:201", 2, 2, words, 1)
            step, named, what, _ = self.found(result)
            self.assertLess(step, 3 + len(UNITS))
            self.assertEqual((named, what), ({1}, "h.0"), result)

    def test_every_message_of_a_step(self):
        """Whichever message of a step has a bit flipped: the run ends, or the message carries nothing that counts."""
        clean = {}
        for words in ([*HPZ, *QGZ], ["--zero-stage", 1], [*ON_RAILS]):
            with self.subTest(words=words):
                out = self.folder / str(len(clean))
                flags = ["--hash-parameters", "--output", out, "--json", out / "train.json"]
                reference = self.run_with("clock:0:0", 4, 2, words, 1, *flags)
                self.assertEqual(reference.code, zpp.OK, reference)
                clean = self.trace(out)[0]["parameters_hash"]
                numbers = range(40, 90, 3)

                def problem(number, words=words, clean=clean):
                    folder = self.folder / f"{len(words)}-{number}"
                    result = self.run_with(f"corrupt:1:{number}", 4, 2, words, 1,
                                           "--hash-parameters", "--output", folder)
                    if result.code == zpp.OK:
                        self.assertEqual(self.trace(folder)[0]["parameters_hash"], clean, (number, str(result)))
                    else:
                        self.found(result)
                    return result.code

                codes = zpp.side_by_side(problem, numbers)
                self.assertGreater(codes.count(zpp.INVALID), len(numbers) // 2)

    def test_a_broken_link_is_found_within_the_interval(self):
        for values, words in (("gathered", ["--zero-stage", 3]), ("sum", ["--zero-stage", 2]),
                              ("resident", ["--zero-stage", 1])):
            result = self.run_with(f"flips_{values}:1:401", 4, 2, words, 3)
            self.assertEqual(self.found(result)[:3], (6, {1}, "h.0"), result)

    def test_windows_of_a_larger_model_come_in_turn(self):
        """No sample has all gradients of this model, or all elements of one of its units."""
        large = ["--num-layers", 4, "--hidden-size", 192, "--num-attention-heads", 4, "--seq-length", 16,
                 "--micro-batch-size", 1, "--train-iters", 32, "--backend", "host"]
        words = ["--zero-stage", 3, *FEEDBACK, "--error-feedback-dtype", "int8",
                 "--gradient-codec-intra", "int4:128+sr"]
        clean = self.run_with("clock:0:0", 4, 2, words, 1, base=large)
        self.assertEqual(clean.code, zpp.OK, clean)
        for values in ("sum", "updated"):
            step, named, what, _ = self.found(self.run_with(f"flips_{values}:2:201", 4, 2, words, 1, base=large))
            self.assertEqual((named, what), ({2}, "h.0"))
            self.assertGreater(step, 3)

    def test_no_checkpoint_has_a_damaged_step(self):
        save = ["--save", "kept", "--save-interval", 1, "--save-keep", 9, "--output", self.out]
        result = self.run_with("flip_master:1:401", 2, 2, ["--zero-stage", 3], 1, *save)
        self.found(result)
        self.assertEqual(self.saved(), ["step-000000001", "step-000000002", "step-000000003"])
        attributes, groups = self.trace(self.out)
        self.assertRegex(attributes["verdict"], "^INVALID: step 4 is damaged on rank 1 ")
        counters = dict(zip(groups["counters"]["name"], groups["counters"]["value"]))
        self.assertEqual(counters["verified_steps"], 2 * 4)
        self.assertGreaterEqual(counters["verification_alarms"], 2)

    def test_warnings_continue(self):
        save = ["--save", "kept", "--save-interval", 1, "--save-keep", 9, "--output", self.out]
        result = self.run_with("flip_gathered:1:401", 4, 2, ["--zero-stage", 3], 1, "--verify-action", "warn", *save)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertEqual(len(re.findall("step 4 is damaged on rank 1 ", result.stderr)), 1, result)
        self.assertNotIn("step-000000004", self.saved())
        self.assertIn("step-000000005", self.saved())
        attributes, groups = self.trace(self.out)
        self.assertEqual(attributes["verdict"], "VALID")
        counters = dict(zip(groups["counters"]["name"], groups["counters"]["value"]))
        self.assertEqual((counters["verified_steps"], counters["verification_alarms"]), (4 * STEPS, 4))
        self.check_accepted(self.out / "train.h5")

    def saved(self):
        return sorted(path.name for path in (self.folder / "kept").iterdir() if path.name.startswith("step-"))


if __name__ == "__main__":
    zpp.skip_without_open_mpi("flipped bits")
    zpp.main()
