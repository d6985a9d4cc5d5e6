# ctest: name=torch_curve timeout=300 labels=oracle,torch processors=4
"""Training without compression has the loss curve of plain PyTorch: zpp-validate torch-curve trains again what
zpp_converge trained, with weights and data that it draws itself, and every loss agrees to fp32 rounding. A rate that is
off by a tenth is called different; other data are refused."""

import json
import shutil
import unittest.mock

import other_python

other_python.with_modules("torch", "numpy", "h5py", "scipy", "matplotlib")

import h5py
import numpy

import token_file_writer
import zpp
from zpp_validate.curves import curve_table, token_batches, torch_curve

STEPS, SEEDS = 20, [1, 2]
MATRIX = {
    "base": {
        "train_batch_size": 8, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.0033, "betas": [0.9, 0.95], "eps": 1e-8,
                                                  "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.0033,
                                                          "warmup_num_steps": 4,
                                                          "warmup_type": "linear", "total_num_steps": STEPS}},
        "zeropp": {"backend": "host", "train_steps": STEPS, "evaluation_interval": 8, "evaluation_batches": 5,
                   "model": {"name": "gpt", "num_layers": 2, "hidden_size": 48, "num_attention_heads": 3,
                             "seq_length": 24},
                   "data": {"source": "llmc", "vocab_size": 256}}},
    "seeds": SEEDS,
    "settings": [{"name": "plain", "level": "text"},
                 {"name": "int4", "level": "text", "baseline": "plain",
                  "config": {"zero_optimization": {"zero_quantized_weights": True}}}],
}


