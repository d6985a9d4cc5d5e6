# ctest: name=contract9_stage3_limits cuda=mpi,nccl labels=cli timeout=300 processors=4
"""Stage 3 keeps whole, and keeps until the next use, the requested weights. A replay that shares no code with the
library derives the bytes of every trace from its configuration, and the planner gives the same bytes."""

import json
import unittest

import planned
import zpp

zpp.skip_without_gpus(4)
EVERYTHING = 10**9
LIMITS = {"--max-reuse-distance", "--max-live-parameters", "--param-persistence-threshold",
          "--model-persistence-threshold"}
# A block of this model has 12,704 parameters, the embedding 8,704 to 9,000.
CASES = {
    "neighbours": ["--max-reuse-distance", 1],
    "a block between": ["--max-reuse-distance", 30_000, "--gradient-accumulation-steps", 3],
    "everything": ["--max-reuse-distance", EVERYTHING, "--gradient-accumulation-steps", 2],
    "everything that has room": ["--max-reuse-distance", EVERYTHING, "--max-live-parameters", 14_000,
                                 "--no-overlap-comm"],
    "kept beside hpZ": ["--max-reuse-distance", 30_000, *zpp.ALL_FEATURES, "--gradient-accumulation-steps", 2],
    "kept in shard groups": ["--max-reuse-distance", 30_000, "--shard-group-size", 2, "--node-size", 2, "--bf16"],
    "small units persist": ["--param-persistence-threshold", 10_000],
    "all persist": ["--param-persistence-threshold", EVERYTHING, "--bf16"],
    "as many as there is room for": ["--param-persistence-threshold", EVERYTHING,
                                     "--model-persistence-threshold", 22_000],
    "persist beside hpZ": ["--param-persistence-threshold", 10_000, *zpp.ALL_FEATURES],
    "persist in shard groups": ["--param-persistence-threshold", 10_000, "--shard-group-size", 2, "--node-size", 2],
    "both": ["--param-persistence-threshold", 10_000, "--max-reuse-distance", 30_000, *zpp.ALL_FEATURES,
             "--no-tied-head"],
}


class Stage3Limits(zpp.TestCase):
    def run_with(self, words):
        self.check_ok(self.train(4, "--deterministic", "--eval-interval", 1, *words,
                                 "--json", self.folder / "run.json"))
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)
        return json.loads((self.folder / "run.json").read_text())

    def sent(self, trace):
        return sum(sum(trace["steps"][f"bytes_{kind}_node"]) for kind in ("intra", "inter"))

    def test_every_case_has_its_bytes(self):
        for name, words in CASES.items():
            with self.subTest(name):
                trace = self.run_with(words)
                without = self.run_with([word for i, word in enumerate(words)
                                         if not {word, words[max(0, i - 1)]} & LIMITS])
                self.assertLess(self.sent(trace), self.sent(without))
                self.assertEqual(trace["parameters_hash"], without["parameters_hash"])

    @unittest.skipIf(zpp.BACKEND != "host", "memory of layers is planned for the host")
    def test_the_planner_knows_them(self):
        for name, words in CASES.items():
            self.check_ok(self.train(4, *words, "--json", self.folder / "run.json"))
            trace = json.loads((self.folder / "run.json").read_text())
            made = planned.plan(trace)
            with self.subTest(name):
                self.assertEqual(planned.wrong_steps(trace, made) + planned.wrong_memory(trace, made), [])


if __name__ == "__main__":
    zpp.main()
