# ctest: name=weight_differences_layouts labels=cli timeout=300 processors=4
"""A run with weight differences resumes at other numbers of ranks and nodes: from the checkpoint's copies where a unit
is padded to the same number of elements, else with whole weights, which one line says. The losses agree with the losses
of a run that did not stop."""

import statistics

import zpp

FLAGS = ["--weight-differences", "--bf16", "--deterministic", "--lr", "0.01"]
BATCH = 24  # sequences in a step, over all ranks
ANEW = ("weight differences begin anew with whole weights: the checkpoint has no copies of this dtype and number "
        "of elements")
STEPS, KEPT = 12, 6
# (nodes, ranks of each): whether a run can resume from the copies of 2 x 2 ranks.
LAYOUTS = {(2, 2): True, (2, 1): True, (4, 1): True, (2, 3): False, (3, 2): False, (4, 2): True, (2, 4): True}


def at(nodes, ranks):
    return ["--node-size", ranks, "--zero-hpz-partition-size", ranks, "--zero-quantized-weights",
            "--zero-quantized-gradients",
            "--micro-batch-size", BATCH // (nodes * ranks)]


class Layouts(zpp.TestCase):
    def run_at(self, layout, *words, out=None):
        nodes, ranks = layout
        result = self.train(nodes * ranks, *at(*layout), *words, out=out or self.out)
        self.assertEqual(result.code, zpp.OK, result)
        return result

    def setUp(self):
        super().setUp()
        self.kept = self.folder / "kept"
        self.run_at((2, 2), *FLAGS, "--train-iters", STEPS, out=self.folder / "whole")
        self.whole = self.losses(self.folder / "whole")
        self.run_at((2, 2), *FLAGS, "--train-iters", KEPT, "--save", self.kept)
        # A step changes the loss by far more than what is allowed below.
        self.allowed = 0.2 * statistics.mean(abs(one - other) for one, other in zip(self.whole, self.whole[1:]))

    def losses(self, out):
        return self.trace(out)[1]["steps"]["loss"]

    def check_rest(self, out):
        """The trace is VALID, and its losses are the later ones of the run that did not stop."""
        rest = self.losses(out)
        self.assertEqual(len(rest), STEPS - KEPT)
        for one, other in zip(rest, self.whole[KEPT:]):
            self.assertAlmostEqual(one, other, delta=self.allowed)
        judged = zpp.check_trace(out / "train.h5")
        self.assertEqual(judged.code, zpp.OK, judged)

    def test_other_numbers_of_nodes_and_ranks(self):
        for layout, found in LAYOUTS.items():
            with self.subTest(layout=layout):
                out = self.folder / f"{layout[0]} x {layout[1]}"
                result = self.run_at(layout, *FLAGS, "--train-iters", STEPS, "--load", self.kept, out=out)
                self.assertEqual((result.stderr.count(zpp.FROM_COPIES), result.stderr.count(ANEW)), (1, 0) if found
                                 else (0, 1), result)
                self.check_rest(out)
                copies = self.trace(out)[1]["weight_copies"]
                self.assertEqual(copies["found"], "behind" if found else "none")
                self.assertEqual(len(copies["hash"]), layout[0])
                self.assertEqual(len(set(copies["hash"])), 1)
                # The first step sends whole weights where it has no copies, and 4 bits where it has some.
                across = self.trace(out)[1]["steps"]["bytes_inter_node"]
                self.assertEqual(across[0] == across[1], found, across)
                self.assertEqual(len(set(across[1:])), 1, across)

    def test_nodes_that_need_no_differences_and_back(self):
        """One node keeps plain hpZ; what it saves has no copies, from which two nodes begin anew."""
        one, kept = self.folder / "one", self.folder / "kept again"
        words = [word for word in FLAGS if word != "--weight-differences"]
        result = self.run_at((1, 4), *words, "--train-iters", STEPS, "--load", self.kept, "--save", kept, out=one)
        self.assertEqual(result.stderr.count(zpp.COPIES_GIVEN_UP), 1, result)
        self.assertEqual(result.stderr.count("weight differences"), 1, result)
        self.check_rest(one)
        result = self.run_at((2, 2), *FLAGS, "--train-iters", STEPS + 2, "--load", kept)
        self.assertEqual(result.stderr.count(ANEW), 1, result)
        judged = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(judged.code, zpp.OK, judged)

    def test_copies_of_another_type_begin_anew(self):
        out = self.folder / "fp32"
        result = self.run_at((2, 2), *FLAGS, "--weight-copy-dtype", "fp32", "--train-iters", STEPS, "--load", self.kept,
                             out=out)
        self.assertEqual(result.stderr.count(ANEW), 1, result)
        self.check_rest(out)


if __name__ == "__main__":
    zpp.main()
