# ctest: name=plan labels=cli timeout=180
"""zpp_plan as a program: commands, flags that it takes and refuses, what it prints and leaves, a plan for GPUs on a
machine without any, and the search with what the user has decided."""

import json
import re

import planned
import zpp

MODEL = ["--num-layers", "4", "--hidden-size", "128", "--seq-length", "64", "--vocab-size", "512", "--bf16"]
LARGER = ["--num-layers", "12", "--hidden-size", "1024", "--num-attention-heads", "16"]
ZEROPP = ["--zero-quantized-weights", "--zero-hpz-partition-size", "4", "--zero-quantized-gradients"]


class Program(zpp.TestCase):
    def plan(self, *words):
        return zpp.Process([planned.PLAN, *words], cwd=self.folder).end()

    def planned(self, *words):
        """(result, JSON)"""
        result = self.check_ok(self.plan(*words, "--output", self.out, "--json", self.folder / "plan.json"))
        return result, json.loads((self.folder / "plan.json").read_text())

    def refused(self, *words, parts):
        return self.check_fails(self.plan(*words), zpp.USAGE, *parts, program="zpp_plan")


class Estimates(Program):
    def test_help_and_version(self):
        for words in (["--help"], ["estimate", "--help"], ["search", "--help"]):
            result = self.check_ok(self.plan(*words))
            for part in ("  search ", "--nodes", "--zero-stage", "--memory-limit" if "search" in words else "--step"):
                self.assertIn(part, result.stdout)
        self.assertTrue(self.check_ok(self.plan("--version")).stdout.startswith("zpp_plan "))

    def test_without_a_command_it_estimates(self):
        words = [*MODEL, *ZEROPP, "--nodes", "4", "--ranks-per-node", "4", "--backend", "cuda"]
        result, plan = self.planned(*words)
        named, same = self.planned("estimate", *words)
        self.assertEqual(result.stdout, named.stdout)
        self.assertEqual((plan["traffic"], plan["memory"]), (same["traffic"], same["memory"]))
        self.assertIn("4 nodes x 4 ranks, cuda over nccl", result.stdout)
        root, groups = zpp.read_trace(self.out / "plan.h5")
        self.assertEqual((root["app"], root["verdict"]), ("plan", "VALID"))
        self.assertEqual(groups["memory"]["bytes"], plan["memory"]["bytes"])
        self.assertEqual(groups["job"]["world_size"], 16)
        self.assertEqual(groups["job"]["memory_bytes"], sum(plan["memory"]["bytes"]))

    def test_what_is_offloaded_is_not_in_the_devices_memory(self):
        result, plan = self.planned(*MODEL, "--offload-optimizer", "cpu", "--offload-param", "cpu")
        self.assertIn("all that is not offloaded", result.stdout)
        parts = dict(zip(plan["memory"]["name"], plan["memory"]["bytes"]))
        there = {name: size for name, size in parts.items() if name.startswith("offloaded_")}
        self.assertEqual(sorted(there), ["offloaded_master", "offloaded_moments", "offloaded_staging",
                                         "offloaded_weights"])
        self.assertEqual(plan["job"]["memory_bytes"], sum(parts.values()) - sum(there.values()))
        self.assertEqual((parts["master"], parts["moments"], parts["compute_shard"]), (0, 0, 0))

    def test_hpz_on_the_host_is_not_in_the_devices_memory(self):
        words = [*MODEL, *ZEROPP, "--nodes", "4", "--ranks-per-node", "4"]
        parts, total = {}, {}
        for device in ("device", "cpu"):
            _, plan = self.planned(*words, "--hpz-device", device)
            self.assertEqual(zpp.check_trace(self.out / "plan.h5").code, zpp.OK, device)
            parts[device] = dict(zip(plan["memory"]["name"], plan["memory"]["bytes"]))
            total[device] = plan["job"]["memory_bytes"]
        copy = parts["device"]["secondary"]
        self.assertGreater(copy, 0)
        self.assertEqual((parts["cpu"]["secondary"], parts["cpu"]["offloaded_secondary"]), (0, copy))
        self.assertEqual(total["device"] - total["cpu"], copy)
        self.assertNotIn("offloaded_secondary", parts["device"])
        cluster = json.loads((zpp.SOURCE / "inputs/clusters/h200-dgx.json").read_text())
        cluster["gpu"]["memory_gib"] = (total["device"] + total["cpu"]) / 2 / 2**30
        small = self.write_json("small.json", cluster)
        for device, fits in (("device", False), ("cpu", True)):
            timed = self.plan("time", "--cluster", small, *words, "--hpz-device", device, "--output", self.out)
            self.assertEqual((timed.code, "this does not run there" not in timed.stderr), (zpp.OK, fits), timed)

    def test_hpz_on_the_host_fits_what_its_copy_does_not(self):
        """Of a search with hpZ's copy on the GPU nothing fits the least memory that one with the copy on the host
        needs."""
        words = ["search", *MODEL, "--nodes", "4", "--ranks-per-node", "4", "--zero-hpz-partition-size", "4",
                 "--zero-stage", "3"]
        least = {}
        for device in ("device", "cpu"):
            _, found = self.planned(*words, "--hpz-device", device, "--memory-limit", "10")
            least[device] = min(found["candidates"]["memory"])
        self.assertLess(least["cpu"], least["device"])
        limit = str(least["cpu"] / 2**30 * 1.000001)
        self.assertEqual(self.plan(*words, "--hpz-device", "device", "--memory-limit", limit).code, zpp.ENVIRONMENT)
        self.check_ok(self.plan(*words, "--hpz-device", "cpu", "--memory-limit", limit, "--output", self.out))

    def test_a_search_suggests_what_it_takes(self):
        """Each option that is suggested where nothing fits is taken beside the others, and leaves combinations that are
        possible."""
        words = ["search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--memory-limit", "1e-6"]
        every = {"--update-in-backward", "--moments bf16", "--offload-optimizer cpu", "--hpz-device cpu"}
        images = ["--zero-stage", "3", "--zero-quantized-weights", "--keep-weight-images"]
        cases = [([], set()), (["--zero-stage", "1"], {"--update-in-backward", "--hpz-device cpu"}),
                 (["--zero-stage", "2"], {"--hpz-device cpu"}),
                 (["--zero-hpz-partition-size", "1"], {"--hpz-device cpu"}),
                 (["--clip-grad", "1"], {"--update-in-backward"}),
                 (["--gradient-accumulation-steps", "2"], {"--update-in-backward"}),
                 (["--optimizer", "SGD"], {"--moments bf16"}),
                 (["--update-in-backward"], {"--update-in-backward", "--offload-optimizer cpu"}),
                 (images, {"--offload-optimizer cpu"})]
        for more, missing in cases:
            told = self.plan(*words, *more)
            self.assertEqual(told.code, zpp.ENVIRONMENT, told)
            found = re.search(r"what needs less memory \((.*); docs/howto/memory.md\)", told.stderr)
            self.assertIsNotNone(found, told)
            suggested = set(found.group(1).split(", "))
            self.assertEqual(suggested, (every | ({"--no-keep-weight-images"} if more is images else set())) - missing,
                             more)
            for option in suggested:
                with self.subTest(more=more, option=option):
                    kept = [word for word in more
                            if not (option == "--no-keep-weight-images" and word == "--keep-weight-images")]
                    self.assertGreater(self.planned(*words[:-2], *kept, *option.split())[1]["searches"]["possible"][0],
                                       0)

    def test_a_search_of_what_cannot_be_suggests_nothing(self):
        told = self.plan("search", *MODEL, "--nodes", "2", "--update-in-backward", "--clip-grad", "1")
        self.assertEqual(told.code, zpp.ENVIRONMENT, told)
        self.assertNotIn("needs less memory", told.stderr)

    def test_tables_of_images_are_planned(self):
        """Of kept ones and of those that units which persist send: as the checker derives them, and a search as an
        estimate."""
        words = [*MODEL, "--nodes", "2", "--ranks-per-node", "2", "--zero-stage", "3", "--zero-quantized-weights",
                 "--weight-codec", "int8:256",
                 "--no-zero-quantized-gradients", "--zero-hpz-partition-size", "1",
                 "--no-recompute-activations",
                 "--micro-batch-size", "1", "--all-gather-algorithm", "two-level",
                 "--reduce-scatter-algorithm", "2-hop"]
        for backend, *images in (("host", "--keep-weight-images"), ("cuda", "--keep-weight-images"),
                                 ("cuda", "--param-persistence-threshold", "1000000000000")):
            with self.subTest(backend=backend, images=images):
                _, plan = self.planned(*words, *images, "--backend", backend)
                self.assertEqual(zpp.check_trace(self.out / "plan.h5").code, zpp.OK)
                self.assertIn("weight_image_tables", plan["memory"]["name"])
                _, found = self.planned("search", *words, *images, "--backend", backend, "--shard-group-size", "0")
                own = [size for size, codec in zip(found["candidates"]["memory"], found["candidates"]["weight_codec"])
                       if codec == "int8:256"]
                self.assertEqual(own, [plan["job"]["memory_bytes"]])

    def test_the_limit_of_the_device(self):
        """zpp_train's own limit: one byte less than a rank needs is said, and leaves a search nothing."""
        words = [*MODEL, "--nodes", "2", "--ranks-per-node", "2", "--zero-stage", "3"]
        need = self.planned(*words)[1]["job"]["memory_bytes"]
        cluster = ["--cluster", zpp.SOURCE / "inputs/clusters/h200-dgx.json"]
        for command in ([], ["time", *cluster], ["breakeven", *cluster]):
            for limit, told in ((1 << 40, False), (need - 1, True)):
                result = self.plan(*command, *words, "--device-memory-limit", limit, "--output", self.out)
                self.assertEqual(result.code, zpp.OK, result)
                self.assertEqual(
                    f"bytes where zeropp.device_memory_limit is {limit}: zpp_train refuses this run" in result.stderr,
                    told, result)
        for more in ([], cluster):
            self.check_ok(self.plan("search", *words, *more, "--device-memory-limit", need, "--output", self.out))
            none = self.plan("search", *words, *more, "--device-memory-limit", "1K", "--output", self.out)
            self.assertEqual(none.code, zpp.ENVIRONMENT, none)
            self.assertIn("raise --memory-limit and --device-memory-limit", none.stderr)

    def test_no_rate_of_peer_stores(self):
        words = [*MODEL, "--nodes", "1", "--zero-quantized-gradients",
                 "--cluster", zpp.SOURCE / "inputs/clusters/h200-dgx.json", "--peer-stores"]
        told = {}
        for stores in ("off", "on"):
            result = self.plan("time", *words, stores, "--output", self.out)
            self.assertEqual(result.code, zpp.OK, result)
            told[stores] = result.stdout, [line for line in result.stderr.splitlines() if "peer stores" in line]
        self.assertEqual((told["on"][0], told["off"][1], len(told["on"][1])), (told["off"][0], [], 1), told)

    def test_copies_that_nobody_keeps_need_no_host(self):
        cluster = json.loads((zpp.SOURCE / "inputs/clusters/h200-dgx.json").read_text())
        del cluster["host"]
        words = ["--cluster", self.write_json("no-host.json", cluster), *MODEL, *ZEROPP, "--nodes", "2",
                 "--param-persistence-threshold"]
        self.refused("time", *words, "0", "--hpz-device", "cpu", parts=("zeropp.hpz_device cpu", "section host"))
        times = []
        for device in ("device", "cpu"):
            times.append(self.planned("time", *words, "1000000000", "--hpz-device", device)[1]["time"]["step_seconds"])
        self.assertEqual(*times)

    def test_weight_differences_are_planned_as_they_go_on(self):
        words = [*MODEL, *ZEROPP, "--nodes", "3", "--ranks-per-node", "4"]
        across = {}
        for name, more in (("whole", []), ("first", ["--weight-differences", "--step", "0"]),
                           ("later", ["--weight-differences"]),
                           ("refresh", ["--weight-differences", "--weight-refresh-interval", "5", "--step", "10"])):
            _, plan = self.planned(*words, *more)
            self.assertEqual(zpp.check_trace(self.out / "plan.h5").code, zpp.OK, name)
            sent = plan["collectives"]
            across[name] = sum(size for size, purpose in zip(sent["wire_bytes_inter"], sent["purpose"])
                               if purpose.startswith("weights"))
        self.assertEqual(across["first"], across["refresh"])
        self.assertEqual(across["first"], across["whole"])  # two-level sends as many
        self.assertAlmostEqual(across["later"] / across["first"], (64 + 2) / 128 / (258 / 256), delta=0.001)

    def test_weight_differences_below_stage_three_are_planned(self):
        words = [*MODEL, "--zero-quantized-weights", "--nodes", "3", "--ranks-per-node", "4", "--zero-stage", "2"]
        sent = {}
        for name, more in (("whole", []), ("differences", ["--weight-differences"]),
                           ("refresh", ["--weight-differences", "--weight-refresh-interval", "5", "--step", "4"])):
            _, plan = self.planned(*words, *more)
            self.assertEqual(zpp.check_trace(self.out / "plan.h5").code, zpp.OK, name)
            phases = plan["traffic"]
            sent[name] = dict(zip(phases["phase"], phases["bytes_inter_node"]))
        self.assertEqual(sent["refresh"], sent["whole"])
        self.assertEqual(sent["differences"]["initial"], sent["whole"]["update"])
        self.assertAlmostEqual(sent["differences"]["update"] / sent["whole"]["update"], (64 + 2) / 128 / (258 / 256),
                               delta=0.001)

    def test_moments_take_the_bytes_that_they_are_kept_in(self):
        def moments(*words):
            memory = self.planned(*MODEL, "--ranks-per-node", "3", *words)[1]["memory"]
            parts = dict(zip(memory["name"], memory["bytes"]))
            return parts["moments"] / parts["master"]
        self.assertEqual([moments("--moments", kind) for kind in ("fp32", "bf16", "int8")], [2, 1, 2 * 68 / 64 / 4])

    def test_moments_that_cannot_be_kept_so_are_refused(self):
        self.refused(*MODEL, "--moments", "int4", parts=("--moments", "fp32, bf16, int8"))
        self.refused(*MODEL, "--moments", "int8", "--optimizer", "SGD", parts=("zeropp.moments", "momentum above 0"))
        self.refused(*MODEL, "--moments", "int8", "--offload-optimizer", "cpu", "--sub-group-size", "1000",
                     parts=("zero_optimization.sub_group_size 1000", "use 1024"))

    def test_the_trainers_configuration_is_taken_as_it_is(self):
        config = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "zeropp": {"node_size": 2},
                  "zero_optimization": {"stage": 3, "zero_quantized_weights": True}}
        path = self.write_json("config.json", config)
        self.refused("--config", path, "--num-layers", "4", "--ranks-per-node", "4",
                     parts=("zeropp.node_size 2", "--ranks-per-node"))
        result, _ = self.planned("--config", path, "--nodes", "3", "--num-layers", "4")
        self.assertIn("3 nodes x 2 ranks", result.stdout)

    def test_what_resolve_refuses_is_refused(self):
        self.refused(*MODEL, "--zero-stage", "0", "--zero-quantized-weights", parts=("zero_quantized_weights", "stage"))
        self.refused(*MODEL, "--ranks-per-node", "4", "--zero-hpz-partition-size", "3",
                     parts=("zero_hpz_partition_size",))
        self.refused(*MODEL, "--zero-stagee", "3", parts=("--zero-stagee", "--zero-stage)"))
        self.refused("serach", parts=('"serach"', "nearest: search"))
        self.refused(*MODEL, "--nodes", "2000000000", "--ranks-per-node", "2000000000", parts=("ranks",))
        self.refused("--nodes", "0", parts=("--nodes",))

    def test_more_ranks_than_any_machine_has(self):
        result, plan = self.planned(*MODEL, *ZEROPP[:1], "--nodes", "4096", "--ranks-per-node", "8")
        self.assertIn("4096 nodes x 8 ranks", result.stdout)
        self.assertGreater(planned.traffic(plan)["step"][1], 0)


