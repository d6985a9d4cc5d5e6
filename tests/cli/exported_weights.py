# ctest: name=exported_weights labels=cli timeout=120 processors=4
"""Weights that leave and come as GPT-2's, Llama's and Qwen2's: what a checkpoint exports is its master weights, a run
that begins with them has their loss, at any number of ranks and stage; what is of another model is refused."""

import zpp
from zpp_validate.checkers import exported_weights
from zpp_validate.readers import safetensors_file

EVALUATE = ["--eval-interval", "100", "--eval-iters", "2", "--lr", "0.02"]
LLAMA = ["--model", "llama", "--num-key-value-heads", "1", "--head-dim", "12", "--ffn-hidden-size", "80"]


class Weights(zpp.TestCase):
    def exported(self, *words, ranks=4, steps=4):
        """Trains and exports; returns the checkpoint's folder and the loss at the end."""
        kept = self.out / "checkpoints"
        result = self.train(ranks, *EVALUATE, *words, "--train-iters", steps, "--save", kept,
                            "--gather-weights-on-save")
        self.check_ok(result)
        step = kept / f"step-{steps:09}"
        self.assertEqual(exported_weights.main([str(step), str(self.out / "train.h5")]), 0)
        return step, self.trace()[1]["evaluations"]["loss"][-1]

    def begun_with(self, file, *words, ranks=1):
        """The loss of a run's weights before its first step."""
        out = self.folder / "second"
        self.check_ok(self.train(ranks, *EVALUATE, *words, "--train-iters", 1, "--load-weights", file, out=out))
        return self.trace(out)[1]["evaluations"]["loss"][0]

    def test_out_and_in_again(self):
        step, loss = self.exported(*zpp.ALL_FEATURES)
        self.assertEqual(sorted(entry.name for entry in step.iterdir()),
                         ["config.json", "manifest.json", "model.safetensors",
                          *(f"rank-{rank:05}.bin" for rank in range(4))])
        for ranks, words in ((4, zpp.ALL_FEATURES), (3, []), (2, ["--zero-stage", "0"]), (1, ["--zero-stage", "1"])):
            with self.subTest(ranks=ranks):
                words = [*words, "--micro-batch-size", 12 // ranks] if ranks != 4 else words
                found = self.begun_with(step / "model.safetensors", *words, ranks=ranks)
                if ranks == 4:
                    self.assertEqual(found, loss)
        for words in (["--bf16"], ["--no-tied-head", "--zero-stage", "1"]):
            with self.subTest(words=words):
                self.out = self.folder / words[0].strip("-")
                step, loss = self.exported(*words, ranks=2)
                self.assertEqual(self.begun_with(step / "model.safetensors", *words, ranks=2), loss)

    def test_names_without_prefix_and_masks(self):
        """Names and masks of files of the bare model and of earlier versions. Each value is read where it belongs: a
        change of one value changes the export."""
        step, loss = self.exported(ranks=1)
        tensors, _ = safetensors_file.read(step / "model.safetensors")
        bare = {name.removeprefix("transformer."): values for name, values in tensors.items()}
        bare["h.0.attn.bias"] = bare["wpe.weight"]
        file = self.folder / "bare.safetensors"
        safetensors_file.write(file, bare)
        self.assertEqual(self.begun_with(file), loss)
        changed = {**bare, "h.1.mlp.c_fc.weight": -bare["h.1.mlp.c_fc.weight"]}
        safetensors_file.write(file, changed)
        self.assertNotEqual(self.begun_with(file), loss)

    def test_llama_and_qwen2(self):
        """Each of the parts of a matrix is read where it belongs: a change of one changes the loss."""
        for words in (LLAMA, [*LLAMA, "--add-qkv-bias", "--bf16"], [*LLAMA, "--no-tied-head", "--zero-stage", "1"]):
            with self.subTest(words=words):
                self.out = self.folder / str(len(words))
                step, loss = self.exported(*words, ranks=3)
                self.assertEqual(self.begun_with(step / "model.safetensors", *words, ranks=3), loss)
        tensors, _ = safetensors_file.read(step / "model.safetensors")
        file = self.folder / "changed.safetensors"
        of_block = [name for name in tensors if ".layers.1." in name]
        self.assertEqual(len(of_block), 9)
        for name in [*of_block, "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]:
            with self.subTest(name):
                safetensors_file.write(file, {**tensors, name: tensors[name][::-1]})
                self.assertNotEqual(self.begun_with(file, *words, ranks=3), loss)

    def test_a_gpt_that_is_no_gpt2(self):
        """It has no place for fewer heads of keys, nor for heads of another width."""
        for words in (["--num-key-value-heads", 1], ["--head-dim", 8]):
            result = self.train(1, *words, "--save", self.out / "checkpoints", "--gather-weights-on-save")
            self.check_fails(result, zpp.USAGE, "--gather-weights-on-save")

    def test_a_checkpoint_wins(self):
        """A job that is started again with the same words resumes from its checkpoint."""
        step, _ = self.exported(ranks=1)
        kept = self.out / "checkpoints"
        result = self.train(1, "--train-iters", 5, "--save", kept, "--load", kept,
                            "--load-weights", step / "model.safetensors")
        self.assertIn("resuming after step 4 of 5", result.stdout)

    def test_damage_is_told_when_a_run_resumes(self):
        """The run reads none of these files: it resumes, and warns."""
        step, _ = self.exported(ranks=2)
        kept = self.out / "checkpoints"
        for name in ("config.json", "model.safetensors"):
            with self.subTest(name):
                whole = (step / name).read_bytes()
                (step / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
                result = self.train(2, *EVALUATE, "--train-iters", 5, "--load", kept)
                self.assertEqual(result.code, zpp.OK, result)
                self.assertIn(name, result.stderr)
                self.assertIn("the run resumes from the checkpoint", result.stderr)
                (step / name).write_bytes(whole)
        self.check_ok(self.train(2, *EVALUATE, "--train-iters", 5, "--load", kept))

    def test_what_is_refused(self):
        step, _ = self.exported(ranks=1)
        (self.out / "train.h5").unlink()  # so that any trace is one too many
        good = (step / "model.safetensors").read_bytes()
        tensors, _ = safetensors_file.read(step / "model.safetensors")
        file = self.folder / "model.safetensors"

        def refused(code, *parts, words=()):
            result = self.train(1, "--load-weights", file, *words, out=self.folder / "third")
            self.check_fails(result, code, str(file), *parts)

        refused(zpp.IO, "No such file")
        for name, change, part in (("more", {"transformer.h.2.ln_1.bias": tensors["transformer.ln_f.bias"]},
                                    "h.2.ln_1.bias' has no place"),
                                   ("fewer", {"transformer.ln_f.bias": None}, "it has no 'transformer.ln_f.bias'"),
                                   ("shape", {"transformer.wpe.weight": tensors["transformer.wpe.weight"][1:]},
                                    "is [15, 32] there, and [16, 32] here")):
            with self.subTest(name):
                safetensors_file.write(file, {name: value for name, value in {**tensors, **change}.items()
                                              if value is not None})
                refused(zpp.USAGE, "of another model", part)
        for name, data, part in (("cut", good[:-1], "and it has"), ("longer", good + b"\0", "and it has"),
                                 ("empty", b"", "it has 0 bytes"),
                                 ("header", (1 << 60).to_bytes(8, "little") + good[8:], "longer than the file"),
                                 ("json", good[:8] + b"x" + good[9:], "no JSON object"),
                                 ("type", good.replace(b'"F32"', b'"F33"', 1), "none of F32")):
            with self.subTest(name):
                file.write_bytes(data)
                refused(zpp.IO, "no safetensors file", part)
        file.write_bytes(good)
        refused(zpp.USAGE, "it has no 'lm_head.weight'", words=["--no-tied-head"])
        result = self.train(1, "--model", "quadratic", "--load-weights", file, out=self.folder / "third")
        self.check_fails(result, zpp.USAGE, "zeropp.model.name")
        result = self.train(1, "--model", "llama", "--load-weights", file, out=self.folder / "third")
        self.check_fails(result, zpp.USAGE, str(file), "of another model")


if __name__ == "__main__":
    zpp.main()
