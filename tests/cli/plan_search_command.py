# ctest: name=plan_search_command labels=cli timeout=300
"""zpp_plan search with what the user has decided: what is searched, what is left out and what it says of that, its rows
beside their configurations alone, and what it refuses."""

import json
import re

import planned
import zpp
from planned import MODEL, Program

LARGER = ["--num-layers", "12", "--hidden-size", "1024", "--num-attention-heads", "16"]


class Searches(Program):
    def rows(self, plan):
        table = plan["candidates"]
        return [dict(zip(table, values)) for values in zip(*table.values())]

    def test_search(self):
        result, plan = self.planned("search", *MODEL, "--nodes", "1,2", "--ranks-per-node", "2",
                                    "--global-batch-size", "16", "--minimum-weight-bits", "4")
        rows = self.rows(plan)
        self.assertEqual({row["nodes"] for row in rows}, {1, 2})
        self.assertIn("the best of each number of nodes", result.stdout)
        first = next(row for row in rows if row["nodes"] == 2)
        self.assertIn(f"the first encodes weights ({first['weight_codec']})", result.stdout)
        self.assertIn(f"gradients ({first['gradient_codecs']}), which may cost held-out loss:\n"
                      "docs/howto/safe-compression.md has what was measured", result.stdout)
        wide, same = self.planned("search", *MODEL, "--nodes", "1,2", "--ranks-per-node", "2",
                                  "--global-batch-size", "16", "--minimum-weight-bits", "4", "--wide")
        self.assertEqual(self.rows(same), rows)
        heads = [[line for line in text.splitlines() if "shards over" in line] for text in (result.stdout, wide.stdout)]
        self.assertFalse(any("reduce-scatter" in head for head in heads[0]), heads[0])
        self.assertTrue(all("reduce-scatter" in head and "inside" in head for head in heads[1]), heads[1])
        tables = [line for line in result.stdout.splitlines() if "  " in line]
        self.assertLessEqual(max(map(len, tables)), 120)
        exact, _ = self.planned("search", *MODEL, "--nodes", "1,2", "--minimum-weight-bits", "16",
                                "--minimum-gradient-bits", "16", "--no-weight-differences")
        self.assertNotIn("safe-compression", exact.stdout)
        across = [row["bytes_inter_node"] for row in rows if row["nodes"] == 2]
        self.assertEqual(across, sorted(across))
        # Weights are gathered once per step at stage 1; at stage 3 with hpZ also inside the nodes, which is more there.
        self.assertEqual({row["stage"] for row in rows if row["bytes_inter_node"] == across[0]}, {1})

    def test_goal_memory(self):
        _, plan = self.planned("search", *MODEL, "--ranks-per-node", "4", "--goal", "memory", "--rows", "3")
        memory = [row["memory"] for row in self.rows(plan)]
        self.assertEqual(memory, sorted(memory))

    def test_a_deepspeed_file_may_keep_weights_gathered(self):
        words = ["--nodes", "2", "--ranks-per-node", "2", "--rows", "1", "--shard-group-size", "0",
                 "--deepspeed_config"]
        least = {}
        for distance in (0, 1000000000):
            path = self.write_json("ds.json", {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 3,
                                               "bf16": {"enabled": True},
                                               "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1,
                                                                     "stage3_max_reuse_distance": distance}})
            _, plan = self.planned("search", *MODEL, *words, path)
            least[distance] = min(plan["candidates"]["bytes_inter_node"])
        self.assertLess(least[1000000000], least[0])

    def test_search_has_rows_of_hybrid_sharding(self):
        """Over several ranks of several nodes, each with the numbers of its configuration alone; none where what was
        decided rules them out."""
        for nodes, ranks, *words in ((2, 2), (1, 2), (2, 1), (2, 2, "--zero-stage", "2"),
                                     (2, 2, "--zero-hpz-partition-size", "2"),
                                     (2, 2, "--shard-group-size", "0")):
            with self.subTest(nodes=nodes, ranks=ranks, words=words):
                job = [*LARGER, "--vocab-size", "512", "--bf16", "--nodes", nodes, "--ranks-per-node", ranks]
                cluster = ["--cluster", zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"]
                result, plan = self.planned("search", *job, *cluster, "--goal", "time", "--rows", "10000", *words)
                rows = [dict(zip(plan["candidates"], row)) for row in zip(*plan["candidates"].values())]
                hybrids = [row for row in rows if row["shard_group_size"]]
                self.assertEqual(bool(hybrids), (nodes, ranks, *words) == (2, 2))
                self.assertEqual(bool(re.search(r"\n +3 +2 +none ", result.stdout)), bool(hybrids))
                for row in hybrids[:3]:
                    codecs = row["gradient_codecs"].split("/")
                    flags = [] if codecs == ["none"] else ["--zero-quantized-gradients", "--gradient-codec-intra",
                                                           codecs[0], "--gradient-codec-inter", codecs[1]]
                    flags += ["--shard-group-size", "2"] + ["--recompute-activations"] * row["recompute"]
                    _, alone = self.planned("time", *job, *cluster, *flags)
                    self.assertEqual(alone["time"]["step_seconds"], row["seconds"])
                    _, alone = self.planned("estimate", *job, *flags)
                    self.assertEqual(alone["job"]["memory_bytes"], row["memory"])
                    self.assertEqual(planned.traffic(alone)["step"][1], row["bytes_inter_node"])
        _, plan = self.planned("search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--shard-group-size", "2")
        self.assertEqual(set(plan["candidates"]["shard_group_size"]), {2})
        self.assertGreater(len(set(plan["candidates"]["weight_codec"])), 1)
        job = ["search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--shard-group-size"]
        _, plan = self.planned(*job, "4")
        self.assertEqual(plan["candidates"], self.planned(*job, "0")[1]["candidates"])  # one group of all

    def test_search_says_why_no_shard_group_is_possible(self):
        self.refused("search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--shard-group-size", "3",
                     parts=("zeropp.shard_group_size: 3 has to divide the 2 ranks of a node", "choose 2 or 4"))

    def test_an_error_of_all_configurations_is_the_users(self):
        """The search prints the error that estimate prints, not that the space has no configurations."""
        job = [*MODEL, "--nodes", "4", "--ranks-per-node", "2"]
        for words, part in ((["--data-source", "llmc", "--data-path", "nowhere"], "data"),
                            (["--global-batch-size", "7"], "train_batch_size"),
                            (["--fp16"], "two precisions"),
                            (["--lr-decay-style", "nothing"], "--lr-decay-style"),
                            (["--load-weights", "nowhere"], "--load-weights would have no effect"),
                            (["--load", "nowhere"], "--load would have no effect")):
            with self.subTest(words):
                alone, searched = (self.plan(command, *job, *words, "--output", self.out)
                                   for command in ("estimate", "search"))
                self.assertEqual(searched.code, alone.code)
                self.assertIn(searched.code, (zpp.USAGE, zpp.IO))
                self.assertIn(part, searched.stderr)
                if "--global-batch-size" not in words:  # a candidate has micro-steps of its own
                    self.assertEqual(searched.errors("zpp_plan")[-1], re.sub(r" \(flags?: [^)]*\)$", "",
                                                                           alone.errors("zpp_plan")[-1]))
                self.assertNotIn("possible", searched.stderr)

    def test_evaluations_before_every_step_are_not_searched(self):
        job = [*MODEL, "--nodes", "2", "--ranks-per-node", "2"]
        self.refused("search", *job, "--eval-interval", "1", parts=("zeropp.evaluation_interval 1", "leave it out"))
        rows = self.rows(self.planned("search", *job, "--eval-interval", "2")[1])
        self.assertEqual(rows, self.rows(self.planned("search", *job)[1]))

    def test_what_is_given_is_not_searched(self):
        _, plan = self.planned("search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--zero-stage", "3",
                               "--zero-quantized-weights", "--weight-codec", "int5:64", "--no-zero-quantized-gradients",
                               "--zero-hpz-partition-size", "2", "--no-recompute-activations",
                               "--micro-batch-size", "2",
                               "--all-gather-algorithm", "two-level")
        rows = self.rows(plan)
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual((row["stage"], row["weight_codec"], row["gradient_codecs"], row["hpz_partition_size"],
                              row["recompute"], row["micro_batch"], row["all_gather"]),
                             (3, "int5:64", "none", 2, 0, 2, "two-level"))

    def test_weight_differences(self):
        """They are searched over unless a flag decides, in their own codec, and a limit of bits counts whole weights
        alone."""
        words = ["search", *MODEL, "--nodes", "2", "--ranks-per-node", "2"]

        def searched(*more, bits=8):
            return self.rows(self.planned(*words, "--minimum-weight-bits", bits, *more)[1])

        def codecs(rows):
            return {(row["weight_difference_codec"], row["weight_codec"]) for row in rows}
        rows = searched("--shard-group-size", 0)
        self.assertEqual({row["weight_difference_codec"] for row in rows}, {"none", "int4:128"})
        self.assertEqual(rows[0]["weight_difference_codec"], "int4:128")
        for stage, size in ((1, 1), (2, 1), (3, 2)):
            found = searched("--zero-stage", stage, "--weight-differences")
            self.assertEqual({row["hpz_partition_size"] for row in found}, {size}, stage)
        self.assertEqual({row["weight_difference_codec"] for row in searched("--no-weight-differences")}, {"none"})
        self.assertEqual(codecs(searched("--weight-differences")), {("int4:128", "int8:256")})
        given = searched("--weight-difference-codec", "int3:64", "--weight-codec", "int5:64",
                         "--zero-quantized-weights", bits=5)
        self.assertEqual(codecs(given), {("int3:64", "int5:64"), ("none", "int5:64")})
        self.assertTrue(all(row["weight_bits"] == 5.25 for row in given))
        result, _ = self.planned(*words, "--weight-differences", "--weight-copy-dtype", "fp32")
        self.assertRegex(result.stdout, r"\n +3 +all +int8:256 +int4:128 +2 ")

    def test_weights_in_few_bits_are_left_out_unless_asked_for(self):
        words = ["search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--rows", "10000"]

        def codecs(*more):
            return {row["weight_codec"] for row in self.rows(self.planned(*words, *more)[1])}
        self.assertEqual(codecs(), {"none", "int8:256"})
        self.assertEqual(codecs("--minimum-weight-bits", "8"), codecs())
        self.assertIn("int4:256", codecs("--minimum-weight-bits", "4"))
        self.assertEqual(codecs("--zero-quantized-weights"), {"int8:256"})
        self.assertIn("int4:64", codecs("--weight-codec", "int4:64"))
        self.assertIn("int4:64", codecs("--config", self.write_json("codec.json", {"zeropp": {
            "weight_codec": "int4:64"}})))
        self.assertEqual(codecs("--weight-codec", "int4:64", "--minimum-weight-bits", "8"), {"none"})
        for more, bits in (([], 8), (["--weight-codec", "int4:64"], 0), (["--minimum-weight-bits", "6"], 6)):
            self.planned(*words, *more)
            config = json.loads(zpp.read_trace(self.out / "plan.h5")[0]["config_json"])
            self.assertEqual(config["plan"]["minimum_weight_bits"], bits)

    def test_minimum_bits_and_memory_limit(self):
        _, plan = self.planned("search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--minimum-weight-bits", "7",
                               "--minimum-gradient-bits", "16", "--memory-limit", "1")
        for row in self.rows(plan):
            self.assertGreaterEqual(row["weight_bits"], 7)
            self.assertGreaterEqual(row["gradient_bits"], 16)
            self.assertLessEqual(row["memory"], 2**30)

    def test_nothing_fits(self):
        result = self.plan("search", *MODEL, "--memory-limit", "0.0001", "--output", self.out)
        self.assertEqual(result.code, zpp.ENVIRONMENT, result)
        self.assertEqual(len(result.errors("zpp_plan")), 1, result)
        self.assertEqual(zpp.read_trace(self.out / "plan.h5")[0]["verdict"], "INVALID: no configuration fits")

    def test_minima_of_bits_are_named_where_lower_ones_need_less(self):
        """Else they are not what is in the way."""
        def least(*words):
            return min(row["memory"] for row in self.rows(self.planned("search", *MODEL, *words)[1]))

        bits = "--minimum-gradient-bits"
        named = []
        for words, minima in (([], "--minimum-weight-bits (8)"),
                              (["--zero-stage", "3", bits, "16"], f"--minimum-weight-bits (8) and {bits} (16)"),
                              (["--no-zero-quantized-weights", bits, "4"], ""),
                              (["--zero-stage", "3", "--weight-codec", "int4:64"], "")):
            result = self.plan("search", *MODEL, *words, "--memory-limit", "0.0001", "--output", self.out)
            (error,) = result.errors("zpp_plan")
            others = words[:words.index(bits)] if bits in words else words
            lower = least(*others, bits, "0", "--minimum-weight-bits", "0") < least(*words)
            named.append(lower)
            if lower:
                self.assertIn(f"raise --memory-limit, lower {minima}, take more nodes", error)
            else:
                self.assertIn("raise --memory-limit, take more nodes", error)
        self.assertEqual(set(named), {True, False})

    def test_times_of_several_numbers_of_nodes(self):
        clusters = zpp.SOURCE / "inputs" / "clusters"
        words = ["search", *MODEL, "--nodes", "1,2", "--goal", "time", "--cluster"]
        fast, slow = (min(row["seconds"] for row in self.rows(self.planned(*words, clusters / "h200-dgx.json",
                                                                           *more)[1]) if row["nodes"] == 2)
                      for more in ([], ["--rail-gb-per-s", "3"]))
        self.assertLess(fast, slow)
        result = self.plan(*words, clusters / "h200-4x-node.json", "--output", self.out)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertIn("2 nodes are planned, and the cluster '4 H200 of one node' is of one", result.stderr)

    def test_goal_time(self):
        cluster = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"
        words = [*MODEL, "--nodes", "2", "--goal", "time", "--all-gather-algorithm", "two-level"]
        without_host = zpp.SOURCE / "inputs" / "clusters" / "v100-24x16.json"
        self.refused("search", *words, "--cluster", without_host, "--offload-optimizer", "cpu",
                     parts=("offload_optimizer", "section host"))
        _, offloaded = self.planned("search", *words, "--cluster", cluster, "--offload-optimizer", "cpu")
        result, plan = self.planned("search", *words, "--cluster", cluster)
        self.assertIn("2 nodes x 8 ranks", result.stdout)
        seconds = [row["seconds"] for row in self.rows(plan)]
        self.assertGreater(seconds[0], 0)
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreater(min(row["seconds"] for row in self.rows(offloaded)), seconds[0])

    def test_rows_are_what_their_configurations_alone_are(self):
        """Bytes, memory and seconds, to the last digit; with sizes that a file leaves open, and more micro-steps than
        are planned."""
        zero = {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                "stage3_param_persistence_threshold": "auto"}
        config = self.write_json("config.json", {"bf16": {"enabled": True}, "zero_optimization": {"stage": 3, **zero}})
        words = ["--config", config, *MODEL[:-1], "--nodes", "2", "--cluster", zpp.SOURCE / "inputs" / "clusters"
                 / "h200-dgx.json",
                 "--backend", "cuda", "--global-batch-size", "96", "--micro-batch-size", "1"]
        _, plan = self.planned("search", *words, "--zero-quantized-gradients", "--goal", "time",
                               "--all-gather-algorithm", "two-level")
        rows = {(row["weight_difference_codec"], row["hpz_partition_size"]): row for row in self.rows(plan)}
        self.assertEqual(sorted(rows), [("int4:128", 8), *(("none", size) for size in (1, 2, 4, 8, 16))])
        for row in rows.values():
            quantized = [] if row["weight_codec"] == "none" else ["--zero-quantized-weights",
                                                                  "--weight-codec", row["weight_codec"]]
            if row["weight_difference_codec"] != "none":
                quantized += ["--weight-differences", "--weight-difference-codec", row["weight_difference_codec"]]
            intra, inter = row["gradient_codecs"].split("/")
            alone = [*words, *quantized, "--zero-quantized-gradients", "--gradient-codec-intra", intra,
                     "--gradient-codec-inter", inter,
                     "--zero-hpz-partition-size", row["hpz_partition_size"],
                     "--all-gather-algorithm", row["all_gather"],
                     "--reduce-scatter-algorithm", row["reduce_scatter"],
                     *["--recompute-activations"] * row["recompute"]]
            _, timed = self.planned("time", *alone)
            self.assertEqual(timed["time"]["step_seconds"], row["seconds"], row)
            at = alone.index("--cluster")
            _, sent = self.planned(*alone[:at], *alone[at + 2:], "--ranks-per-node", "8")
            self.assertEqual(planned.traffic(sent)["step"], (row["bytes_intra_node"], row["bytes_inter_node"]), row)
            self.assertEqual(sent["job"]["memory_bytes"], row["memory"], row)

    def test_a_search_counts_the_way_to_a_copy_on_the_host(self):
        """Over a slow link the fastest has no copy there, though in one node it sends more and holds no less."""
        cluster = json.loads((zpp.SOURCE / "inputs/clusters/h200-dgx.json").read_text())
        cluster["host"] = {**cluster.get("host", {}), "link_gb_per_s": 1.0, "memory_gb_per_s": 200.0}
        words = ["--cluster", self.write_json("slow.json", cluster), "--nodes", "1", *LARGER, "--bf16",
                 "--zero-stage", "3", "--goal", "time"]
        _, found = self.planned("search", *words, "--no-zero-quantized-weights", "--hpz-device", "cpu")
        fastest = min(self.rows(found), key=lambda row: row["seconds"])
        _, without = self.planned("search", *words, "--no-zero-quantized-weights", "--zero-hpz-partition-size", "1")
        self.assertEqual(fastest["hpz_partition_size"], 1)
        self.assertEqual(fastest["seconds"], min(row["seconds"] for row in self.rows(without)))

    def test_lanes_as_training_takes_them(self):
        """A file with rates of several lanes is of sockets."""
        words = (*MODEL, "--nodes", 2, "--backend", "cuda", "--transport", "nccl")
        for cluster, ranks, lanes in (("h200-2x1-emulated", 1, 8), ("h200-2x2-emulated", 2, 4), ("h200-dgx", 2, 1)):
            file = zpp.SOURCE / "inputs" / "clusters" / f"{cluster}.json"
            _, plan = self.planned("time", *words, "--ranks-per-node", ranks, "--cluster", file)
            self.assertEqual(json.loads(plan["config_json"])["zeropp"]["rail_lanes"], lanes, cluster)

    def test_refusals(self):
        self.refused("search", *MODEL, "--goal", "time", parts=("--goal time", "--cluster"))
        self.refused("search", *MODEL, "--rail-gb-per-s", "3", parts=("--rail-gb-per-s", "--cluster"))
        on_cluster = [*MODEL, "--gpu", "h100", "--rail-gb-per-s", "3", "--nodes"]
        for command in ("search", "time", "compare", "breakeven"):
            self.refused(command, *on_cluster, "1", parts=("--rail-gb-per-s", "one node is planned", "with 2 or more"))
        for nodes in ("", "0", "1,", "1,x", "-2", "1 2"):
            with self.subTest(nodes=nodes):
                self.assertEqual(self.plan("search", *MODEL, f"--nodes={nodes}").code, zpp.USAGE)
        self.refused("search", *MODEL, "--goal", "beauty", parts=("--goal", "bytes"))
        self.refused("search", *MODEL, "--step", "3", parts=("--step", "zpp_plan estimate, ", "have it"))
        for command in ([], ["estimate"], ["time"]):
            with self.subTest(command=command):
                self.refused(*command, *MODEL, "--goal", "time", parts=("--goal (zpp_plan search has it)",))
                self.refused(*command, *MODEL, "--memory-limit", "80",
                             parts=("--memory-limit (zpp_plan compare, zpp_plan search have it)",))
                self.refused(*command, *MODEL, "--nodes", "2,4", parts=("zpp_plan search takes several numbers",))
                self.refused(*command, *MODEL, "--nodes", "two", parts=('not "two"',))
        self.refused("--table", parts=("--table (zpp_plan savings has it)",))
        self.refused("search", *MODEL, "--weight-differences", "--no-zero-quantized-weights",
                     parts=("zeropp.weight_differences", "no effect"))
        self.refused("search", *MODEL, "--no-weight-differences", "--weight-difference-codec", "int3:128",
                     parts=("zeropp.weight_difference_codec", "no effect"))
        for words, path in ((["--hpz-device", "cpu"], "zeropp.hpz_device"),
                            (["--max-reuse-distance", "5"], "stage3_max_reuse_distance")):
            for command in ("search", "estimate"):
                self.refused(command, *MODEL, *words, "--zero-stage", "2", parts=(path, "no effect"))
        self.refused("search", *MODEL, "--hpz-device", "cpu", "--zero-hpz-partition-size", "1",
                     parts=("zeropp.hpz_device", "no effect"))
        self.refused("search", *MODEL, "--measure-quantization-error", "1",
                     parts=("zeropp.measure_quantization_error", "not searched"))
        # An option that some stage, size of hpZ or codec of the space gives an effect is taken.
        self.check_ok(self.plan("search", *MODEL, "--hpz-device", "cpu", "--max-reuse-distance", "5",
                                "--output", self.out))


zpp.main()
