# ctest: name=plan labels=cli timeout=300
"""zpp_plan as a program: commands, flags that it takes and refuses, what it prints and leaves, and a plan for GPUs on a
machine without any."""

import json
import math
import re

import planned
import zpp
from planned import MODEL, Program

ZEROPP = ["--zero-quantized-weights", "--zero-hpz-partition-size", "4", "--zero-quantized-gradients"]


def in_gibibytes(size):
    """A limit that `size` fits, in the form of the flag."""
    return f"{math.ceil(100 * size / 2**30) / 100:.2f}"


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
        """The least memory for a search with hpZ's copy on the host fits no configuration of a search with the copy on
        the GPU."""
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

    def least(self, *words):
        """Least bytes that a configuration of the search needs; None where it is refused or finds none."""
        file = self.folder / "least.json"
        if self.plan("search", *words, "--output", self.out, "--json", file).code != zpp.OK:
            return None
        return min(json.loads(file.read_text())["candidates"]["memory"])

    def test_a_search_suggests_what_it_takes(self):
        """If nothing fits, the search suggests options that need less memory and that it takes beside the others, with
        the memory that they need; options that change a run the least come first. A limit of that size fits."""
        turned_off = {"--no-keep-weight-images": "--keep-weight-images", "--no-deterministic": "--deterministic"}
        every = [*turned_off, "--reduce-bucket-size 16384", "--update-in-backward", "--hpz-device cpu",
                 "--cpu-checkpointing", "--moments bf16", "--offload-optimizer cpu",
                 "--offload-optimizer cpu --offload-param cpu"]
        images = ["--zero-stage", "3", "--zero-quantized-weights", "--keep-weight-images"]
        long = ["--deterministic", "--seq-length", "4096"]
        cases = [([], "--offload-optimizer cpu"), (["--zero-stage", "1"], "--moments bf16"),
                 (["--zero-hpz-partition-size", "2", "--zero-stage", "3"], "--hpz-device cpu"),
                 (["--clip-grad", "1"], "--moments bf16"),
                 (["--optimizer", "SGD"], "--offload-optimizer cpu"),
                 (["--update-in-backward"], "--moments bf16"),
                 (["--cpu-checkpointing"], "--moments bf16"),
                 (long, "--no-deterministic"), ([*long, "--backend", "host"], "--moments bf16"),
                 (images, "--no-keep-weight-images")]
        for more, among in cases:
            words = ["--nodes", "2", "--ranks-per-node", "2"]
            for flag, value in zip(MODEL[:-1:2], MODEL[1:-1:2]):
                words += [] if flag in more else [flag, value]
            words.append(MODEL[-1])
            with self.subTest(more=more):
                need = self.least(*words, *more)
                told = self.plan("search", *words, *more, "--memory-limit", "1e-6")
                self.assertEqual(told.code, zpp.ENVIRONMENT, told)
                said = re.search(r"fits \(the least needs (\S+) GiB\): .* needs less memory \((.*); docs/howto/"
                                 r"memory.md\)", told.stderr)
                self.assertIsNotNone(said, told)
                self.assertEqual(said[1], in_gibibytes(need))
                self.assertIsNotNone(self.least(*words, *more, "--memory-limit", said[1]))
                needs = {}
                for option in every:
                    kept = [word for word in more if word != turned_off.get(option)]
                    if option.split()[0] not in more and (option not in turned_off or turned_off[option] in more):
                        needs[option] = self.least(*words, *kept, *option.split())
                less = {option: size for option, size in needs.items() if size is not None and size < need}
                self.assertIn(among, less)
                self.assertEqual(said[2], ", ".join(f"{option}: {in_gibibytes(size)} GiB"
                                                    for option, size in less.items()))

    def test_a_search_names_bits_that_nothing_keeps(self):
        told = self.plan("search", *MODEL, "--nodes", "2", "--ranks-per-node", "2", "--minimum-gradient-bits", "17")
        self.assertEqual(told.code, zpp.ENVIRONMENT, told)
        self.assertIn("keeps the bits asked for: lower --minimum-weight-bits (8) and --minimum-gradient-bits (17), or ",
                      told.stderr)
        self.assertNotIn("GiB", told.stderr)

    def test_a_search_of_what_cannot_be_suggests_nothing(self):
        told = self.plan("search", *MODEL, "--nodes", "2", "--update-in-backward", "--clip-grad", "1")
        self.assertEqual(told.code, zpp.USAGE, told)
        self.assertNotIn("needs less memory", told.stderr)
        self.assertRegex(told.stderr, "zeropp.update_in_backward and gradient_clipping, .* leave one of them out")
        self.assertNotIn("minimum-weight-bits", told.stderr)

    def test_tables_of_images_are_planned(self):
        """Tables of kept images and of images that persistent units send equal the checker's, in a search and in an
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
        lines = [line for line in result.stderr.splitlines() if "ignored: wall_clock_breakdown" not in line]
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
        """One node gives the times of one node of any such cluster, with the bound of the step and its share."""
        for words in (["--nodes", "2"], []):
            self.refused("time", *MODEL, "--gpu", "h200", *words,
                         parts=("--node-gbit is missing", "--nodes 1, need none"))
        for named in (["--gpu", "h200"], ["--gpu", "h200", "--node-gbit", "400"], ["--cluster", self.CLUSTER]):
            self.refused("breakeven", *MODEL, *named, "--nodes", "1",
                         parts=("plan.nodes 1: breakeven tries rates between nodes", "search --goal time"))
        job = [*MODEL, "--nodes", "1", "--gpu", "h200"]
        result, told = self.planned("time", *job)
        _, linked = self.planned("time", *job, "--node-gbit", "400")
        self.assertEqual(told["time"], {**linked["time"], "cluster": "8 x H200-SXM5-141GB as sold, one node"})
        self.assertRegex(result.stdout, r"\A1 node x 8 ranks on 8 x H200-SXM5-141GB as sold, one node\n")
        bound, share = re.search(r", bound by ([a-z ]+) \((\d+) % of the step\)\n", result.stdout).groups()
        self.assertEqual(bound, told["time"]["bound"])
        self.assertTrue(12 < int(share) <= 100, "the largest of eight parts")
        self.check_ok(self.plan("search", *job, "--goal", "time", "--output", self.out))

    def test_the_share_of_what_binds_a_step_is_of_the_step(self):
        """With an engine too that hides only a part of what it sends."""
        for cluster, *words in (("v100-24x16", "--fp16"), ("h200-dgx", "--bf16", "--micro-batch-size", "4")):
            result, told = self.planned("time", "--cluster", zpp.SOURCE / "inputs" / "clusters" / f"{cluster}.json",
                                        "--nodes", "2", "--model-preset", "gpt-7b", *words)
            share = re.search(r", bound by compute \((\d+) % of the step\)\n", result.stdout)[1]
            time = told["time"]
            self.assertEqual(int(share), round(100 * time["compute_seconds"] / time["step_seconds"]), cluster)

    def test_the_vocabulary_that_is_planned_is_said(self):
        """Where neither the model nor its data say which, by every command that plans a model."""
        cluster = ["--cluster", self.CLUSTER]
        model = ["--num-layers", "4", "--hidden-size", "128", "--bf16", "--nodes", "2"]
        for command in ([], ["search"], ["time", *cluster], ["compare", *cluster], ["breakeven", *cluster]):
            for words, said in (([], True), (["--vocab-size", "1000"], False)):
                result = self.check_ok(self.plan(*command, *model, *words, "--output", self.out))
                self.assertEqual("No vocabulary is given, so the model has the 64 tokens of zpp_train's synthetic "
                                 "data: --vocab-size" in " ".join(result.stdout.split()), said, (command, words))

    def test_a_search_of_one_node_is_for_time(self):
        """Bytes across nodes are the same in all of its rows, none."""
        file = self.folder / "search.json"
        result = self.plan("search", *MODEL, "--nodes", "1", "--gpu", "h200", "--output", self.out, "--json", file)
        self.assertEqual(result.stderr, "zpp_plan: info: no --goal: rows are in the order of their time, since nothing "
                         "crosses nodes\n")
        told = json.loads(file.read_text())
        seconds = told["candidates"]["seconds"]
        self.assertEqual(seconds, sorted(seconds))
        for words in (["--nodes", "1,2", "--gpu", "h200", "--node-gbit", "400"], ["--nodes", "1"],
                      ["--nodes", "1", "--gpu", "h200", "--goal", "memory"]):
            result = self.planned("search", *MODEL, *words)[1]
            order = result["candidates"]["memory" if "memory" in words else "bytes_inter_node"]
            self.assertGreater(len(order), 2)
            if "1,2" not in words:
                self.assertEqual(order, sorted(order), words)

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
        self.assertIn("ignored: bf16, train_micro_batch_size_per_gpu, wall_clock_breakdown, zero_optimization",
                      result.stderr)
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
    """A job that nobody can run is refused before it is planned, and models of many layers are planned in time."""

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


zpp.main()
