# ctest: name=bad_usage labels=cli,without-cuda timeout=180 processors=3
"""Wrong flags, keys, values and rank counts: one line that names the key and the remedy, exit code 2 (3
where the machine does not fit), no file, no hang."""

import json

import zpp


class Flags(zpp.TestCase):
    def test_unknown_flag_names_the_nearest(self):
        self.check_fails(self.train(2, "--zero-stagee", "3"), zpp.USAGE, "--zero-stagee", "--zero-stage)")

    def test_nicknames_name_their_flags(self):
        for nickname, flag in (("--qwz", "--zero-quantized-weights"), ("--hpz=2", "--zero-hpz-partition-size"),
                               ("--qgz", "--zero-quantized-gradients")):
            self.check_fails(self.train(1, nickname), zpp.USAGE, f"(nearest: {flag})")

    def test_names_of_other_programs_name_their_flags(self):
        for other, flag in (("--learning-rate", "--lr"), ("--model-size=7b", "--model"),
                            ("--gradient-clipping", "--clip-grad"), ("--load-checkpoint", "--load"),
                            ("--zero-quantized-weight", "--zero-quantized-weights")):
            with self.subTest(other=other):
                self.check_fails(self.train(1, other), zpp.USAGE, f"(nearest: {flag})")

    def test_misspelt_names_of_other_programs_name_their_flags(self):
        for other, flag in (("--lerning-rate", "--lr"), ("--learning_rate", "--lr"), ("--fsdp", "--zero-stage"),
                            ("--hybrid-sharding", "--shard-group-size"), ("--max-steps", "--train-iters"),
                            ("--gradient-checkpointing", "--recompute-activations"), ("--device", "--backend"),
                            ("--gradient-checkpoint", "--recompute-activations"), ("--seq_len", "--seq-length"),
                            ("--mixed-precision=bf16", "--bf16"), ("--max-grad-norm", "--clip-grad"),
                            ("--deepspeed-config", "--deepspeed_config"), ("--weigth-decay", "--weight-decay"),
                            ("--num-microbatches", "--gradient-accumulation-steps"),
                            ("--use-distributed-optimizer", "--zero-stage"),
                            ("--no-reshard-after-forward", "--param-persistence-threshold"),
                            ("--dp-replicate-size", "--shard-group-size"),
                            ("--data-parallel-shard-degree", "--shard-group-size"),
                            ("--overlap-param-gather", "--overlap-comm"), ("--overlap-grad-reduce", "--overlap-comm"),
                            ("--fp8-param-gather", "--weight-codec"), ("--use-megatron-fsdp", "--zero-stage"),
                            ("--grad-reduce-in-fp32", "--gradient-dtype"),
                            ("--optimizer-cpu-offload", "--offload-optimizer")):
            with self.subTest(other=other):
                self.check_fails(self.train(1, other), zpp.USAGE, f"(nearest: {flag})")

    def test_flags_of_other_programs_that_have_no_like_here_say_why(self):
        for other, why in (("--local_rank", "the launcher starts the ranks"),
                           ("--gpus", "the launcher starts the ranks"),
                           ("--tensor-parallel-size", "there is data parallelism alone"),
                           ("--context-parallel-degree", "there is data parallelism alone"),
                           ("--nproc_per_node", "the launcher starts the ranks"),
                           ("--reshard_after_forward=8", "a number is --zero-hpz-partition-size, "),
                           ("--data-parallel-sharding-strategy", "--zero-stage 0 is no_shard, 1 optim, "),
                           ("--lora-rank", "all weights are trained"), ("--semi-sync-method", "all ranks meet"),
                           ("--wandb", "metrics are in the trace"), ("--gpu", "zpp_plan has it; here --backend cuda"),
                           ("--deepspeed", "a DeepSpeed JSON is read by --config FILE"),
                           ("--model-preset", "zpp_plan has it; here a model has its sizes: --num-layers,")):
            with self.subTest(other=other):
                self.check_fails(self.train(1, other), zpp.USAGE, f"unknown flag {other.partition('=')[0]} ({why}")

    def test_a_flag_that_is_like_none_names_none(self):
        for other in ("--frobnicate", "--fp32", "-x", "--x", "---"):
            with self.subTest(other=other):
                result = self.train(1, other)
                self.check_fails(result, zpp.USAGE, f"unknown flag {other}: see --help")
                self.assertNotIn("nearest", result.stderr)

    def test_argument_without_flag(self):
        self.check_fails(self.train(1, "verbose"), zpp.USAGE, '"verbose"', "--help")
        self.check_fails(self.train(1, "--bf16", "true"), zpp.USAGE, '"true"', "--help")

    def test_flag_without_value(self):
        for flag, allowed in (("--lr", "a finite number"), ("--output", "DIR (Folder"), ("--json", "FILE ("),
                              ("--moments", "one of fp32, bf16, int8"), ("--config", "FILE.json (")):
            with self.subTest(flag=flag):
                result = zpp.launch([(1, [*zpp.train_command(), flag])], cwd=self.folder).end()
                self.check_fails(result, zpp.USAGE, f"{flag} has no value: give it {allowed}", "see --help")

    def test_boolean_with_a_value(self):
        """True or false, and the value counts; all else is refused, with what is allowed."""
        for words in (["--bf16=maybe"], ["--no-bf16=maybe"], ["--bf16=1"], ["--bf16=on"]):
            with self.subTest(words=words):
                self.check_fails(self.train(1, *words), zpp.USAGE, words[0].partition("=")[0],
                                 "must be true or false", "not ")
        config = self.write_json("run.json", {"bf16": {"enabled": True}})
        for words, on in ((["--bf16=true"], True), (["--bf16=false"], False), (["--config", config], True),
                          (["--config", config, "--bf16=false"], False), (["--config", config, "--no-bf16"], False),
                          (["--config", config, "--no-bf16=true"], False), (["--no-bf16=false"], True)):
            with self.subTest(words=words):
                self.check_ok(self.train(1, *words))
                self.assertEqual(json.loads(self.trace()[0]["config_json"])["bf16"]["enabled"], on)

    def test_value_out_of_range(self):
        self.check_fails(self.train(2, "--zero-stage", "4"), zpp.USAGE, "--zero-stage", "0 to 3", "4")

    def test_names_that_are_not_utf8(self):
        """The configuration is JSON and has them; folders of results are not in it, and are shown in one line."""
        for flag in ("--save", "--data-path", "--offload-optimizer-nvme-path", "--model"):
            with self.subTest(flag=flag):
                self.check_fails(self.train(1, flag, "ck\udcff"), zpp.USAGE, f"{flag}: ", "is not UTF-8", "rename it")
        result = self.train(1, out=self.folder / "new\nline\x1b[2J")
        self.check_ok(result)
        self.assertIn("new\\x0aline\\x1b[2J", result.stdout)

    def test_value_is_shown_as_given(self):
        self.check_fails(self.train(1, "--node-size", "-1"), zpp.USAGE, "--node-size", "not -1")

    def test_time_limit_that_is_none(self):
        for value in ("-1", "ten", "1s", "nan", "inf"):
            with self.subTest(value=value):
                self.check_fails(self.train(1, f"--timeout={value}"), zpp.USAGE,
                                 "--timeout takes seconds", f'"{value}"')

    def test_value_beyond_the_optimizers_precision(self):
        for flag, value in (("--adam-eps", "1e-39"), ("--lr", "1e39"), ("--clip-grad", "1e39")):
            with self.subTest(flag=flag):
                self.check_fails(self.train(1, flag, value), zpp.USAGE, flag, "e+38")

    def test_too_many_micro_steps(self):
        self.check_fails(self.train(1, "--gradient-accumulation-steps", "5000000"), zpp.USAGE,
                         "--gradient-accumulation-steps", "4096")

    def test_empty_path(self):
        for flag in ("--config", "--json", "--output", "--timeout"):
            for words in ([flag, ""], [f"{flag}="]):
                with self.subTest(words=words):
                    out = None if flag == "--output" else self.out
                    self.check_fails(self.train(1, *words, out=out), zpp.USAGE, flag)

    def test_flag_twice(self):
        for words in (["--lr", "1", "--lr", "2"], ["--bf16", "--bf16"], ["--no-bf16", "--no-bf16"],
                      ["--json", "a", "--json=b"], ["--config", "a", "--config", "b"]):
            with self.subTest(words=words):
                self.check_fails(self.train(1, *words), zpp.USAGE, words[0], "given twice")

    def test_flag_and_its_negation(self):
        self.check_fails(self.train(1, "--no-bf16", "--bf16"), zpp.USAGE, "--bf16 and --no-bf16")

    def test_unknown_codec(self):
        self.check_fails(self.train(2, "--zero-quantized-weights", "--weight-codec", "int9:256"), zpp.USAGE,
                         "--weight-codec", "int9", "2 to 8 bits", "int8")

    def test_block_that_is_no_power_of_two(self):
        self.check_fails(self.train(1, "--zero-quantized-weights", "--weight-codec", "int8:100"), zpp.USAGE,
                         "--weight-codec", "100")

    def test_unknown_algorithm(self):
        self.check_fails(self.train(2, "--all-gather-algorithm", "two-levels"), zpp.USAGE,
                         "zeropp.all_gather_algorithm", "nearest: two-level", "known: auto, direct, flat, ")

    def test_unknown_model(self):
        self.check_fails(self.train(1, "--model", "gtp"), zpp.USAGE, "zeropp.model.name", "gpt")

    def test_flag_without_effect(self):
        self.check_fails(self.train(1, "--weight-codec", "int8:64"), zpp.USAGE, "zeropp.weight_codec",
                         "zero_quantized_weights", "(--weight-codec)", "--zero-quantized-weights")

    def test_two_precisions(self):
        self.check_fails(self.train(1, "--bf16", "--fp16"), zpp.USAGE, "fp16.enabled and bf16.enabled",
                         "(flags: --fp16, --bf16)")

    def test_feature_at_a_lower_stage(self):
        self.check_fails(self.train(2, "--zero-stage", "2", "--zero-hpz-partition-size", "2"), zpp.USAGE,
                         "zero_hpz_partition_size", "stage 2", "(flags: --zero-hpz-partition-size, --zero-stage)")
        self.check_fails(self.train(2, "--zero-stage", "0", "--zero-quantized-weights"), zpp.USAGE,
                         "zero_quantized_weights", "stage 0")


