# ctest: name=gpt2_transformers timeout=600 labels=oracle,torch
"""The GPT's weights in `transformers`, on PyTorch: what a run exports has its loss there, and a GPT-2 that was made
there has its loss here, to 1e-4 in fp32. Another model's weights are told apart. Skipped without either package."""

import subprocess
import sys

import other_python

other_python.with_modules("torch", "transformers", "numpy", "h5py")

import zpp

VALIDATE = zpp.SOURCE / "validation" / "zpp-validate"
SHAPE = ["--num-layers", "3", "--hidden-size", "48", "--num-attention-heads", "4", "--seq-length", "24",
         "--micro-batch-size", "2"]
MADE = ["--layers", 3, "--hidden", 48, "--heads", 4, "--length", 24]


def script(*words):
    return subprocess.run([sys.executable, *map(str, (VALIDATE, "gpt2", *words))], capture_output=True, text=True,
                          timeout=300)


class Transformers(zpp.TestCase):
    def setUp(self):
        super().setUp()
        text = self.folder / "corpus.txt"
        text.write_bytes(b"".join(b"%d times %d is %d.\n" % (a, b, a * b) for a in range(40) for b in range(40)))
        self.words = [*SHAPE, "--data-source", "text", "--data-path", text, "--vocab-size", 256, "--eval-interval", 100,
                      "--eval-iters", 4]

    def loss(self, folder, evaluation, code=zpp.OK):
        done = script("loss", folder, self.out / "train.h5", "--evaluation", evaluation)
        self.assertEqual(done.returncode, code, done)
        print(done.stdout, end="")

    def test_out(self):
        for head, stage in (("--tied-head", 3), ("--no-tied-head", 1)):
            with self.subTest(head):
                self.out = self.folder / head.strip("-")
                self.check_ok(self.train(2, *self.words, head, "--zero-stage", stage, "--lr", 0.01, "--train-iters", 12,
                                         "--save", self.out / "kept",
                                         "--gather-weights-on-save"))
                step = self.out / "kept" / "step-000000012"
                self.loss(step, -1)
                self.loss(step, 0, zpp.INVALID)  # the loss of the initial weights

    def test_in(self):
        made = self.folder / "made"
        self.assertEqual(script("make", made, *MADE).returncode, zpp.OK)
        self.check_ok(self.train(2, *self.words, "--train-iters", 1, "--load-weights", made / "model.safetensors"))
        self.loss(made, 0)
        self.loss(made, -1, zpp.INVALID)


if __name__ == "__main__":
    zpp.main()
