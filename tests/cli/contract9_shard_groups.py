# ctest: name=contract9_shard_groups cuda=mpi,nccl labels=cli timeout=240 processors=4
"""Shard groups (MiCS, hybrid sharding), asked for by each of their names: the trace shows that groups gathered and
summed as asked, it is valid, and what has no meaning is refused with one line that names the reason."""

import json
import unittest

import planned
import zpp

zpp.skip_without_gpus(4)
QGZ = ["--zero-quantized-gradients", "--gradient-codec-intra", "int8:128", "--gradient-codec-inter", "int4:128"]


class ShardGroups(zpp.TestCase):
    def rows(self, *words, node_size=2):
        self.check_ok(self.train(4, "--train-iters", 2, "--gradient-accumulation-steps", 2, "--node-size", node_size,
                                 "--eval-interval", 1,
                                 *words))
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)
        root, groups = self.trace()
        columns = groups["collectives"]
        names = ("operation", "purpose", "algorithm", "codec", "group")
        found = {}
        for i, key in enumerate(zip(*(columns[name] for name in names))):
            before = found.get(key, (0, 0))
            found[key] = (before[0] + columns["calls"][i], before[1] + columns["wire_bytes_inter"][i])
        return root, groups, found

    def test_weights_stay_inside_and_gradients_cross_once_a_step(self):
        _, groups, rows = self.rows("--shard-group-size", 2, "--bf16")
        self.assertEqual({key[4] for key in rows}, {"shard", "replica"})
        self.assertEqual({key[1] for key, (_, inter) in rows.items() if inter}, {"gradients_across"})
        buckets = rows["reduce_scatter", "gradients", "flat", "none", "shard"][0] // 4
        self.assertEqual(rows["reduce_scatter", "gradients_across", "1-hop", "none", "replica"][0], 2 * buckets)
        self.assertEqual(rows["all_gather", "gradients_across", "direct", "bf16", "replica"][0], 2 * buckets)
        memory = dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))
        self.assertEqual(memory["master"], 4 * sum(groups["units"]["padded"]) // 2)

    def test_every_name_asks_for_the_same(self):
        config = self.folder / "mics.json"
        config.write_text(json.dumps({"zero_optimization": {"stage": 3, "mics_shard_size": 2}}))
        nodes = self.folder / "auto.json"
        nodes.write_text(json.dumps({"zeropp": {"shard_group_size": "auto"}}))
        hashes = {self.rows("--deterministic", *words)[0]["parameters_hash"]
                  for words in (["--shard-group-size", 2], ["--config", config], ["--config", nodes])}
        self.assertEqual(len(hashes), 1)

    def test_a_hierarchical_gather_inside_a_group_of_nodes(self):
        config = self.folder / "mics.json"
        config.write_text(json.dumps({"zero_optimization": {"mics_shard_size": 2,
                                                            "mics_hierarchical_params_gather": True}}))
        _, _, rows = self.rows("--config", config, node_size=1)
        self.assertIn(("all_gather", "weights", "two-level", "none", "shard"), rows)

    def test_codecs_and_error_feedback_across(self):
        plain = self.rows("--shard-group-size", 2, "--fp16", "--loss-scale", 256)[2]
        _, groups, rows = self.rows("--shard-group-size", 2, *QGZ, "--error-feedback", "both", "--fp16",
                                    "--loss-scale", 256)
        self.assertIn(("reduce_scatter", "gradients", "2-hop", "int8:128", "shard"), rows)
        across = {key: sent for key, (_, sent) in rows.items() if key[4] == "replica"}
        self.assertEqual({key[3] for key in across}, {"int4:128"})
        self.assertLess(sum(across.values()),
                        0.3 * sum(sent for key, (_, sent) in plain.items() if key[4] == "replica"))
        self.assertEqual({path for path, group in zip(groups["collectives"]["path"], groups["collectives"]["group"])
                          if group == "replica"},
                         {"feedback:inter"})

    @unittest.skipIf(zpp.BACKEND != "host", "memory of layers is planned for the host")
    def test_the_planner_knows_them(self):
        words = ["--shard-group-size", 2, *QGZ, "--error-feedback", "both", "--bf16", "--zero-quantized-weights"]
        for node_size in (1, 2, 4):
            self.check_ok(self.train(4, "--node-size", node_size, *words, "--json", self.folder / "run.json"))
            trace = json.loads((self.folder / "run.json").read_text())
            made = planned.plan(trace)
            with self.subTest(node_size=node_size):
                self.assertEqual(planned.wrong_steps(trace, made) + planned.wrong_collectives(trace, made)
                                 + planned.wrong_memory(trace, made), [])

    def test_what_has_no_meaning_is_refused(self):
        for words, reason in ((["--shard-group-size", 3], "shard_group_size"),
                              (["--shard-group-size", 1], "stage to 0"),
                              (["--shard-group-size", 2, "--zero-stage", 2], "zero_optimization.stage 3"),
                              (["--shard-group-size", 2, "--zero-hpz-partition-size", 2], "zero_hpz_partition_size"),
                              (["--shard-group-size", 2, "--measure-quantization-error", 1],
                               "measure_quantization_error")):
            with self.subTest(words=words):
                result = self.train(4, "--node-size", 2, *words)
                self.assertEqual(result.code, zpp.USAGE, result)
                self.assertIn(reason, result.stderr)
                self.assertEqual(len([line for line in result.stderr.splitlines() if "error:" in line]), 1, result)


if __name__ == "__main__":
    zpp.main()
