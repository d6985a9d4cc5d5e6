# ctest: name=transformers_models timeout=600 labels=oracle,torch
"""Weights in `transformers`, on PyTorch: what a run exports has its loss there, and a GPT-2, Llama or Qwen2 that was
made there has its loss here, to 1e-4 in fp32. Another model's weights are told apart. Skipped without either
package."""

import other_python

other_python.with_modules("torch", "transformers", "numpy", "h5py")

import validate
import zpp

SHAPE = ["--num-layers", "3", "--hidden-size", "48", "--num-attention-heads", "4", "--seq-length", "24"]
MODELS = ([], ["--ffn-hidden-size", "100", "--norm-eps", "0.001"],
          ["--model", "llama", "--num-key-value-heads", "2", "--rope-theta", "500"],
          ["--model", "llama", "--add-qkv-bias", "--head-dim", "20", "--ffn-hidden-size", "100", "--norm-eps", "0.001"])


class Transformers(zpp.TestCase):
    def setUp(self):
        super().setUp()
        text = self.folder / "corpus.txt"
        text.write_bytes(b"".join(b"%d times %d is %d.\n" % (a, b, a * b) for a in range(40) for b in range(40)))
        self.words = [*SHAPE, "--micro-batch-size", 2, "--data-source", "text", "--data-path", text,
                      "--vocab-size", 256, "--eval-interval", 100, "--eval-iters", 4]

    def loss(self, folder, evaluation, code=zpp.OK):
        done = validate.run("transformers", "loss", folder, self.out / "train.h5", "--evaluation", evaluation)
        self.assertEqual(done.returncode, code, done)
        print(done.stdout, end="")

    def test_out(self):
        for number, model in enumerate(MODELS):
            head, stage = ("--no-tied-head", 1) if number % 2 else ("--tied-head", 3)
            with self.subTest(model=model):
                self.out = self.folder / f"out{number}"
                self.check_ok(self.train(2, *self.words, *model, head, "--zero-stage", stage, "--lr", 0.01,
                                         "--train-iters", 12, "--save", self.out / "kept", "--gather-weights-on-save"))
                step = self.out / "kept" / "step-000000012"
                self.loss(step, -1)
                self.loss(step, 0, zpp.INVALID)  # the loss of the initial weights

    def test_in(self):
        for number, model in enumerate(MODELS):
            with self.subTest(model=model):
                made, self.out = self.folder / f"made{number}", self.folder / f"in{number}"
                done = validate.run("transformers", "make", made, *SHAPE, *model, "--tied-head")
                self.assertEqual(done.returncode, zpp.OK, done)
                self.check_ok(self.train(2, *self.words, *model, "--train-iters", 1, "--load-weights",
                                         made / "model.safetensors"))
                self.loss(made, 0)
                self.loss(made, -1, zpp.INVALID)


if __name__ == "__main__":
    zpp.main()