class Configurations(Program):
    """A configuration of DeepSpeed's in each command: what works, what changes nothing there and is said in a line,
    what is missing."""

    CLUSTER = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"

    def configuration(self, **zero):
        return self.write_json("ds_config.json", {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True},
                                                  "wall_clock_breakdown": False,
                                                  "zero_optimization": {"stage": 3, **zero}})

    def warned(self, *words):
        """(result, its warnings about what changes nothing or is missing)"""
        result = self.plan(*words, "--output", self.out)
        self.assertEqual(result.code, zpp.OK, result)
        lines = [line for line in result.stderr.splitlines() if "wall_clock_breakdown changes nothing" not in line]
        return result, [line.removeprefix("zpp_plan: warning: ") for line in lines]

    def test_its_flag_is_the_trainers(self):
        path = self.configuration(zero_hpz_partition_size=4)
        for command in ([], ["search"], ["time", "--cluster", self.CLUSTER], ["breakeven", "--cluster", self.CLUSTER],
                        ["savings"]):
            with self.subTest(command):
                self.assertIn("--deepspeed_config", self.check_ok(self.plan(*command, "--help-all")).stdout)
        result, warnings = self.warned("--deepspeed_config", path, *MODEL)
        self.assertEqual((result.stdout, warnings), (self.warned("--config", path, *MODEL)[0].stdout, []))

    def test_a_file_without_a_model(self):
        path = self.configuration()
        for command in ([], ["compare"], ["search"], ["time", "--cluster", self.CLUSTER],
                        ["breakeven", "--cluster", self.CLUSTER]):
            for words in ([], ["--config", path]):
                with self.subTest(command=command, words=words):
                    self.refused(*command, *words, parts=("no size of a model is given", "--model-preset",
                                                          "--hf-config", "--vocab-size"))

    def test_a_wrong_cluster_is_told_before_a_model_that_is_missing(self):
        path = self.configuration()
        for command in (["compare"], ["search"], ["time"], ["breakeven"]):
            with self.subTest(command):
                self.check_fails(self.plan(*command, "--config", path, "--cluster", "none.json"), zpp.IO, "none.json",
                                 program="zpp_plan")
                self.refused(*command, "--config", path, "--gpu", "h100", parts=("--node-gbit is missing",))
        for command in (["time"], ["breakeven"]):
            self.refused(*command, "--config", path, parts=("--cluster) is missing",))
        self.refused("search", "--goal", "time", parts=("--goal time needs a cluster",))

    def test_unknown_flags_name_the_planners(self):
        for other, flag in (("--fsdp", "--zero-stage"), ("--hybrid", "--shard-group-size"), ("--num-nodes", "--nodes"),
                            ("--gpus", "--ranks-per-node"), ("--model-size", "--model-preset")):
            self.refused("time", other, parts=(f"(nearest: {flag})",))

    def test_one_node_of_a_sold_gpu_needs_no_links(self):
        """Its times are those of one node of any such cluster, and say what binds the step and how much of it."""
        for words in (["--nodes", "2"], []):
            self.refused("time", *MODEL, "--gpu", "h200", *words, parts=("--node-gbit is missing", "plan one node"))
        self.refused("breakeven", *MODEL, "--gpu", "h200", "--nodes", "1",
                     parts=("breakeven tries rates between nodes",))
        job = [*MODEL, "--nodes", "1", "--gpu", "h200"]
        result, told = self.planned("time", *job)
        _, linked = self.planned("time", *job, "--node-gbit", "400")
        self.assertEqual(told["time"], {**linked["time"], "cluster": "8 x H200-SXM5-141GB as sold, one node"})
        self.assertRegex(result.stdout, r"\A1 node x 8 ranks on 8 x H200-SXM5-141GB as sold, one node\n")
        bound, share = re.search(r", bound by ([a-z ]+) \((\d+) % of the step\)\n", result.stdout).groups()
        self.assertEqual(bound, told["time"]["bound"])
        self.assertTrue(12 < int(share) <= 100, "the largest of eight parts")
        self.check_ok(self.plan("search", *job, "--output", self.out))

    def test_the_share_of_what_binds_a_step_is_of_the_step(self):
        """With an engine too that hides only a part of what it sends."""
        for cluster, *words in (("v100-24x16", "--fp16"), ("h200-dgx", "--bf16", "--micro-batch-size", "4")):
            result, told = self.planned("time", "--cluster", zpp.SOURCE / "inputs" / "clusters" / f"{cluster}.json",
                                        "--nodes", "2", "--model-preset", "gpt-7b", *words)
            share = re.search(r", bound by compute \((\d+) % of the step\)\n", result.stdout)[1]
            time = told["time"]
            self.assertEqual(int(share), round(100 * time["compute_seconds"] / time["step_seconds"]), cluster)

    def test_search_says_which_batch_it_plans(self):
        for words, said in (([], True), (["--micro-batch-size", "1"], False), (["--global-batch-size", "16"], False)):
            result = self.check_ok(self.plan("search", *MODEL, "--nodes", "2", *words, "--output", self.out))
            self.assertEqual("No batch is given, so a GPU trains 1 sequence of 64 tokens a micro-step: "
                             "--micro-batch-size or --global-batch-size" in result.stdout, said, words)

    def test_break_even_turns_the_parts_itself(self):
        words = ["breakeven", "--cluster", self.CLUSTER, *MODEL[:-1], "--nodes", "2"]
        self.refused(*words, "--zero-stage", "2", parts=("zero_optimization.stage 2", "--zero-stage 3"))
        without, warnings = self.warned(*words, "--config", self.configuration())
        self.assertEqual(warnings, [])
        given = self.configuration(zero_quantized_weights=True, zero_hpz_partition_size=4,
                                   zero_quantized_gradients=True)
        result, warnings = self.warned(*words, "--config", given)
        self.assertEqual(result.stdout, without.stdout)
        self.assertEqual(len(warnings), 1, warnings)
        for part in ("zero_quantized_weights, zero_optimization.zero_hpz_partition_size, "
                     "zero_optimization.zero_quantized_gradients",
                     "breakeven turns"):
            self.assertIn(part, warnings[0])

    def test_break_even_chooses_what_a_file_leaves_open(self):
        words = ["breakeven", "--cluster", self.CLUSTER, *MODEL[:-1], "--nodes", "2", "--config"]
        chosen = self.warned(*words, self.configuration(reduce_bucket_size="auto"))[0]
        self.assertEqual(chosen.stdout, self.warned(*words, self.configuration(reduce_bucket_size=128 * 128))[0].stdout)

    def test_break_even_says_always_and_never(self):
        large = ["--num-layers", "40", "--hidden-size", "12288", "--num-attention-heads", "96", "--seq-length", "2048",
                 "--bf16"]
        rows = {}
        for model in (large, MODEL):
            text = self.check_ok(self.plan("breakeven", "--cluster", self.CLUSTER, *model, "--nodes", "8",
                                           "--ranks-per-node", "8")).stdout
            self.assertNotIn(">=", text)
            rows |= {(model is large, line.split()[0]): line.split()[1:3] for line in text.splitlines()
                     if line.startswith(("none ", "all "))}
        self.assertEqual((rows[True, "none"], rows[True, "all"]), (["-", "-"], ["always", "always"]))

    def test_savings_leave_a_training_configuration_alone(self):
        words = ["savings", "--model-params", "18e9", "--world-size", "384", "--baseline", "bf16"]
        result = self.plan(*words, "--config", self.configuration(zero_quantized_weights=True))
        self.assertEqual((result.code, result.stdout), (zpp.OK, self.check_ok(self.plan(*words)).stdout), result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result)
        self.assertIn("bf16, train_micro_batch_size_per_gpu, wall_clock_breakdown, zero_optimization change nothing "
                      "here", result.stderr)
        self.refused(*words, "--config", self.write_json("other.json", {"tabel": True}),
                     parts=("unknown key tabel", "table"))

    def test_a_cluster_file_that_is_not_there(self):
        for command in (["time"], ["breakeven"], ["search", "--goal", "time"],
                        ["calibrate", "measured.json", "--calibrated", "made.json"]):
            with self.subTest(command):
                model = [] if command[0] == "calibrate" else MODEL
                error = self.check_fails(self.plan(*command, *model, "--cluster", "none.json"), zpp.IO,
                                         "cluster file none.json", "check --cluster",
                                         program="zpp_plan")
                self.assertNotIn("--config", error)


