# ctest: name=device_memory timeout=120 labels=cli,without-cuda processors=4
"""zeropp.device_memory_limit: what fits runs, to the byte; what does not ends before it begins with exit code 3 and one
line that names the part, the bytes that it needs and that are left, and what would fit, which does. An allocation that
fails says the same."""

import re

import zpp

SHAPE = ["--num-layers", 4, "--hidden-size", 64, "--train-iters", 1, "--no-hash-parameters"]
PARTS = "master|moments|gradient_shard|compute_shard|resident_weights|local_gradients|secondary|arena|activations"


class DeviceMemory(zpp.TestCase):
    def needed(self, ranks, *flags, sequences=4):
        """Bytes on the device of a rank, as the trace of a run without limit has them."""
        out = self.folder / f"free-{ranks}"
        self.check_ok(self.train(ranks, *SHAPE, "--micro-batch-size", sequences, *flags, out=out))
        memory = self.trace(out)[1]["memory"]
        return sum(size for name, size in zip(memory["name"], memory["bytes_actual"])
                   if not name.startswith("offloaded_")
                   and name not in ("buffers_peak", "gpu_used"))

    def refused(self, ranks, limit, *flags, sequences=4):
        out = self.folder / f"refused-{limit}"
        result = self.train(ranks, *SHAPE, "--micro-batch-size", sequences, *flags, "--device-memory-limit", limit,
                            out=out)
        self.assertEqual((result.code, len(result.errors())), (zpp.ENVIRONMENT, 1), result)
        self.assertFalse((out / "train.h5").exists())
        return result.errors()[0]

    def test_the_limit_is_exact(self):
        need = self.needed(2, "--zero-stage", 1)
        self.check_ok(self.train(2, *SHAPE, "--micro-batch-size", 4, "--zero-stage", 1, "--device-memory-limit", need,
                                 out=self.folder / "fits"))
        line = self.refused(2, need - 1, "--zero-stage", 1)
        found = re.search(rf"no memory for ({PARTS}): it needs (\d+) bytes where (\d+) of zeropp.device_memory_limit "
                          rf"{need - 1} are left, "
                          rf"and a rank {need} bytes in all; would fit: (.*)", line)
        self.assertTrue(found, line)
        self.assertGreater(int(found[2]), int(found[3]))

    def test_what_would_fit_does(self):
        need = self.needed(2, "--zero-stage", 0)
        line = self.refused(2, need // 2, "--zero-stage", 0)
        named = self.named(line)
        self.assertGreater(len(named), 0, line)
        for number, words in enumerate(named):
            base = ["--zero-stage", 0, "--micro-batch-size", 4, "--device-memory-limit", need // 2]
            self.check_ok(self.train(2, *SHAPE, *self.with_defaults(words, base), out=self.folder / f"remedy-{number}"))

    def test_what_is_offloaded_in_part(self):
        """All of it fits, and the weights with all of it, unless something reads them on the device."""
        one = ["--zero-stage", 3, "--recompute-activations", "--reduce-bucket-size", 64 * 64,
               "--offload-optimizer", "cpu", "--moments", "bf16"]
        for words, count in (([], 3), (["--measure-quantization-error", 1, "--zero-quantized-weights"], 2)):
            part = [*one, *words, "--offload-optimizer-ratio", 0.5]
            limit = self.needed(1, *part, sequences=1) - 1
            line = self.refused(1, limit, *part, sequences=1).split("would fit: ")[1]
            named = [text for text in re.findall(r"(--[a-z][^()]*) \(", line) if "--micro-batch-size" not in text]
            self.assertEqual(named, ["--cpu-checkpointing", "--offload-optimizer-ratio 1",
                                     "--offload-optimizer-ratio 1 --offload-param cpu"][:count])
            for text in named:
                self.check_ok(self.train(1, *SHAPE, "--micro-batch-size", 1, *one, *words, *text.split(),
                                         "--device-memory-limit", limit,
                                         out=self.folder / f"all-{limit}-{len(text)}"))

    def test_offloaded_memory_does_not_count(self):
        need = self.needed(1, "--zero-stage", 3, "--offload-optimizer", "cpu")
        self.check_ok(self.train(1, *SHAPE, "--micro-batch-size", 4, "--zero-stage", 3, "--offload-optimizer", "cpu",
                                 "--device-memory-limit", need,
                                 out=self.folder / "cpu"))
        self.refused(1, need, "--zero-stage", 3)

    def test_inputs_of_blocks_on_the_host_do_not_count(self):
        one = ["--zero-stage", 3, "--recompute-activations"]
        need, less = self.needed(1, *one), self.needed(1, *one, "--cpu-checkpointing")
        self.assertEqual(need - less, 2 * 4 * 16 * 64 * 4)  # of four blocks two
        self.assertIn(f"--cpu-checkpointing ({less * 1e-9:.3g} GB)", self.refused(1, need - 1, *one))
        self.check_ok(self.train(1, *SHAPE, "--micro-batch-size", 4, *one, "--cpu-checkpointing",
                                 "--device-memory-limit", less, out=self.folder / "cpu"))

    def test_the_copy_of_hpz_goes_to_the_host(self):
        """Nothing else makes room for all of a copy: what is left of the remedies is less."""
        hpz = ["--zero-stage", 3, "--node-size", 2, "--zero-hpz-partition-size", 2, "--recompute-activations",
               "--reduce-bucket-size", 64 * 64]
        need, less = self.needed(2, *hpz, sequences=1), self.needed(2, *hpz, "--hpz-device", "cpu", sequences=1)
        self.assertGreater(need, less)
        line = self.refused(2, less, *hpz, sequences=1)
        self.assertIn(f"--hpz-device cpu ({less * 1e-9:.3g} GB)", line)
        self.assertIn("no memory for secondary", self.refused(2, self.without_copy(2, hpz), *hpz, sequences=1))
        self.check_ok(self.train(2, *SHAPE, "--micro-batch-size", 1, *hpz, "--hpz-device", "cpu",
                                 "--device-memory-limit", less, out=self.folder / "cpu"))
        self.assertNotIn("--hpz-device", self.refused(2, less - 1, *hpz, "--hpz-device", "cpu", sequences=1))

    def without_copy(self, ranks, flags):
        """Bytes of the parts before hpZ's copy."""
        out = self.folder / "parts"
        self.check_ok(self.train(ranks, *SHAPE, "--micro-batch-size", 1, *flags, out=out))
        memory = self.trace(out)[1]["memory"]
        return sum(memory["bytes_actual"][:memory["name"].index("secondary")])

    def test_gradients_and_moments_take_less(self):
        base = ["--zero-stage", 3, "--recompute-activations", "--reduce-bucket-size", 64 * 64]
        need = self.needed(1, *base, sequences=1)
        early, short = (self.needed(1, *base, *words, sequences=1)
                        for words in (["--update-in-backward"], ["--moments", "bf16"]))
        line = self.refused(1, need - 1, *base, sequences=1)
        for flag, bytes_then in (("--update-in-backward", early), ("--moments bf16", short)):
            self.assertIn(f"{flag} ({bytes_then * 1e-9:.3g} GB)", line)
            self.check_ok(self.train(1, *SHAPE, "--micro-batch-size", 1, *base, *flag.split(),
                                     "--device-memory-limit", need - 1,
                                     out=self.folder / flag.split()[0]))
        for words, flag in ((["--update-in-backward"], "--update-in-backward"),
                            (["--clip-grad", 1], "--update-in-backward"),
                            (["--moments", "bf16"], "--moments"), (["--moments", "int8"], "--moments"),
                            (["--optimizer", "SGD"], "--moments")):
            limit = self.needed(1, *base, *words, sequences=1) - 1
            line = self.refused(1, limit, *base, *words, sequences=1)
            self.assertNotIn(flag, line.split("would fit: ")[1])

    def test_what_is_refused_is_not_named(self):
        """Updates in backward go with no accumulation and no offload: what needs these leaves them out, and runs."""
        for sequences, limit, late in ((2, "2M", 0), (2, "6M", 2), (1, "5M", 2), (1, "8M", 1)):
            with self.subTest(sequences=sequences, limit=limit):
                named = self.named(self.refused(1, limit, "--zero-stage", 3,
                                                "--update-in-backward", sequences=sequences))
                self.assertEqual(sum("--no-update-in-backward" in words for words in named), late, named)
                for number, words in enumerate(named):
                    base = ["--zero-stage", 3, "--micro-batch-size", sequences, "--device-memory-limit", limit,
                            *([] if "--no-update-in-backward" in words else ["--update-in-backward"])]
                    self.check_ok(self.train(1, *SHAPE, *self.with_defaults(words, base),
                                             out=self.folder / f"{sequences}-{limit}-{number}"))

    @staticmethod
    def named(line):
        """Flags of each remedy that a line names, as words."""
        if "would fit: " not in line:
            return []
        return [text.split() for text in re.findall(r"(--[a-z][^()]*) \(", line.split("would fit: ")[1])]

    @staticmethod
    def with_defaults(words, base):
        """`words`, and of `base` the flags, each with its value, that are not among them."""
        given, flag = list(words), None
        for word in base:
            flag = word if str(word).startswith("--") else flag
            given += [word] if flag not in words else []
        return given

    def test_differences_are_not_raised_to_stage_3(self):
        """In one node they are refused there, and without them the stage is named."""
        words = ["--num-layers", 4, "--hidden-size", 128, "--train-iters", 2, "--bf16", "--zero-quantized-weights",
                 "--zero-stage", 2,
                 "--device-memory-limit", "10M"]
        for more, named in (([], True), (["--weight-differences"], False)):
            result = self.train(2, *words, *more, out=self.folder / f"stage-{named}")
            self.assertEqual(result.code, zpp.ENVIRONMENT, result)
            self.assertEqual("--zero-stage 3" in result.errors()[0], named, result)

    def test_nothing_fits(self):
        line = self.refused(1, 1000, "--zero-stage", 3)
        for part in ("use more ranks or a smaller model", "time of the updates", "dtype of the moments",
                     "place of hpZ's copy"):
            self.assertIn(part, line)

    def test_what_is_not_known_before(self):
        result = self.train(1, *SHAPE, "--zero-stage", 3, "--zero-quantized-weights", "--adaptive-bits", "weights",
                            "--device-memory-limit", "1G")
        self.assertEqual(result.code, zpp.USAGE, result)
        self.assertIn("zeropp.adaptive_bits", result.errors()[0])


if __name__ == "__main__":
    zpp.main()
