# ctest: name=torch_accelerate timeout=600 labels=cli,torch processors=4
"""examples/accelerate: accelerate's loop and the Trainer of transformers train on CPUs with codecs as they do without,
and print what was sent."""

import sys
import tempfile
import unittest

import torch_ranks as ranks

ranks.with_torch("accelerate", "transformers")

import torch_examples as examples
FOLDER = examples.SOURCE / "examples" / "accelerate"


class Accelerate(unittest.TestCase):
    def check(self, script):
        with tempfile.TemporaryDirectory(prefix="zpp-") as folder:
            def run(*more):
                return examples.run(examples.ON_CPUS, FOLDER / script, "--steps", 12, *more, folder=folder)

            examples.check(self, run("--plain"), run("--node-size", 2), 0.05)

    def test_loop(self):
        self.check("train.py")

    def test_trainer(self):
        self.check("trainer.py")


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
