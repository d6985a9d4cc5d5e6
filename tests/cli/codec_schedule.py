# ctest: name=codec_schedule labels=cli timeout=150 processors=4
"""Codecs that change by step and by unit, and adaptive bits, in zpp_train and zpp_converge: every byte is the predicted
one, the trace says what was in force, tampering with that is found, and what is wrong is refused with one line."""

import json

import h5py

import zpp

CONVERGE = str(zpp.BIN / "zpp_converge")
MATRIX = zpp.SOURCE / "inputs" / "convergence" / "schedule.json"
SCHEDULE = [{"weight_codec": "int6:64"},
            {"from_step": 2, "units": ["head", "h.1"], "gradient_codec_intra": "int8:128", "weight_codec": "int4:64"},
            {"from_step": 3, "gradient_codec_inter": "fp8e4m3:128"}]
STEPS = ["--train-iters", "5", "--eval-interval", "1", "--eval-iters", "1"]
ADAPTIVE = ["--adaptive-bits-interval", "2", "--measure-quantization-error", "2"]
# Name: ranks and flags.
RUNS = {
    "schedule": (4, [*zpp.ALL_FEATURES, *STEPS, "--codec-schedule", json.dumps(SCHEDULE),
                     "--measure-quantization-error", "1"]),
    "one hop, small buckets": (4, [*zpp.ALL_FEATURES, *STEPS, "--reduce-scatter-algorithm", "1-hop",
                                   "--reduce-bucket-size", "6000",
                                   "--codec-schedule", json.dumps(SCHEDULE[:2])]),
    "feedback": (2, [*zpp.ALL_FEATURES[2:], *STEPS, "--error-feedback", "both",
                     "--codec-schedule", json.dumps(SCHEDULE[:2])]),
    "gradients": (4, [*zpp.ALL_FEATURES, *STEPS, *ADAPTIVE, "--adaptive-bits", "gradients",
                      "--adaptive-bits-budget-codec", "int5:64",
                      "--gradient-accumulation-steps", "2", "--bf16"]),
    "weights": (4, [*zpp.ALL_FEATURES, *STEPS, *ADAPTIVE, "--adaptive-bits", "weights", "--bf16"]),
    "weights without hpZ": (4, ["--node-size", "2", "--zero-quantized-weights", *STEPS, *ADAPTIVE,
                                "--adaptive-bits", "weights",
                                "--no-tied-head"]),
    "both kinds": (4, [*zpp.ALL_FEATURES, *STEPS, "--adaptive-bits", "gradients", "--adaptive-bits-budget-bytes", "64K",
                       "--codec-schedule", json.dumps(SCHEDULE[:1])]),
}
# Changes to entries of RUNS: what is changed, into what, and what the reason names.
CHANGES = [
    ("schedule", "codecs/weights", 0, "int4:64", "/codecs: (0, 0, 'int4:64'"),
    ("schedule", "codecs/step", -1, 4, "/codecs"),
    ("gradients", "adaptive_bits/bytes", 3, 1, "sends 1 bytes, should be"),
    ("gradients", "adaptive_bits/error", 3, float("nan"), "the error of unit 0"),
    ("gradients", "adaptive_bits/chosen", slice(0, 7), 1, "not exactly one width"),
    ("weights", "adaptive_bits/step", 0, 1, "not exactly a row"),
    ("weights", "codecs/unit", 0, 1, "/codecs"),
    ("weights", "adaptive_bits/budget_bytes", None, 7, "budget_bytes is 7, should be"),
]


