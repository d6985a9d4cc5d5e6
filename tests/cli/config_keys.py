# ctest: name=config_keys timeout=180 labels=cli processors=2
"""No key of a DeepSpeed configuration is ignored in silence. Walks the table that zpp_info prints: of a key that works two values give two
effective configurations (contract9_options_matrix shows that options have their effects), a value that is accepted gives one warning, and one
that is refused gives exit code 2 with the reason. And README has the same table."""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "tests" / "support"))
import zpp

# What a key needs beside it to be in effect, and two values of it.
STAGE_3 = {"zero_optimization": {"overlap_comm": True}}
FP16 = {"fp16": {"enabled": True}}
QUANTIZED = {"zero_optimization": {"zero_quantized_weights": True, "zero_quantized_gradients": True}}
SAVING = {"zeropp": {"checkpoint": {"save": "kept"}}}


def scheduler(kind, **params):
    return {"scheduler": {"type": kind, "params": {"total_num_steps": 9, **params} if kind != "WarmupLR" else params}}


WORKS = {
    "zero_optimization.stage": ({}, 1, 2),
    "zero_optimization.zero_quantized_weights": ({}, True, False),
    "zero_optimization.zero_hpz_partition_size": ({}, 1, 2),
    "zero_optimization.zero_quantized_gradients": ({}, True, False),
    "zero_optimization.reduce_bucket_size": ({}, 5e8, "auto"),
    "zero_optimization.stage3_prefetch_bucket_size": (STAGE_3, 1000, "auto"),
    "zero_optimization.stage3_max_live_parameters": (STAGE_3, 1e9, 0),
    "zero_optimization.overlap_comm": ({}, True, False),
    "bf16.enabled": ({}, True, "auto"),
    "fp16.enabled": ({}, True, "auto"),
    "fp16.loss_scale": (FP16, 64, 128),
    "fp16.initial_scale_power": (FP16, 8, 9),
    "fp16.loss_scale_window": (FP16, 100, 200),
    "fp16.hysteresis": (FP16, 1, 3),
    "fp16.consecutive_hysteresis": (FP16, True, False),
    "fp16.min_loss_scale": (FP16, 1, 2),
    "optimizer.type": ({}, "AdamW", "SGD"),
    "optimizer.params.lr": ({}, 0.5, "auto"),
    "optimizer.params.betas.0": ({}, 0.8, 0.7),
    "optimizer.params.betas.1": ({}, 0.8, 0.7),
    "optimizer.params.eps": ({}, 1e-6, "auto"),
    "optimizer.params.weight_decay": ({}, 0.1, "auto"),
    "optimizer.params.momentum": ({"optimizer": {"type": "SGD"}}, 0.9, 0.8),
    "optimizer.params.nesterov": ({"optimizer": {"type": "SGD", "params": {"momentum": 0.9}}}, True, False),
    "gradient_clipping": ({}, 1.0, "auto"),
    "scheduler.type": ({}, "constant", "WarmupLR"),
    "scheduler.params.warmup_min_lr": (scheduler("WarmupLR"), 1e-5, 1e-4),
    "scheduler.params.warmup_max_lr": (scheduler("WarmupDecayLR"), 0.25, "auto"),
    "scheduler.params.warmup_num_steps": (scheduler("WarmupLR"), 7, "auto"),
    "scheduler.params.warmup_type": (scheduler("WarmupLR"), "log", "linear"),
    "scheduler.params.total_num_steps": (scheduler("WarmupDecayLR"), 77, "auto"),
    "scheduler.params.warmup_min_ratio": (scheduler("WarmupCosineLR"), 0.1, 0.2),
    "scheduler.params.cos_min_ratio": (scheduler("WarmupCosineLR"), 0.1, 0.2),
    "train_batch_size": ({}, 4, "auto"),
    "train_micro_batch_size_per_gpu": ({}, 4, "auto"),
    "gradient_accumulation_steps": ({}, 4, "auto"),
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": (SAVING, True, "auto"),
    "steps_per_print": ({}, 2000, 5),
    "optimizer.params.adam_w_mode": ({}, True, False),
    "zero_optimization.zeropp_loco_param": (QUANTIZED, {"err_beta": 0.8, "reset_T": 1024}, None),
    "zeropp.quantize_weights": ({}, True, False),
    "zeropp.quantize_gradients": ({}, True, False),
    "zeropp.secondary_group_size": ({}, 1, 2),
    "zeropp.hierarchical_partition": ({}, True, False),
    "zeropp.weight_quantization_bits": (QUANTIZED, 6, 4),
    "zeropp.gradient_quantization_bits": (QUANTIZED, 6, 4),
    "zeropp.block_size": (QUANTIZED, 64, 512),
    "zeropp.use_error_feedback": (QUANTIZED, True, False),
}
SAMPLES = {"boolean": [True, False], "integer": [3], "number": [0.5], "text": ["x"], "section": [{"enabled": True, "any": 1}]}


