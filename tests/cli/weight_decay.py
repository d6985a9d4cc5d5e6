# ctest: name=weight_decay labels=cli timeout=120 processors=2
"""Weight decay shrinks the parameters that it is said to: a step of SGD moves a decayed tensor by -lr * decay * weight
further than a step without, and the others by nothing. All are decayed where a file says how much, as DeepSpeed does,
and matrices alone where a flag does; the option has the last word, and the trace has what it was."""

import json

import numpy as np

import zpp
from zpp_validate.readers import safetensors_file

RATE, DECAY = 0.125, 0.25
IN_FILE = {"optimizer": {"type": "SGD", "params": {"lr": RATE, "weight_decay": DECAY}}}
SGD = ["--optimizer", "SGD", "--lr", RATE]
STEP = ["--deterministic", "--train-iters", 1, "--gather-weights-on-save"]


class Decay(zpp.TestCase):
    def after_a_step(self, name, *words, file=None):
        """The weights after one step, and the effective configuration."""
        out = self.folder / name
        kept = out / "kept"
        config = ["--config", self.write_json(f"{name}.json", file)] if file else []
        self.check_ok(self.train(1, *config, *words, *STEP, "--load-weights", self.begin, "--save", kept, out=out))
        return safetensors_file.read(next(kept.rglob("model.safetensors")))[0], json.loads(
            self.trace(out)[0]["config_json"])

    def begin_with_random_weights(self):
        """Biases begin at zero elsewhere, where no decay shows."""
        self.begin = self.folder / "begin.safetensors"
        first = self.folder / "first"
        self.check_ok(self.train(1, *STEP, "--save", first))
        shapes = {name: values.shape
                  for name, values in safetensors_file.read(next(first.rglob("model.safetensors")))[0].items()}
        draw = np.random.default_rng(1)
        self.weights = {name: draw.uniform(0.5, 1.0, shape).astype(np.float32) for name, shape in shapes.items()}
        safetensors_file.write(self.begin, self.weights)

    def test_which_parameters_it_shrinks(self):
        self.begin_with_random_weights()
        plain, config = self.after_a_step("plain", *SGD)
        self.assertNotIn("decayed_parameters", config["zeropp"])
        flag = [*SGD, "--weight-decay", DECAY]
        other = {**IN_FILE, "zeropp": {"decayed_parameters": "matrices"}}
        offloaded = ["--offload-optimizer", "cpu", "--offload-optimizer-ratio", 0.5]
        cases = (("flag", flag, None, "matrices"), ("all", [*flag, "--decayed-parameters", "all"], None, "all"),
                 ("file", [], IN_FILE, "all"),
                 ("file and option", [], other, "matrices"), ("flag over file", ["--weight-decay", DECAY], IN_FILE,
                                                              "matrices"),
                 ("option over file", ["--decayed-parameters", "matrices"], IN_FILE, "matrices"),
                 ("offloaded", offloaded, IN_FILE, "all"))
        for name, words, file, decayed in cases:
            with self.subTest(name):
                found, config = self.after_a_step(name, *words, file=file)
                self.assertEqual(config["zeropp"]["decayed_parameters"], decayed)
                self.assertEqual(set(found), set(self.weights))
                for tensor, weight in self.weights.items():
                    shrinks = decayed == "all" or weight.ndim == 2
                    expected = plain[tensor] - (RATE * DECAY * weight if shrinks else 0)
                    np.testing.assert_allclose(found[tensor], expected, rtol=0, atol=1e-6 if shrinks else 0,
                                               err_msg=tensor)

    def test_refused_without_weight_decay(self):
        self.check_fails(self.train(1, "--decayed-parameters", "all"), zpp.USAGE, "zeropp.decayed_parameters",
                         "weight_decay above 0")
        self.check_fails(self.train(1, "--weight-decay", 1, "--decayed-parameters", "biases"), zpp.USAGE,
                         "matrices, all")


if __name__ == "__main__":
    zpp.main()