class Files(zpp.TestCase):
    def refused(self, text, *parts, ranks=1):
        path = self.write_json("run.json", text)
        return self.check_fails(self.train(ranks, "--config", path), zpp.USAGE, "run.json", *parts)

    def test_unknown_key_names_the_nearest(self):
        self.refused({"zero_optimization": {"zero_quantised_weights": True}},
                     "zero_optimization.zero_quantised_weights",
                     "zero_optimization.zero_quantized_weights)", ranks=2)

    def test_what_a_file_says_stays_in_its_line(self):
        path = self.write_json("run.json", {"a\nzpp_train: error: forged\u001b[31m": 1})
        result = self.train(1, "--config", path)
        self.assertEqual(result.errors(), [], result)
        self.assertIn("ignored: a\\x0azpp_train: error: forged\\x1b[31m (DeepSpeed has no such key)", result.stderr)

    def test_malformed(self):
        self.refused('{\n  "train_batch_size": 8,\n  "bf16": {\n}', "run.json:4", "malformed JSON")

    def test_empty(self):
        self.refused("", "it is empty")

    def test_not_an_object(self):
        self.refused("[1, 2]", "JSON object")

    def test_key_twice(self):
        self.refused('{"gradient_clipping": 1, "gradient_clipping": 2}', "gradient_clipping", "twice")

    def test_wrong_type(self):
        self.refused({"bf16": {"enabled": "yes"}}, "bf16.enabled", "true or false", '"yes"')

    def test_missing_file(self):
        self.check_fails(self.train(2, "--config", "nowhere.json"), zpp.IO, "nowhere.json", "--config")

    def test_folder_as_file(self):
        self.check_fails(self.train(1, "--config", "."), zpp.IO, "--config")


