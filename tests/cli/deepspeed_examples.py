# ctest: name=deepspeed_examples timeout=240 labels=cli,nightly processors=4
"""The configurations of inputs/deepspeed, as they are, on 16 ranks, and the flags of DeepSpeed's tutorial on ZeRO++:
they train a small model, or are refused with the reason. And Megatron's names of flags."""

import json

import zpp

EXAMPLES = zpp.SOURCE / "inputs" / "deepspeed"
SMALL = ["--num-layers", 2, "--hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 16]
FULL = ["--num-layers", 40, "--hidden-size", 6144, "--seq-length", 512, "--num-attention-heads", 32]
TUTORIAL = ["--batch-size", 1, "--zero-stage", 3, "--deepspeed_config", EXAMPLES / "ds_zeropp_config.json",
            "--deepspeed-activation-checkpointing", "--fp16", "--checkpoint-activations",
            "--tensor-model-parallel-size", 1,
            "--pipeline-model-parallel-size", 1]
STEPS = 3


def warnings(result):
    return [line for line in result.stderr.splitlines() if "warning: " in line
            and not any(other in line for other in (zpp.NO_RING, zpp.LEFT_OUT))]


class Examples(zpp.TestCase):
    def run_on_16(self, *words, steps=STEPS, code=zpp.OK):
        command = [zpp.TRAIN, *words, "--train-iters", steps, "--backend", "host", "--output", self.out]
        result = zpp.launch([(16, command)], cwd=self.folder).end()
        self.assertEqual(result.code, code, result)
        if code == zpp.OK:
            checked = zpp.check_trace(self.out / "train.h5")
            self.assertEqual(checked.code, zpp.OK, checked)
        return result

    def effective(self):
        root, groups = self.trace()
        return json.loads(root["config_json"]), groups

    def test_tutorial(self):
        result = self.run_on_16(*SMALL, *TUTORIAL)
        self.assertEqual(len(warnings(result)), 3, result)  # keys, two flags
        config, groups = self.effective()
        zero = config["zero_optimization"]
        self.assertEqual((zero["stage"], zero["zero_hpz_partition_size"], zero["reduce_bucket_size"]),
                         (3, 16, 10_000_000))
        self.assertTrue(zero["zero_quantized_weights"] and zero["zero_quantized_gradients"]
                        and config["fp16"]["enabled"])
        self.assertTrue(config["zeropp"]["model"]["recompute_activations"])
        self.assertEqual(config["train_batch_size"], 16)
        self.assertIn(("int8:256", "weights"),
                      set(zip(groups["collectives"]["codec"], groups["collectives"]["purpose"])))

    def test_tutorial_at_its_full_size_is_understood(self):
        summary = self.folder / "info.json"
        result = zpp.launch([(16, [zpp.INFO, *FULL, *TUTORIAL, "--json", summary])]).end()
        self.assertEqual((result.code, len(warnings(result))), (zpp.OK, 3), result)
        model = json.loads(summary.read_text())["configuration"]["zeropp"]["model"]
        self.assertEqual((model["num_layers"], model["hidden_size"], model["seq_length"], model["num_attention_heads"]),
                         (40, 6144, 512, 32))

    def test_one_rank_shows_what_more_ranks_run(self):
        """A group of 8 ranks, and a batch of 16."""
        batch = self.write_json("batch.json", {"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
                                               "gradient_accumulation_steps": 1})
        for path, ranks, key, value in ((EXAMPLES / "zeropp_bf16.json", 8, "zero_hpz_partition_size", 8),
                                        (batch, 16, "train_batch_size", 16)):
            result = zpp.Process([zpp.INFO, "--deepspeed_config", path]).end()
            self.assertEqual((result.code, len(warnings(result))), (zpp.OK, 1), result)
            self.assertIn(f"shown as on {ranks} ranks of one node, for here is one: ", result.stderr)
            self.assertRegex(result.stdout, rf"{key} +{value} ")

    def test_stage_2_with_buckets(self):
        result = self.run_on_16(*SMALL, "--deepspeed_config", EXAMPLES / "stage2.json")
        self.assertEqual(len(warnings(result)), 1, result)
        config, groups = self.effective()
        self.assertEqual((config["zero_optimization"]["stage"], config["zero_optimization"]["reduce_bucket_size"]),
                         (2, 200_000_000))
        self.assertEqual((config["train_micro_batch_size_per_gpu"], config["zeropp"]["log_interval"]), (1, 2000))
        self.assertEqual(groups["steps"]["learning_rate"][:2], [0, 0])
        self.assertGreater(groups["steps"]["learning_rate"][2], 0)

    def test_stage_3_with_its_limits(self):
        kept = self.folder / "kept"
        result = self.run_on_16(*SMALL, "--deepspeed_config", EXAMPLES / "stage3.json", "--save", kept)
        self.assertEqual(len(warnings(result)), 1, result)
        config, groups = self.effective()
        self.assertEqual(config["zero_optimization"]["reduce_bucket_size"], 64 * 64)
        self.assertEqual(config["zero_optimization"]["stage3_param_persistence_threshold"], 10 * 64)
        # The last norm persists; a reuse distance as long as a step gathers the others once, and they are there in
        # backward.
        small = [elements <= 10 * 64 for elements in groups["units"]["elements"]]
        self.assertEqual(small, [False] * (len(small) - 1) + [True])
        self.assertEqual(groups["units"]["gathers_forward"], [int(not persists) for persists in small])
        self.assertEqual(set(groups["units"]["gathers_backward"]), {0})
        self.assertEqual(config["scheduler"]["params"]["total_num_steps"], STEPS)
        self.assertTrue(list(kept.rglob("model.safetensors")))

    def test_precisions(self):
        # The loss scale falls from 2^16 to what fits.
        for name, steps in (("bf16", STEPS), ("fp16", 10)):
            with self.subTest(name):
                result = self.run_on_16(*SMALL, "--deepspeed_config", EXAMPLES / f"{name}.json", steps=steps)
                self.assertEqual(len(warnings(result)), 1, result)
                config, groups = self.effective()
                self.assertTrue(config[name]["enabled"])
                self.assertEqual(groups["steps"]["loss_scale"][0], 2.0**16 if name == "fp16" else 1)

    def test_offload_to_the_host(self):
        """Master weights, moments and the weights that are gathered; with the parameters of a run without."""
        words = [*SMALL, "--deterministic"]
        result = self.run_on_16(*words, "--deepspeed_config", EXAMPLES / "offload_cpu.json")
        self.assertEqual(len(warnings(result)), 1, result)
        root = self.trace()[0]
        config, groups = self.effective()
        held = dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))
        self.assertEqual((held["master"], held["moments"], held["compute_shard"]), (0, 0, 0))
        self.assertEqual((held["offloaded_moments"], held["offloaded_weights"]),
                         (2 * held["offloaded_master"], held["offloaded_master"] // 2))
        self.assertTrue(config["zero_optimization"]["offload_optimizer"]["pin_memory"])
        self.run_on_16(*words, "--bf16", "--micro-batch-size", 1)
        self.assertEqual(self.trace()[0]["parameters_hash"], root["parameters_hash"])

    def test_offload_to_files(self):
        """The example as it is but for the folder, which has to exist; small weights stay on the host, as max_in_cpu
        says. And with none of them there, in smaller sub-groups: more transfers, the same parameters."""
        example = json.loads((EXAMPLES / "offload_nvme.json").read_text())
        disk = self.folder / "disk"
        disk.mkdir()
        for section in ("offload_optimizer", "offload_param"):
            example["zero_optimization"][section]["nvme_path"] = str(disk)
        words = [*SMALL, "--deterministic"]
        found = {}
        for name, more in (("example", {}), ("all in files", {"sub_group_size": 256})):
            example["zero_optimization"] |= more
            if more:
                example["zero_optimization"]["offload_param"]["max_in_cpu"] = 0
            result = self.run_on_16(*words, "--deepspeed_config", self.write_json("nvme.json", example), steps=10)
            self.assertEqual(len(warnings(result)), 1, result)
            root, groups = self.trace()
            self.assertEqual(list(disk.iterdir()), [])
            held = dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))
            self.assertEqual((held["offloaded_master"], held["offloaded_moments"], held["compute_shard"]), (0, 0, 0))
            found[name] = (root["parameters_hash"], held,
                           dict(zip(groups["counters"]["name"], groups["counters"]["value"])))
        for (_, held, counters), files in zip(found.values(), (16, 32)):
            self.assertEqual(counters["files"], files)
            self.assertEqual(held["offloaded_weights"] > 0, files == 16)
            self.assertIn(counters.get("files_io_uring", 0), (0, files))
        one, other = found.values()
        self.assertGreater(other[2]["file_writes"], 2 * one[2]["file_writes"])
        self.assertEqual(one[0], other[0])
        self.run_on_16(*words, "--fp16", "--micro-batch-size", 1, steps=10)
        self.assertEqual(self.trace()[0]["parameters_hash"], one[0])

    def test_offload_to_a_folder_that_is_not_there(self):
        result = self.run_on_16(*SMALL, "--deepspeed_config", EXAMPLES / "offload_nvme.json", code=zpp.IO)
        errors = result.errors()
        self.assertEqual(len(errors), 1, result)
        for part in ("/local_nvme", "No such file", "another place"):
            self.assertIn(part, errors[0])

    def test_cpu_checkpointing(self):
        config = json.loads((EXAMPLES / "bf16.json").read_text())
        config["activation_checkpointing"]["cpu_checkpointing"] = True
        words = ["--num-layers", 5, "--deepspeed_config", self.write_json("cpu_checkpointing.json", config)]
        result = self.train(2, *words, "--deepspeed-activation-checkpointing")
        self.assertEqual((result.code, len(warnings(result))), (zpp.OK, 1), result)
        config, groups = self.effective()
        self.assertTrue(config["zeropp"]["model"]["cpu_checkpointing"])
        # Three of five inputs are kept, each of 2 x 16 x 32 fp32 values.
        self.assertEqual(dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))["offloaded_activations"],
                         3 * 4096)
        self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
        for more in ([], ["--deepspeed-activation-checkpointing", "--recompute-interval", 3]):
            result = self.train(2, *words, *more)
            self.assertEqual((result.code, len(warnings(result))), (zpp.OK, 1), result)
            self.assertIn("activation_checkpointing.cpu_checkpointing", zpp.ignored_keys(warnings(result)[0]))

    def test_other_names_of_flags(self):
        self.check_ok(self.train(1, "--max_grad_norm", 0.25, "--gradient_checkpointing"))
        config, _ = self.effective()
        self.assertEqual(config["gradient_clipping"], 0.25)
        self.assertTrue(config["zeropp"]["model"]["recompute_activations"])
        self.check_ok(self.train(1, "--save", self.folder / "kept", "--zero3_save_16bit_model"))
        self.assertTrue(list((self.folder / "kept").rglob("model.safetensors")))

    def test_refused_flags(self):
        for words, part in ((["--tensor-model-parallel-size", 2], "there is no tensor parallelism"),
                            (["--pipeline-model-parallel-size", 4], "there is no pipeline parallelism"),
                            (["--max_grad_norm", 1, "--clip-grad", 2], "--max_grad_norm are given both"),
                            (["--checkpoint-activations", "--no-recompute-activations"], "are given both"),
                            (["--batch-size", 0], "--batch-size")):
            with self.subTest(words=words):
                self.check_fails(self.train(1, *words), zpp.USAGE, part)


if __name__ == "__main__":
    zpp.main()
