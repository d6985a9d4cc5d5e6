# ctest: name=torch_trl timeout=300 labels=cli,torch processors=2
"""examples/accelerate/sft.py: the SFTTrainer of TRL trains adapters on CPUs with codecs as it does without. Frozen
weights keep every bit; each rank has one replica of frozen weights that share no group with adapters."""

import re
import sys
import tempfile
import unittest

import torch_ranks as ranks

ranks.with_torch("trl", "peft")

import torch_examples as examples

SCRIPT = examples.SOURCE / "examples" / "accelerate" / "sft.py"
FROZEN_BITS = examples.SOURCE / "tests" / "support" / "frozen_bits.py"
STEPS, RANKS, TOLERANCE, BF16 = 12, 2, 0.01, 2
REPLICAS = {"base_model.model.model.embed_tokens", "base_model.model.lm_head",
            *(f"base_model.model.model.layers.{layer}.mlp" for layer in range(4))}
SHARED = {f"base_model.model.model.layers.{layer}" for layer in range(4)}
CHANGED = re.compile(r"^(frozen|trained): (\d+) of (\d+) weights have changed", re.MULTILINE)


class Trl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="zpp-") as folder:
            cls.plain, cls.compressed = (
                examples.run(examples.ON_CPUS, FROZEN_BITS, SCRIPT, "--steps", STEPS, *more, folder=folder, size=RANKS)
                for more in (["--plain"], ["--node-size", 1]))

    def of_phase(self, phase):
        """Calls by module."""
        return {row[0]: int(row[4]) for row in examples.rows(self.compressed)[:-1] if row[1] == phase}

    def test_losses(self):
        before, after = examples.losses(self.plain), examples.losses(self.compressed)
        self.assertEqual((len(before), len(after)), (STEPS, STEPS), self.compressed)
        self.assertLess(before[-1], before[0] - 10 * TOLERANCE)
        self.assertLess(max(abs(a - b) for a, b in zip(before, after)), TOLERANCE, f"{before}\n{after}")
        self.assertNotEqual(before, after, "nothing was compressed")

    def test_frozen_weights_keep_every_bit(self):
        for said in (self.plain, self.compressed):
            found = {kind: (int(changed), int(of)) for kind, changed, of in CHANGED.findall(said)}
            self.assertEqual(found["frozen"][0], 0, said)
            self.assertGreater(min(found["frozen"][1], found["trained"][1]), 0, said)
            self.assertEqual(*found["trained"], said)

    def test_replicas(self):
        self.assertEqual(self.of_phase("gather of a frozen replica"), dict.fromkeys(REPLICAS, 1), self.compressed)
        used = self.of_phase("decode of a frozen replica")
        self.assertEqual(set(used), REPLICAS, self.compressed)
        self.assertGreaterEqual(min(used.values()), STEPS, self.compressed)

    def test_what_was_sent(self):
        rows = examples.rows(self.compressed)
        encoded = {row[0] for row in rows[:-1] if row[1] == "forward gather" and row[3] == "int8:256"}
        self.assertEqual(encoded, SHARED, self.compressed)
        self.assertEqual({row[7] for row in rows[:-1]}, {"yes", "modelled", "-"}, self.compressed)
        parameters = int(re.search(r"all params: ([0-9,]+)", self.compressed)[1].replace(",", ""))
        # All weights in bf16. Without codecs most are gathered twice per step.
        once_a_step = STEPS * parameters * BF16 * (RANKS - 1) / RANKS / 1e6
        self.assertLess(float(rows[-1][3]), once_a_step / 4, self.compressed)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