class Sizes(zpp.TestCase):
    def test_gpu_where_there_is_none(self):
        for words in (["--backend", "cuda"], ["--backend", "cuda", "--transport", "mpi"]):
            self.check_fails(self.train(2, *words, env={"CUDA_VISIBLE_DEVICES": ""}), zpp.ENVIRONMENT, "GPU")

    def test_nccl_on_the_host(self):
        self.check_fails(self.train(1, "--backend", "host", "--transport", "nccl"), zpp.USAGE, "GPU memory only")

    def test_heads_do_not_divide_the_hidden_size(self):
        self.check_fails(self.train(2, "--hidden-size", "32", "--num-attention-heads", "3"), zpp.USAGE,
                         "hidden_size 32", "num_attention_heads 3", "--hidden-size, --num-attention-heads")

    def test_vocabulary_smaller_than_the_source(self):
        self.check_fails(self.train(2, "--vocab-size", "3"), zpp.USAGE, "3", "vocab")

    def test_batch_does_not_divide(self):
        """The message names a batch that divides, and no number that the user did not give."""
        of_two = "is not divisible by 4 (train_micro_batch_size_per_gpu 2 * 2 ranks): choose 4"
        for words, message in ((["7"], f"7 {of_two} or 8"), (["1"], f"1 {of_two} (flags:"),
                               (["10", "--gradient-accumulation-steps", "2"],
                                "10 is not train_micro_batch_size_per_gpu 2 * gradient_accumulation_steps 2 * 2 ra")):
            with self.subTest(words=words):
                self.check_fails(self.train(2, "--global-batch-size", *words), zpp.USAGE, f"train_batch_size {message}")

    def test_what_is_missing_for_an_effect_is_all_that_is_named(self):
        quantized = ["--zero-quantized-weights", "--zero-quantized-gradients"]
        for words, needs in ((["--weight-differences"],
                              "zero_optimization.zero_quantized_weights, or zeropp.exact_differences; set"),
                             (["--weight-codec", "int4"], "zero_optimization.zero_quantized_weights; set"),
                             (["--gradient-codec-inter", "int4"], "zero_optimization.zero_quantized_gradients; set"),
                             (["--gradient-codec-inter", "int4", *quantized, "--adaptive-bits", "gradients"],
                              "other zeropp.adaptive_bits.values than gradients; set"),
                             (["--weight-codec", "int4", "--adaptive-bits", "weights"],
                              "zero_optimization.zero_quantized_weights, and other zeropp.adaptive_bits.values than "
                              "weights; set")):
            with self.subTest(words=words):
                self.check_fails(self.train(1, *words), zpp.USAGE, f"would have no effect: it needs {needs}")

    def test_a_cluster_file_is_no_configuration(self):
        path = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"
        self.check_fails(self.train(1, "--config", path), zpp.USAGE, f"{path}: this file describes a cluster",
                         f"--cluster {path}")

    def test_sequence_longer_than_the_data(self):
        self.check_fails(self.train(2, "--seq-length", "100000000"), zpp.USAGE, "--seq-length")

    def test_weights_beyond_memory(self):
        self.check_fails(self.train(2, "--vocab-size", 2 ** 22, "--hidden-size", 2 ** 20,
                                    "--num-attention-heads", 1, "--micro-batch-size", 1),
                         zpp.ENVIRONMENT, "no memory", "smaller model")

    def test_sizes_beyond_arithmetic(self):
        largest = 2 ** 31 - 1
        for flags in (["--hidden-size", 2 ** 62], ["--hidden-size", largest], ["--seq-length", 2 ** 31],
                      ["--vocab-size", largest, "--num-layers", largest, "--hidden-size", 2 ** 29 - 1]):
            with self.subTest(flags=flags):
                self.check_fails(self.train(1, "--num-attention-heads", 1, *flags), zpp.USAGE)