def put(document, path, value):
    """A copy of the document with the key; of betas, both."""
    copy = json.loads(json.dumps(document))
    at = copy
    *sections, last = path.split(".")
    if last in "01" and sections[-1] == "betas":
        last, sections, value = "betas", sections[:-1], [value, 0.9] if last == "0" else [0.9, value]
    for section in sections:
        at = at.setdefault(section, {})
    at[last] = value
    return copy


class Keys(zpp.TestCase):
    @classmethod
    def setUpClass(cls):
        result = zpp.Process([zpp.INFO, "--config-keys"]).end()
        assert (result.code, result.stderr) == (zpp.OK, ""), result
        cls.table = result.stdout
        cls.rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in cls.table.splitlines()[2:]]
        cls.rows = [(row[0].strip("`"), *row[1:]) for row in cls.rows]

    def info(self, numbered):
        index, document = numbered
        config, summary = self.write_json(f"{index}.json", document), self.folder / f"summary-{index}.json"
        command = [zpp.INFO, "--config", config, "--json", summary]
        needs_ranks = any(key in json.dumps(document) for key in ("hpz", "secondary", "hierarchical"))
        result = (zpp.launch([(2, command)], cwd=self.folder) if needs_ranks else zpp.Process(command, cwd=self.folder)).end()
        return result, json.loads(summary.read_text())["configuration"] if summary.exists() else None

    def values(self, row):
        """Of a key that is no option: values that are accepted, and values that are refused."""
        key, standing, kind = row[:3]
        if standing == "accepted":
            return SAMPLES[kind], []
        if standing == "refused":
            return [], SAMPLES[kind]
        if standing == "accepted where disabled; else refused":
            return [{"enabled": False}, False], [{"enabled": True}]
        listed = re.fullmatch(r"accepted: (.*); else refused", standing)
        self.assertTrue(listed, (key, standing))
        accepted = [json.loads(value) for value in re.findall("`(.*?)`", listed[1])]
        return accepted, [value for value in (True, False, 2.5, "cpu", {"a": 1}) if value not in accepted]

    def test_every_key_is_in_the_table_once_with_its_meaning(self):
        keys = [row[0] for row in self.rows]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertGreater(len(keys), 130)
        for row in self.rows:
            self.assertEqual(len(row), 5, row)
            self.assertTrue(row[1] and row[2] and row[4], row)
        self.assertEqual([row[0] for row in self.rows if row[1] == "works"], list(WORKS))

    def test_two_values_of_what_works_are_two_configurations(self):
        cases = [put(base, key, value) for key, (base, *values) in WORKS.items() for value in values]
        results = list(zpp.side_by_side(self.info, enumerate(cases)))
        for i, key in enumerate(WORKS):
            with self.subTest(key=key):
                configurations = []
                for result, configuration in results[2 * i:2 * i + 2]:
                    self.assertEqual((result.code, result.stderr), (zpp.OK, ""), result)
                    self.assertNotIn("auto", json.dumps({name: configuration[name] for name in configuration if name != "zeropp"}))
                    configurations.append(configuration)
                self.assertNotEqual(*configurations)

    def test_what_is_accepted_gives_one_warning(self):
        """All keys in one file, and again with their other values."""
        accepted = {row[0]: self.values(row)[0] for row in self.rows if row[1].startswith("accepted")}
        self.assertGreater(len(accepted), 80)
        for turn in range(max(map(len, accepted.values()))):
            document = {}
            for key, values in accepted.items():
                document = put(document, key, values[turn % len(values)])
            result, _ = self.info((turn, document))
            self.assertEqual(result.code, zpp.OK, result)
            lines = [line for line in result.stderr.splitlines() if line.startswith("zpp_info: warning: ")]
            self.assertEqual(len(lines), len(accepted), result)
            for key in accepted:
                self.assertEqual(sum(f": {key} changes nothing here: " in line for line in lines), 1, key)

    def test_what_is_refused_ends_with_the_reason(self):
        cases = [(row, value) for row in self.rows if row[1] != "works" for value in self.values(row)[1][:1]]
        self.assertGreater(len(cases), 50)
        results = zpp.side_by_side(self.info, enumerate(put({}, row[0], value) for row, value in cases))
        for (row, value), (result, _) in zip(cases, results):
            with self.subTest(key=row[0], value=value):
                self.assertEqual((result.code, len(result.errors("zpp_info"))), (zpp.USAGE, 1), result)
                self.assertIn(f"{row[0]} {json.dumps(value, separators=(',', ':'))} is refused: {row[4]}; ", result.errors("zpp_info")[0])
                self.assertNotIn("warning", result.stderr)

    def test_readme_has_the_same_table(self):
        text = (zpp.SOURCE / "README.md").read_text()
        found = re.search(r"<!-- zpp_info --config-keys -->\n\n(.*?)\n<!-- end -->", text, re.DOTALL)
        self.assertTrue(found, "README.md has no markers")
        self.assertEqual(found[1], self.table, "put what zpp_info --config-keys prints between the markers")


if __name__ == "__main__":
    zpp.main()
