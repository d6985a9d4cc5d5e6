# ctest: name=plan_compare_models timeout=300 labels=cli processors=2
"""zpp_plan compare of four public models on two clusters sends, row by row, the bytes that follow from the number of
parameters alone, and holds what the numbers of bytes per parameter and rank make."""

import json
import pathlib

import planned
import zpp

MODELS = json.loads((pathlib.Path(__file__).parent / "hf_models.json").read_text())
NAMES = ["llama3_1_8b", "llama3_1_70b", "Mistral-Small-24B-Base-2501", "Qwen3-30B-A3B"]
GPUS = 8
CLUSTERS = {  # nodes, and flags
    "4 x 8 A100, 2 x 100 Gb/s": (4, ["--gpu", "a100", "--node-gbit", "200", "--node-links", "2"]),
    "3 x 8 L40S, 25 Gb/s": (3, ["--gpu", "l40s", "--node-gbit", "25"])}
JOB = ["--bf16", "--seq-length", "4096", "--micro-batch-size", "1", "--recompute-activations", "--gpus-per-node", GPUS]
PLAIN, INT8, INT4, EXACT = 2, 1 + 2 / 256, 0.5 + 2 / 128, 6.5 / 8 + 1 / 256  # a value, and its part of a scale
# Bytes that cross nodes for each parameter: gathers of weights, and reductions of gradients.
CROSSING = {"none": (2 * PLAIN, PLAIN), "qwZ": (2 * INT8, PLAIN), "hpZ": (PLAIN, PLAIN), "qgZ": (2 * PLAIN, INT4),
            "qwZ+qgZ": (2 * INT8, INT4), "hpZ+qgZ": (PLAIN, INT4), "all": (INT8, INT4),
            "all+differences": (INT4, INT4), "hpZ+exact": (EXACT, PLAIN), "hpZ+qgZ+exact": (EXACT, INT4),
            "hpZ+qgZ+exact+int8": (EXACT, INT8),
            "hybrid": (PLAIN, PLAIN), "hybrid+qgZ": (INT4, INT4), "stage 2": (PLAIN, PLAIN),
            "stage 1": (PLAIN, PLAIN)}
PADDING = 2e-3  # of units to whole blocks for all ranks


class Compared(planned.Program):
    known = {}

    def rows(self, name, nodes, flags):
        """{feature: row}, compared once."""
        if (name, nodes) not in self.known:
            self.known[name, nodes] = self.compared(name, nodes, flags)
        return self.known[name, nodes]

    def compared(self, name, nodes, flags):
        path = self.folder / "told.json"
        config = self.write_json("config.json", MODELS[name]["config"])
        result = self.plan("compare", *JOB, "--nodes", nodes, *flags, "--hf-config", config, "--output", self.out,
                           "--json", path)
        self.assertEqual(result.code, zpp.OK, result)
        table = json.loads(path.read_text())["comparison"]
        return {feature: {column: values[index] for column, values in table.items()}
                for index, feature in enumerate(table["feature"])}

    def test_bytes_follow_from_the_parameters(self):
        for name in NAMES:
            parameters = MODELS[name]["parameters"]
            for cluster, (nodes, flags) in CLUSTERS.items():
                rows = self.rows(name, nodes, flags)
                self.assertLessEqual(set(CROSSING) - {"stage 1", "stage 2"}, set(rows))
                for feature, row in rows.items():
                    with self.subTest(model=name, cluster=cluster, row=feature):
                        by_hand = sum(CROSSING[feature]) * parameters * (nodes - 1) / nodes
                        self.assertAlmostEqual(row["bytes_out_of_node"] / by_hand, 1, delta=PADDING)

    def test_a_step_is_no_shorter_than_its_bytes_and_operations(self):
        """At 92 % of the links' rates, and at the peak of the GPU, which nothing reaches."""
        peaks = {"a100": 312e12, "l40s": 362e12}
        for name in NAMES:
            for cluster, (nodes, flags) in CLUSTERS.items():
                for feature, row in self.rows(name, nodes, flags).items():
                    with self.subTest(model=name, cluster=cluster, row=feature):
                        links = float(flags[3]) / 8 * 1e9 * 0.92
                        self.assertGreater(row["step_seconds"], 0.999 * row["bytes_out_of_node"] / links)
        config = MODELS["llama3_1_70b"]["config"]
        weights = MODELS["llama3_1_70b"]["parameters"] - config["vocab_size"] * config["hidden_size"]
        row = self.rows("llama3_1_70b", *CLUSTERS["4 x 8 A100, 2 x 100 Gb/s"])["none"]
        self.assertGreater(row["step_seconds"], 8 * weights * 4096 / peaks["a100"])

    def test_state_is_that_of_its_bytes_per_parameter(self):
        """At stage 3 in bf16 a rank has 16 bytes of each parameter of its shard; hybrid sharding has the shards of a
        node, and stages 1 and 2 have all weights."""
        for name in NAMES:
            nodes, flags = CLUSTERS["4 x 8 A100, 2 x 100 Gb/s"]
            parameters, rows = MODELS[name]["parameters"], self.rows(name, nodes, flags)
            world = nodes * GPUS
            more = rows["hybrid"]["memory"] - rows["none"]["memory"]
            self.assertAlmostEqual(more / (16 * parameters * (1 / GPUS - 1 / world)), 1, delta=0.2)
            least = (2 + 14 / world) * parameters  # activations and what is on its way not counted
            if least > 85e9:
                self.assertNotIn("stage 2", rows, name)
            if 2 * least < 85e9:
                self.assertIn("stage 2", rows, name)


if __name__ == "__main__":
    zpp.main()