class TorchCurve(zpp.TestCase):
    def setUp(self):
        super().setUp()
        text = b"".join(page.read_bytes() for page in sorted((zpp.SOURCE / "docs" / "howto").glob("*.md")))
        self.data = self.folder / "ids"
        self.data.write_bytes(token_file_writer.llmc(list(text[:30000])))
        self.curves, self.compared = self.folder / "curves.json", self.folder / "compared"

    def refused(self, result, pattern):
        self.assertEqual((result.code, result.stdout), (zpp.USAGE, ""), result)
        self.assertRegex(result.stderr, rf"^{pattern}.*\n$")

    def converge(self, **changed):
        """A trace of the matrix, where these objects of its configuration get other members."""
        matrix = json.loads(json.dumps(MATRIX))
        for name, members in changed.items():
            base = matrix["base"]
            {"base": base, "zeropp": base["zeropp"], **base["zeropp"]}[name].update(members)
        matrix["base"]["zeropp"]["data"] |= {"path": str(self.data)}
        command = [str(zpp.BIN / "zpp_converge"), "--config", self.write_json("matrix.json", matrix),
                   "--output", self.out]
        shutil.rmtree(self.out, ignore_errors=True)
        self.check_ok(zpp.launch([(2, command)], cwd=self.folder, patient=True).end(timeout=250))
        return self.out / "converge.h5"

    def validate(self, *words):
        return zpp.Process([*zpp.VALIDATE, *words], env={"OMP_NUM_THREADS": "1"}).end(timeout=250)

    def torch_curve(self, trace, *words):
        return self.validate("torch-curve", trace, "--output", self.curves, "--device", "cpu", *words)

    def table(self, trace, *words):
        return self.validate("curve-table", trace, "--curves", self.curves, "--output", self.compared, *words)

    def largest_difference(self, trace):
        """Over all steps and evaluations of all seeds."""
        curves = {run["seed"]: run for run in json.loads(self.curves.read_text())["runs"]}
        self.assertEqual(sorted(curves), SEEDS)
        groups = zpp.read_trace(trace)[1]
        differences = []
        for number, (seed, setting) in enumerate(zip(groups["runs"]["seed"], groups["runs"]["setting"])):
            if groups["settings"]["name"][setting] != "plain":
                continue
            for group, theirs in (("steps", curves[seed]["losses"]),
                                  ("evaluations", [loss for _, loss in curves[seed]["evaluations"]])):
                own = [loss for run, loss in zip(groups[group]["run"], groups[group]["loss"]) if run == number]
                self.assertEqual(len(own), len(theirs), group)
                differences.append(numpy.abs(numpy.subtract(own, theirs)).max())
        self.assertEqual(len(differences), 2 * len(SEEDS))
        return max(differences)

    def test_fp32(self):
        trace = self.converge()
        self.check_ok(self.torch_curve(trace))
        self.assertLess(self.largest_difference(trace), 2e-6)
        judged = self.check_ok(self.table(trace))
        self.assertIn("The verdict is **agree**", judged.stdout)
        self.assertEqual({file.name for file in self.compared.iterdir()}, {"table.md", "curves.png", "curves.svg"})
        self.assertIn("| seed |", (self.compared / "table.md").read_text())

    def test_untied_head_and_decay_of_all(self):
        trace = self.converge(model={"tied_head": False}, base={"gradient_clipping": 0.0},
                              data={"held_out_fraction": 0.1},
                              zeropp={"decayed_parameters": "all"})
        self.check_ok(self.torch_curve(trace))
        self.assertLess(self.largest_difference(trace), 2e-6)

    def test_llama(self):
        trace = self.converge(model={"name": "llama", "num_key_value_heads": 1, "head_dim": 12, "ffn_hidden_size": 80,
                                     "add_qkv_bias": True, "rope_theta": 500.0, "norm_eps": 1e-4})
        self.check_ok(self.torch_curve(trace))
        self.assertLess(self.largest_difference(trace), 2e-6)

    def test_bf16(self):
        """On the host weights are rounded, and activations are not."""
        trace = self.converge(base={"bf16": {"enabled": True}})
        self.check_ok(self.torch_curve(trace))
        self.assertLess(self.largest_difference(trace), 5e-4)
        self.check_ok(self.table(trace))

    def test_goes_on(self):
        trace = self.converge()
        self.check_ok(self.torch_curve(trace))
        whole = json.loads(self.curves.read_text())
        whole["runs"][0]["losses"][0] = 1.0
        kept = whole | {"runs": whole["runs"][:1]}
        self.curves.write_text(json.dumps(kept))
        again = self.check_ok(self.torch_curve(trace))
        self.assertEqual([line.split(",")[0] for line in again.stdout.splitlines()], ["2 of 2: seed 2"])
        runs = json.loads(self.curves.read_text())["runs"]
        self.assertEqual((runs[0], runs[1]["losses"]), (kept["runs"][0], whole["runs"][1]["losses"]))
        self.refused(self.torch_curve(trace, "--setting", "int4"),
                     "zpp-validate torch-curve: error: 0 of its uncompressed settings .plain. are meant")

    def planted(self, trace, change):
        """A copy of the trace whose configurations were changed."""
        copy = self.folder / "planted.h5"
        shutil.copy(trace, copy)
        with h5py.File(copy, "r+") as file:
            column = file["settings/config_json"]
            values = []
            for text in column[()]:
                config = json.loads(text)
                change(config)
                values.append(json.dumps(config, separators=(",", ":")))
            column[...] = numpy.array(values, column.dtype)
        return copy

    def test_another_rate(self):
        def slower(config):
            config["scheduler"]["params"]["warmup_max_lr"] = 0.003

        trace = self.planted(self.converge(), slower)
        self.check_ok(self.torch_curve(trace))
        judged = self.table(trace)
        self.assertEqual(judged.code, zpp.INVALID, judged)
        self.assertRegex(judged.stdout, r"The verdict is \*\*differ\*\*: seed 1 is more than 0.0001 nats away within "
                         r"the first 10 steps")
        self.refused(self.table(self.out / "converge.h5"),
                     "zpp-validate curve-table: error: .* is of another setting or configuration than the traces")

    def test_other_data(self):
        trace = self.converge()
        ids = bytearray(self.data.read_bytes())
        ids[-2:] = b"z\0" if ids[-2:] != b"z\0" else b"y\0"  # the last token
        self.data.write_bytes(ids)
        self.refused(self.torch_curve(trace), "zpp-validate torch-curve: error: .* is not the data of the trace")

        copy = self.folder / "seeds.h5"
        shutil.copy(trace, copy)
        with h5py.File(copy, "r+") as file:
            file["runs/seed"][...] += 1
        self.refused(self.torch_curve(copy),
                     "zpp-validate torch-curve: error: .* with seed 2 is not the data of the trace")

    def test_another_order(self):
        """Another order of the same sequences changes no hash; the losses show it."""
        trace = self.converge()
        with unittest.mock.patch.object(token_batches, "PURPOSE", 1):
            self.assertEqual(torch_curve.main([str(trace), "--output", str(self.curves), "--device", "cpu"]), 0)
        judged = self.table(trace)
        self.assertEqual(judged.code, zpp.INVALID, judged)
        self.assertIn("The verdict is **differ**: seed 1 is more than", judged.stdout)

    def test_rules(self):
        def verdict(differences, start=0.0):
            """The verdict on seeds whose losses spread by about 1."""
            seeds = [curve_table.Pair(seed, numpy.array([[5.0], [5.0 + start]]),
                                      numpy.array([[seed % 4], [seed % 4 + difference]]), [1])
                     for seed, difference in enumerate(differences)]
            return curve_table.judge(seeds, 10, 1e-4).verdict

        noise = [0.1, -0.1, 0.2, -0.2]
        for wanted, differences in (("agree", noise), ("agree", [value + 0.3 for value in noise]),
                                    ("undecided", [2.0, -2.0, 3.0, -3.0]),
                                    ("undecided", [0.1, 0.2]), ("undecided", [0.1]),
                                    ("differ", [value + 2 for value in noise]),
                                    ("differ", [float("nan"), 0.1, 0.1])):
            self.assertEqual(verdict(differences), wanted, differences)
        for start in (2e-4, -2e-4, float("nan")):
            self.assertEqual(verdict(noise, start), "differ")


if __name__ == "__main__":
    zpp.main()
