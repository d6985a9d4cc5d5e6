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
            wanted = {"codec": f"int{bits}:64", "bytes_per_value": value, "scale_overhead": 2 / (8 * bits), "bytes_per_step": 2 * value,
                      "reduction_fp32": 4 / value, "reduction_16bit": 2 / value}
            self.assertEqual(list(row), sorted(wanted))
            self.assertEqual(row.pop("codec"), wanted.pop("codec"))
            for name, number in wanted.items():
                self.assertAlmostEqual(row[name], number, msg=name)
            self.assertIn(f"{2 * value:.4f}", text)

    def test_call(self):
        parameters, ranks = 1_234_567_891, 96
        text, made = self.call("--model-params", parameters, "--world-size", ranks, "--baseline", "fp32", "--weight-codec", "int6:64")
        image = lambda codec: (ranks - 1) * wire.wire_bytes(codec, -(-parameters // ranks), 4)
        plain, sent = 2 * image("none"), image("int6:64") + image("int4:128")
        for name, value in (("baseline_gb", plain / 1e9), ("zero_plusplus_gb", sent / 1e9), ("reduction_factor", plain / sent),
                            ("savings_percent", 100 * (1 - sent / plain))):
            self.assertAlmostEqual(made[name], value, places=9, msg=name)
        self.assertIn(f"{plain / sent:.4f}x", text)
        self.assertEqual(made["config"]["passes"], "once")

    def test_refusals(self):
        call = ["--model-params", "18e9", "--world-size", "8"]
        for words, part in (([], "--model-params is missing"), (call, "--baseline is missing"), ([*call, "--baseline", "fp64"], "fp64"),
                            ([*call, "--baseline", "fp32", "--hpz"], "hpz has no effect"), (["--table", "--hpz"], "--hpz"),
                            (["--table", "--codec", "int9"], "int9"), ([*call, "--baseline", "fp32", "--codec", "int8"], "--codec"), (["--table", "--output", self.out], "--output")):
            with self.subTest(words):
                self.check_fails(zpp.Process([PLAN, "savings", *words]).end(), zpp.USAGE, part, program="zpp_plan")


if __name__ == "__main__":
    zpp.main()
