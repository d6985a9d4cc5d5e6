# ctest: name=python_savings timeout=60 labels=cli
"""The Python module `zeropp`: its savings call and table against closed forms written out here and the published table,
and its refusals."""

import json
import os
import pathlib
import random
import sys

PATHS = {name: pathlib.Path(os.environ[f"ZEROPP_{name}"]) for name in ("BIN", "SOURCE")}
sys.path.insert(0, str(PATHS["BIN"].parent / "python"))
import zpp
from zpp_validate.forms import wire

try:
    import zeropp
except ModuleNotFoundError as error:
    print(f"skipped: this build has no Python module: {error}")
    sys.exit(zpp.SKIPPED)

BASELINES = {"fp32": 4, "bf16": 2, "fp16": 2}
CODECS = ("none", "bf16", "int8:64", "int6:64", "int4:128+had32", "int3:32+asym", "mxfp4", "nvfp4")


def expected(parameters, ranks, weights, gradients, hpz, baseline, passes):
    """Ranks send one image of a part to each other, in each pass."""
    image = lambda codec: (ranks - 1) * wire.wire_bytes(codec, -(-parameters // ranks), BASELINES[baseline])
    gathers = {"once": 1, "zero3": 2}[passes]
    plain = (gathers + 1) * image("none")
    sent = (gathers - hpz) * image(weights) + image(gradients)
    return {"baseline_gb": plain / 1e9, "zero_plusplus_gb": sent / 1e9, "reduction_factor": plain / sent,
            "savings_percent": 100 * (1 - sent / plain)}


def canonical(codec):
    return {"mxfp4": "mxfp4:32", "nvfp4": "nvfp4:16"}.get(codec, codec)


class PythonSavings(zpp.TestCase):
    def test_published_table(self):
        published = json.loads((PATHS["SOURCE"]
                                / "validation/published/zeropp.json").read_text())["nexus_savings_table"]
        figures = published["bytes_per_parameter_and_step"]
        rows = zeropp.savings_table()
        self.assertEqual([row["codec"] for row in rows], ["int8:64", "int6:64", "int4:64"])
        self.assertEqual(round(rows[0]["bytes_per_step"], 2), figures["int8_block64_fp16_scales"])
        self.assertEqual(rows[0]["bytes_per_step"] * rows[0]["reduction_fp32"], figures["zero3_fp32"])
        self.assertEqual(round(rows[0]["reduction_fp32"], 1), 3.9)
        for bits, row in zip((8, 6, 4), rows):
            self.assertAlmostEqual(row["bytes_per_step"], 2 * (bits / 8 + 2 / 64))
            self.assertAlmostEqual(row["scale_overhead"], 2 / (8 * bits))
            self.assertAlmostEqual(row["reduction_fp32"], 2 * row["reduction_16bit"])

    def test_call_is_the_closed_form(self):
        draw = random.Random(2306)
        for _ in range(200):
            parameters, ranks, hpz = draw.randint(1, 10**draw.randint(1, 12)), draw.randint(2,
                                                                                            5000), draw.random() < 0.5
            weights, gradients, baseline = draw.choice(CODECS), draw.choice(CODECS), draw.choice(list(BASELINES))
            passes = "zero3" if hpz else draw.choice(("once", "zero3"))
            with self.subTest((parameters, ranks, weights, gradients, hpz, baseline, passes)):
                found = zeropp.savings(parameters, ranks, {"weight_codec": weights, "gradient_codec": gradients,
                                                           "hpz": hpz},
                                       baseline=baseline, passes=passes)
                wanted = expected(parameters, ranks, canonical(weights), canonical(gradients), hpz, baseline, passes)
                self.assertEqual(list(found), list(wanted))
                for name, value in wanted.items():
                    self.assertAlmostEqual(found[name], value, delta=1e-9 * abs(value) + 1e-12, msg=name)

    def cli(self, *words):
        """The JSON of zpp_plan savings."""
        path = self.folder / "savings.json"
        self.check_ok(zpp.Process([PATHS["BIN"] / "zpp_plan", "savings", *words, "--json", path]).end())
        return json.loads(path.read_text())

    def test_command_line_says_the_same(self):
        self.assertEqual(self.cli("--table", "--codec", "int8:256,nvfp4")["rows"],
                         zeropp.savings_table(["int8:256", "nvfp4"]))
        made = self.cli("--model-params", "18e9", "--world-size", "384", "--baseline", "bf16", "--passes", "zero3",
                        "--hpz",
                        "--gradient-codec", "int6:64")
        found = zeropp.savings(18e9, 384, {"gradient_codec": "int6:64", "hpz": True}, baseline="bf16", passes="zero3")
        self.assertEqual({name: made[name] for name in found}, found)

    def test_weight_differences(self):
        config = {"hpz": True, "weight_differences": True, "weight_difference_codec": "int3:64"}
        found = zeropp.savings(18e9, 384, config, baseline="bf16", passes="zero3")
        self.assertAlmostEqual(found["reduction_factor"], 6 / (3 / 8 + 2 / 64 + 0.5 + 2 / 128), places=4)

    def test_defaults_and_texts(self):
        found = zeropp.savings(18e9, 384, baseline="fp16", passes="zero3")
        self.assertAlmostEqual(found["reduction_factor"], 6 / (2 * (1 + 2 / 256) + 0.5 + 2 / 128), places=4)
        for text in (zeropp.__doc__, zeropp.savings.__doc__, zeropp.savings_table.__doc__):
            self.assertGreater(len(text), 50)

    def test_refusals(self):
        for error, words, options in ((ValueError, (18e9, 1), {"baseline": "fp32"}),
                                      (ValueError, (1.5, 8), {"baseline": "fp32"}),
                                      (ValueError, (float("nan"), 8), {"baseline": "fp32"}), (TypeError, (18e9, 8), {}),
                                      (ValueError, (18e9, 8), {"baseline": "fp64"}),
                                      (ValueError, (18e9, 8), {"baseline": "fp32", "passes": "twice"}),
                                      (ValueError, (18e9, 8, {"weight_codec": "int9"}), {"baseline": "fp32"}),
                                      (ValueError, (18e9, 8, {"weigth_codec": "int8"}), {"baseline": "fp32"}),
                                      (ValueError, (18e9, 8, {"hpz": True}), {"baseline": "fp32"}),
                                      (TypeError, (18e9, 8, {"hpz": 1}), {"baseline": "fp32", "passes": "zero3"}),
                                      (TypeError, (18e9, 8, {"weight_differences": 1}), {"baseline": "fp32"}),
                                      (ValueError, (18e9, 8, {"weight_differences": True}),
                                       {"baseline": "fp32", "passes": "zero3"}),
                                      (ValueError, (18e9, 8, {"weight_differences": True, "weight_codec": "int8"}),
                                       {"baseline": "bf16"}),
                                      (ValueError, (18e9, 8, {"weight_difference_codec": "int3"}),
                                       {"baseline": "bf16"}),
                                      (ValueError, (18e9, 8, {"weight_difference_codec": "int3",
                                                              "weight_differences": False}), {"baseline": "bf16"}),
                                      (TypeError, (18e9, 8, {"weight_codec": 8}), {"baseline": "fp32"}),
                                      (TypeError, (18e9, 8, {"gradient_codec": None}), {"baseline": "fp32"}),
                                      (TypeError, ("18e9", 8), {"baseline": "fp32"}),
                                      (TypeError, (18e9, None), {"baseline": "fp32"}),
                                      (TypeError, (18e9, 8, "int8"), {"baseline": "fp32"}),
                                      (TypeError, (18e9, 8), {"baseline": 4}),
                                      (TypeError, (18e9, 8), {"baseline": "fp32", "passes": 2}),
                                      (TypeError, (18e9, 8, {3: "int8"}), {"baseline": "fp32"})):
            with self.subTest((words, options)), self.assertRaises(error) as refused:
                zeropp.savings(*words, **options)
            self.assertNotIn("\n", str(refused.exception))

    def test_a_missing_baseline_is_named(self):
        with self.assertRaisesRegex(TypeError, "needs baseline=.*'fp32', 'bf16' or 'fp16'"):
            zeropp.savings(18e9, 384, {"weight_codec": "int8:256"})


if __name__ == "__main__":
    zpp.main()
