# ctest: name=plan_savings_command timeout=60 labels=cli
"""zpp_plan savings: its table and call against closed forms written out here, as text and JSON, and what it refuses."""

import json

import zpp
from zpp_validate.forms import wire

PLAN = zpp.BIN / "zpp_plan"


class PlanSavings(zpp.TestCase):
    def call(self, *words):
        """(what it printed, its JSON)."""
        path = self.folder / "savings.json"
        done = self.check_ok(zpp.Process([PLAN, "savings", *words, "--json", path]).end())
        return done.stdout, json.loads(path.read_text())

    def test_table(self):
        text, made = self.call("--table")
        for row, bits in zip(made["rows"], (8, 6, 4), strict=True):
            value = bits / 8 + 2 / 64
            wanted = {"codec": f"int{bits}:64", "bytes_per_value": value, "scale_overhead": 2 / (8 * bits),
                      "bytes_per_step": 2 * value,
                      "reduction_fp32": 4 / value, "reduction_16bit": 2 / value}
            self.assertEqual(list(row), sorted(wanted))
            self.assertEqual(row.pop("codec"), wanted.pop("codec"))
            for name, number in wanted.items():
                self.assertAlmostEqual(row[name], number, msg=name)
            self.assertIn(f"{2 * value:.4f}", text)

    def test_call(self):
        parameters, ranks = 1_234_567_891, 96
        text, made = self.call("--model-params", parameters, "--world-size", ranks, "--baseline", "fp32",
                               "--weight-codec", "int6:64")
        image = lambda codec: (ranks - 1) * wire.wire_bytes(codec, -(-parameters // ranks), 4)
        plain, sent = 2 * image("none"), image("int6:64") + image("int4:128")
        for name, value in (("baseline_gb", plain / 1e9), ("zero_plusplus_gb", sent / 1e9),
                            ("reduction_factor", plain / sent),
                            ("savings_percent", 100 * (1 - sent / plain))):
            self.assertAlmostEqual(made[name], value, places=9, msg=name)
        self.assertIn(f"{plain / sent:.4f}x", text)
        self.assertEqual(made["config"]["passes"], "once")

    def test_weight_differences(self):
        """3 M of ZeRO-3 become 0.5 M and its scales; and so on for another codec of differences."""
        call = ["--model-params", "18e9", "--world-size", "64", "--baseline", "bf16", "--passes", "zero3", "--hpz",
                "--weight-differences"]
        for words, bits, block in (([], 4, 128), (["--weight-difference-codec", "int3:64"], 3, 64)):
            _, made = self.call(*call, *words)
            weights = 2 * 18e9 * 63 / 64 / 1e9
            sent = ((bits / 8 + 2 / block) + (4 / 8 + 2 / 128)) / 2 * weights
            self.assertAlmostEqual(made["baseline_gb"], 3 * weights, places=4)
            self.assertAlmostEqual(made["zero_plusplus_gb"], sent, places=3)
            self.assertTrue(made["config"]["weight_differences"])
            self.assertNotIn("weight_codec", made["config"])

    def test_differences_without_loss(self):
        """3 M of ZeRO-3 become as many bits per weight as are assumed, and the gradients."""
        call = ["--model-params", "18e9", "--world-size", "64", "--baseline", "bf16", "--passes", "zero3", "--hpz",
                "--weight-differences", "--gradient-codec", "int8:256"]
        for bits in (3, 6.5):
            _, made = self.call(*call, "--exact-planned-bits", bits)
            self.assertAlmostEqual(made["zero_plusplus_gb"],
                                   (bits / 8 + (1 + 2 / 256)) * 18e9 * 63 / 64 / 1e9, places=3)

    def test_refusals(self):
        call = ["--model-params", "18e9", "--world-size", "8"]
        for words, part in (([], "--model-params is missing"), (call, "--baseline is missing"),
                            ([*call, "--baseline", "fp64"], "fp64"),
                            ([*call, "--baseline", "fp32", "--hpz"], "hpz has no effect"),
                            ([*call, "--baseline", "bf16", "--passes", "zero3", "--weight-differences"],
                             "count with hpz"),
                            ([*call, "--baseline", "bf16", "--weight-differences", "--weight-codec", "int8"],
                             "--no-weight-differences"),
                            ([*call, "--baseline", "bf16", "--weight-difference-codec", "int3"],
                             "--weight-differences"),
                            ([*call, "--baseline", "bf16", "--exact-planned-bits", "6"], "--weight-differences"),
                            ([*call, "--baseline", "fp32", "--weight-differences", "--exact-planned-bits", "6"],
                             "the baseline bf16 or fp16"), (["--table", "--hpz"], "--hpz"),
                            (["--table", "--codec", "int9"], "int9"), ([*call, "--baseline", "fp32", "--codec", "int8"],
                                                                       "--codec"), (["--table", "--output", self.out],
                                                                                    "--output")):
            with self.subTest(words):
                self.check_fails(zpp.Process([PLAN, "savings", *words]).end(), zpp.USAGE, part, program="zpp_plan")


if __name__ == "__main__":
    zpp.main()