class Topology(zpp.TestCase):
    def test_nodes_do_not_divide_the_ranks(self):
        self.check_fails(self.train(3, "--node-size", "2", "--zero-quantized-gradients"), zpp.ENVIRONMENT,
                         "3", "2", "node")

    def test_partition_does_not_fit_the_nodes(self):
        self.check_fails(self.train(3, "--node-size", "3", "--zero-hpz-partition-size", "2"), zpp.USAGE,
                         "zero_hpz_partition_size", "choose 1 or 3")

    def test_partition_larger_than_the_world(self):
        self.check_fails(self.train(2, "--node-size", "2", "--zero-hpz-partition-size", "4"), zpp.USAGE,
                         "zero_hpz_partition_size", "choose 1 or 2")


class Info(zpp.TestCase):
    def test_refuses_the_same(self):
        result = zpp.launch([(2, [zpp.INFO, "--zero-stage", "0", "--zero-quantized-weights"])]).end()
        self.check_fails(result, zpp.USAGE, "zero_quantized_weights", program="zpp_info")

    def test_one_rank_judges_no_more_ranks(self):
        config = zpp.SOURCE / "inputs" / "deepspeed" / "ds_zeropp_config.json"
        result = zpp.launch([(1, [zpp.INFO, "--deepspeed_config", config])]).end()
        self.assertEqual(result.code, zpp.OK, result)
        self.assertRegex(result.stderr,
                         "shown as on [0-9]+ ranks of one node, for here is one: .*zero_hpz_partition_size")


if __name__ == "__main__":
    zpp.main()