class CodecSchedule(zpp.TestCase):
    def test_traces(self):
        paths = {}
        for name, (ranks, words) in RUNS.items():
            with self.subTest(name):
                out = self.folder / name.replace(" ", "_")
                self.check_ok(self.train(ranks, *words, out=out))
                paths[name] = out / "train.h5"
        judged = zpp.check_trace(*paths.values())
        self.assertEqual((judged.code, judged.stdout.count(": VALID\n")), (zpp.OK, len(RUNS)), judged)
        self.check_schedule(zpp.read_trace(paths["schedule"])[1])
        for name in ("gradients", "weights", "weights without hpZ", "both kinds"):
            self.check_budget(paths[name])
        self.check_tampering(paths, CHANGES)

    def check_schedule(self, groups):
        """By hand: units are the embedding, two blocks and the head."""
        rows = groups["codecs"]
        self.assertEqual(list(zip(rows["step"], rows["unit"])), [(0, 0), (0, 1), (0, 2), (0, 3), (2, 2), (2, 3), (3, 0),
                                                                 (3, 1), (3, 2), (3, 3)])
        self.assertEqual(rows["weights"], ["int6:64"] * 4 + ["int4:64"] * 2 + ["int6:64"] * 2 + ["int4:64"] * 2)
        self.assertEqual(rows["gradients_intra"], ["int4:128"] * 4 + ["int8:128"] * 2 + ["int4:128"] * 2
                         + ["int8:128"] * 2)
        self.assertEqual(rows["gradients_inter"], ["int4:128"] * 6 + ["fp8e4m3:128"] * 4)
        # Weights are gathered by the evaluations, which come first.
        inside, across = (groups["steps"][f"bytes_{link}_node"] for link in ("intra", "inter"))
        self.assertEqual(inside[0], inside[1])
        self.assertLess(inside[1], inside[2])
        self.assertEqual(across[1], across[2])
        self.assertLess(across[2], across[3])

    def check_budget(self, path):
        groups = zpp.read_trace(path)[1]
        with h5py.File(path, "r") as file:
            budget = int(file["adaptive_bits"].attrs["budget_bytes"])
        rows = groups["adaptive_bits"]
        steps = sorted(set(rows["step"]))
        self.assertGreater(len(steps), 0)
        for step in steps:
            sent = sum(size for at, size, chosen in zip(rows["step"], rows["bytes"], rows["chosen"])
                       if at == step and chosen)
            self.assertLessEqual(sent, budget)
            self.assertGreater(sent, budget / 2)

    def test_refusals(self):
        for words, parts in (
                (["--codec-schedule", "seven"], ("--codec-schedule", "must be a JSON array")),
                (["--codec-schedule", '[{"units": ["blok"], "weight_codec": "int4:64"}]'],
                 ("zeropp.codec_schedule[0].units", "blok", "embedding, block, head")),
                (["--codec-schedule", '[{"from_step": 3, "weight_codec": "int4:64"}]', "--train-iters", "3"],
                 ("from_step", "never comes")),
                (["--adaptive-bits", "gradients", "--adaptive-bits-budget-bytes", "1000"],
                 ("zeropp.adaptive_bits", "2 bits everywhere", "budget of 1000")),
                (["--adaptive-bits", "weights", "--weight-codec", "int8:64"], ("zeropp.weight_codec", "no effect"))):
            with self.subTest(words):
                self.check_fails(self.train(2, *zpp.ALL_FEATURES[2:], *words), zpp.USAGE, *parts)

    def test_converge(self):
        """Runs the example, then does again what is missing, with the same result."""
        def run():
            return self.check_ok(zpp.run(4, [CONVERGE, "--config", MATRIX, "--output", self.out], cwd=self.folder))
        self.assertIn(" 12 runs, 12 to be done", run().stdout)
        judged = zpp.check_trace(self.out / "converge.h5")
        self.assertEqual((judged.code, judged.stdout), (zpp.OK, "VALID\n"), judged)
        first = zpp.read_trace(self.out / "converge.h5")[1]
        settings = dict(zip(first["settings"]["name"], range(6)))
        codecs = first["settings"]["gradient_codec_intra"]
        self.assertEqual(codecs[settings["int8, then int4"]], "schedule")
        self.assertEqual(codecs[settings["adaptive"]], "adaptive")
        bits = first["settings"]["gradient_bits"]
        four, eight = bits[settings["gradients int4:128"]], bits[settings["gradients int8:128"]]
        self.assertAlmostEqual(bits[settings["int8, then int4"]], (10 * eight + 20 * four) / 30)
        self.assertEqual(bits[settings["adaptive"]], four)
        self.assertNotEqual(bits[settings["int8 outside of blocks"]], bits[settings["int8 outside of blocks"]])  # NaN
        kept = sorted((self.out / "runs").iterdir())
        for path in kept:
            if "adaptive" in path.name or "then" in path.name:
                path.unlink()
        (self.out / "converge.h5").unlink()
        self.assertIn(" 12 runs, 4 to be done", run().stdout)
        again = zpp.read_trace(self.out / "converge.h5")[1]
        for column in ("parameters_hash", "final_held_out_loss", "bytes_inter_node"):
            self.assertEqual(again["runs"][column], first["runs"][column], column)


if __name__ == "__main__":
    zpp.main()