class Bounds(Program):
    """What nobody can run is refused before it is planned, and models of many layers are planned in time."""

    def bounded(self, *words):
        """Within 3 GB, and seconds of processor time where less than one is needed."""
        return zpp.Process(["bash", "-c", 'ulimit -v 3000000 -t 15; exec "$@"', "bounded", planned.PLAN, *words,
                            "--output", self.out]).end()

    def enough(self, result):
        """The bucket that the refusal names."""
        line = self.check_fails(result, zpp.USAGE, "reduce_bucket_size", "--reduce-bucket-size", "pieces",
                                program="zpp_plan")
        return line.split("--reduce-bucket-size to ")[1].split()[0]

    def test_buckets_that_cut_too_much(self):
        words = ["--num-layers", "24", "--hidden-size", "2048", "--reduce-bucket-size"]
        self.enough(self.bounded("search", "--nodes", "2", *words, "1"))
        self.check_ok(self.bounded(*words, self.enough(self.bounded(*words, "1"))))

    def test_models_beyond_any_machine(self):
        words = ["--vocab-size", "2147483647", "--hidden-size", "1000000", "--num-layers", "1000"]
        enough = self.enough(self.bounded(*words))
        self.check_ok(self.bounded(*words, "--reduce-bucket-size", enough))

    def test_many_layers(self):
        self.check_ok(self.bounded("--num-layers", "30000", "--hidden-size", "64"))


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
        self.assertIn(f"gradients ({first['gradient_codecs']}), which may cost held-out loss: "
                      "docs/howto/safe-compression.md has what was measured", result.stdout)
        exact, _ = self.planned("search", *MODEL, "--nodes", "1,2", "--minimum-weight-bits", "16",
                                "--minimum-gradient-bits", "16", "--no-weight-differences")
        self.assertNotIn("safe-compression", exact.stdout)
        across = [row["bytes_inter_node"] for row in rows if row["nodes"] == 2]
        self.assertEqual(across, sorted(across))
        # Weights are gathered once a step at stage 1; at stage 3 with hpZ also inside the nodes, which is more there.
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
                self.assertEqual(bool(re.search(r"\n +2 +3  2 +none ", result.stdout)), bool(hybrids))
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
        self.assertRegex(result.stdout, r"\n +2 +3  all +int8:256 +int4:128 +2 ")

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
        self.assertIn("raise --memory-limit, lower --minimum-weight-bits (8), take", result.errors("zpp_plan")[0])
        self.assertEqual(zpp.read_trace(self.out / "plan.h5")[0]["verdict"], "INVALID: no configuration fits")
        for words, part in ((["--minimum-gradient-bits", "16"],
                             "lower --minimum-weight-bits (8) and --minimum-gradient-bits (16), take"),
                            (["--weight-codec", "int4:64"], "raise --memory-limit, take")):
            result = self.plan("search", *MODEL, "--memory-limit", "0.0001", "--output", self.out, *words)
            self.assertIn(part, result.errors("zpp_plan")[0])

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
