# ctest: name=plan_hf_models timeout=180 labels=cli processors=2
"""zpp_plan --hf-config plans the model of a public config.json: its units to the parameter, and the bytes, operations
and activations that follow from them. hf_models.json has the keys of each file that decide, where they come from, and
the number of parameters that transformers 5 gives a model of them on PyTorch's meta device (of its decoder: without
towers of images or sound)."""

import json
import pathlib

import planned
import zpp

MODELS = json.loads((pathlib.Path(__file__).parent / "hf_models.json").read_text())
NODES, RANKS = 4, 8
JOB = ["--bf16", "--nodes", NODES, "--ranks-per-node", RANKS]
MIXED = "a mixture of experts of an unknown model_type"
PADDING = 1e-3  # of units, over their bytes


def decoder_of(config):
    return config.get("text_config", config)


def bytes_by_hand(parameters, tied_table):
    """Out of a node in a step of ZeRO-3 in 16 bits: two gathers of all weights and one reduction, a tied table in each
    pass once more."""
    return 2 * (3 * parameters + 2 * tied_table) * (NODES - 1) / NODES


class Models(planned.Program):
    def told(self, *words):
        """(result, JSON)"""
        path = self.folder / "plan.json"
        result = self.plan(*words, "--output", self.out, "--json", path)
        self.assertEqual(result.code, zpp.OK, result)
        return result, json.loads(path.read_text())

    def config(self, config, name="config.json"):
        return self.write_json(name, config)

    def test_bytes_are_those_of_the_files_parameters(self):
        self.assertGreater(len(MODELS), 110)
        self.assertGreater(len({decoder_of(model["config"])["model_type"] for model in MODELS.values()}), 60)
        for name, model in MODELS.items():
            with self.subTest(name):
                result, told = self.told(*map(str, JOB), "--hf-config", self.config(model["config"]))
                parameters = model["parameters"]
                self.assertEqual(told["job"]["parameters"], parameters)
                self.assertIn(f": {parameters * 1e-9:.4g} billion parameters", result.stderr)
                self.assertNotIn("warning", result.stderr)
                tied = "lm_head.weight" not in told["tensors"]["name"]
                embedding = told["parameter_units"]["elements"][0]
                by_hand = bytes_by_hand(parameters, embedding if tied else 0)
                self.assertLess(abs(planned.traffic(told)["step"][1] / NODES / by_hand - 1), PADDING)
                layers = decoder_of(model["config"])
                known = next((layers[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in layers),
                             None)
                if known:
                    self.assertEqual(len(told["parameter_units"]["name"]), known + 2)

    def per_token(self, name, length):
        """Operations per token, and the keys."""
        config = MODELS[name]["config"]
        _, told = self.told(*map(str, JOB), "--hf-config", self.config(config), "--seq-length", str(length))
        return told["job"]["flops_per_step"] / told["job"]["tokens_per_step"], decoder_of(config)

    def test_operations_are_those_of_a_tokens_matrices(self):
        """6 for each weight that a token is multiplied by, and 12 for each column of attention and token."""
        length = 4096
        for name in ("llama3_1_70b", "Mistral-Small-24B-Base-2501"):
            flops, keys = self.per_token(name, length)
            vectors = (2 * keys["num_hidden_layers"] + 1) * keys["hidden_size"]
            weights = MODELS[name]["parameters"] - keys["vocab_size"] * keys["hidden_size"] - vectors
            columns = keys["num_attention_heads"] * keys.get("head_dim", 128)
            self.assertEqual(flops, 6 * weights + 12 * keys["num_hidden_layers"] * length * columns)
        flops, keys = self.per_token("Qwen3-30B-A3B", length)
        queries, pairs = 32 * 128, 4 * 128
        block = 2048 * (queries + 2 * pairs) + queries * 2048 + 128 * 2048 + 8 * 3 * 2048 * 768
        self.assertEqual(flops, 6 * (48 * block + 151936 * 2048) + 12 * 48 * length * queries)
        flops, keys = self.per_token("DeepSeek-V2-Lite", length)
        attention = 2048 * 16 * 192 + 2048 * (512 + 64) + 512 * 16 * (128 + 128) + 16 * 128 * 2048
        dense, mixed = 3 * 2048 * 10944, 64 * 2048 + (6 + 2) * 3 * 2048 * 1408
        self.assertEqual(flops, 6 * (27 * attention + dense + 26 * mixed + 102400 * 2048) +
                         6 * 27 * length * 16 * (192 + 128))

    def kept(self, config, *more):
        """Bytes of activations in one sequence of 1024 tokens."""
        _, told = self.told(*map(str, JOB), "--hf-config", self.config(config), "--seq-length", "1024", *more)
        return dict(zip(told["memory"]["name"], told["memory"]["bytes"]))["activations"]

    def test_activations_are_those_of_the_files_blocks(self):
        """In bf16, over those of Llama's blocks, which zpp_train has."""
        base = {**MODELS["llama3_1_8b"]["config"], "model_type": "llama", "vocab_size": 32000}
        rows, hidden, layers, queries, pairs, wide = 1024, 4096, 32, 4096, 1024, base["intermediate_size"]
        llama = self.kept(base)
        heads = 32 + 8
        qwen3 = self.kept({**base, "model_type": "qwen3", "head_dim": 128})
        self.assertEqual(qwen3 - llama, layers * (2 * rows * (queries + pairs) + 4 * rows * heads))
        # Norms around: what attention and the MLP make is kept, and its norm.
        gemma2 = self.kept({**base, "model_type": "gemma2", "head_dim": 128, "tie_word_embeddings": False})
        self.assertEqual(gemma2 - llama, layers * (2 * rows * 2 * hidden + 2 * 4 * rows))
        experts, used = 8, 2
        mixtral = self.kept({**base, "model_type": "mixtral", "num_local_experts": experts,
                             "num_experts_per_tok": used})
        inside = experts + used * hidden + used * 3 * wide + used * hidden - 3 * wide
        shared = (used - 1) * wide + (used - 1) * hidden
        self.assertEqual(mixtral - llama, 2 * rows * (layers * inside + shared))
        # Blocks that compute again share one set.
        again = self.kept(base, "--recompute-activations")
        self.assertEqual(self.kept({**base, "model_type": "mixtral", "num_local_experts": experts,
                                    "num_experts_per_tok": used}, "--recompute-activations") - again,
                         2 * rows * (inside + shared))

    def test_llama_and_gpt2_are_the_trainers(self):
        """A file of a model that zpp_train has is the plan of its flags."""
        llama = MODELS["llama3_2_1b"]["config"]
        flags = ["--model", "llama", "--num-layers", "16", "--hidden-size", "2048", "--num-attention-heads", "32",
                 "--num-key-value-heads", "8", "--head-dim", "64", "--ffn-hidden-size", "8192", "--vocab-size",
                 "128256", "--seq-length", "8192"]
        self.assertEqual(llama["intermediate_size"], 8192)
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(llama))
        self.assertIn("zpp_train trains such blocks (--model llama)", result.stderr)
        by_flags, alone = self.told(*map(str, JOB), *flags)
        self.assertEqual(result.stdout, by_flags.stdout)
        for group in ("memory", "traffic", "tensors"):
            self.assertEqual(told[group], alone[group])
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(MODELS["gpt2"]["config"]))
        self.assertIn("(--model gpt)", result.stderr)
        self.assertEqual(result.stdout, self.told(*map(str, JOB), "--model-preset", "gpt2-124m")[0].stdout)
        self.assertIn("zpp_train has no such blocks", self.told(*map(str, JOB), "--hf-config", self.config(
            MODELS["Qwen3-32B"]["config"]))[0].stderr)

    def test_layers_may_differ(self):
        for name, dense in (("DeepSeek-V3", range(3)), ("Llama-4-Maverick-17B-128E", range(0, 48, 2)),
                            ("ERNIE-4.5-21B-A3B-PT", range(1))):
            result, told = self.told(*map(str, JOB), "--hf-config", self.config(MODELS[name]["config"]))
            names = told["tensors"]["name"]
            layers = len(told["parameter_units"]["name"]) - 2
            self.assertEqual([layer for layer in range(layers) if f"h.{layer}.mlp.gate_up.weight" in names],
                             list(dense))
            self.assertIn("sharded as all else, without expert parallelism", result.stderr)
        self.assertIn("671 billion parameters, 37.55 billion of them used per token", self.told(
            *map(str, JOB), "--hf-config", self.config(MODELS["DeepSeek-V3"]["config"]))[0].stderr)
        mixed = {**MODELS["Qwen3-30B-A3B"]["config"], "decoder_sparse_step": 2, "mlp_only_layers": [3]}
        names = self.told(*map(str, JOB), "--hf-config", self.config(mixed))[1]["tensors"]["name"]
        self.assertEqual([layer for layer in range(8) if f"h.{layer}.mlp.router.weight" in names], [1, 5, 7])

    def test_the_length_is_not_the_longest(self):
        """A model takes far longer sequences than it is trained with."""
        long = MODELS["llama3_1_70b"]["config"]
        self.assertEqual(long["max_position_embeddings"], 131072)
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(long))
        self.assertEqual(told["job"]["tokens_per_step"], 8192 * NODES * RANKS)
        self.assertIn("8192 tokens per sequence of the 131072 that the model takes (--seq-length)", result.stderr)
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(long), "--seq-length", "16384")
        self.assertEqual(told["job"]["tokens_per_step"], 16384 * NODES * RANKS)
        self.assertEqual(told["job"]["parameters"], MODELS["llama3_1_70b"]["parameters"])
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(MODELS["gpt2"]["config"]))
        self.assertIn("1024 tokens per sequence (--seq-length)", result.stderr)

    def test_automatic_precision_is_that_of_the_weights(self):
        """bf16 and fp16 are "auto" in the files that LLaMA-Factory and Hugging Face's documentation ship."""
        automatic = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "loss_scale": 0},
                     "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
        job = ["--nodes", "2", "--seq-length", "512", "--config"]
        model = {key: value for key, value in MODELS["llama3_2_1b"]["config"].items() if key != "torch_dtype"}
        for keys, said, why in (({"torch_dtype": "bfloat16"}, "bf16", "has its weights"),
                                ({"dtype": "bfloat16"}, "bf16", "has its weights"),
                                ({"torch_dtype": "float16"}, "fp16", "has its weights"),
                                ({"torch_dtype": "float32"}, "fp32", "has its weights"),
                                ({}, "bf16", "since nothing says which precision is meant")):
            with self.subTest(keys):
                result, _ = self.told(*job, self.config(automatic, "ds.json"), "--hf-config",
                                         self.config({**model, **keys}))
                self.assertIn(f"parameters in {said},", result.stdout)
                self.assertRegex(result.stderr, rf'bf16\.enabled is "auto": {said} is planned, .*{why}')
        by_name, _ = self.told(*job, self.config(automatic, "ds.json"), "--model-preset", "gpt-1.3b")
        self.assertIn("in bf16", by_name.stdout)
        for flag, said in (("--bf16", "bf16"), ("--fp16", "fp16")):
            result, _ = self.told(*job, self.config(automatic, "ds.json"), "--model-preset", "gpt-1.3b", flag)
            self.assertIn(f"in {said}", result.stdout)
            self.assertNotIn("is planned", result.stderr)
        off = {**automatic, "bf16": {"enabled": False}, "fp16": {"enabled": False}}
        self.assertIn("in fp32", self.told(*job, self.config(off, "ds.json"), "--model-preset", "gpt-1.3b")[0].stdout)

    def test_what_is_left_out_or_unknown_is_said(self):
        result, _ = self.told(*map(str, JOB), "--hf-config", self.config(MODELS["llava"]["config"]))
        self.assertIn("6.739 billion parameters without its towers of images or sound", result.stderr)
        unknown = {**MODELS["llama3_2_1b"]["config"], "model_type": "kolibri"}
        result, _ = self.told(*map(str, JOB), "--hf-config", self.config(unknown))
        self.assertRegex(result.stderr, r"warning: .*model_type kolibri is not one that zpp_plan knows.* planned "
                         r"with the blocks of llama: compare 1\.236 billion")
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(MODELS["llama3_2_1b"]["config"]),
                                 "--hidden-size", "1024")
        self.assertIn(f"{told['job']['parameters'] * 1e-9:.4g} billion parameters: 16 layers x 1024, 32 heads of 64",
                      result.stderr)

    def test_other_decoders_are_refused(self):
        """With a remedy that plans no wrong model."""
        base = MODELS["llama3_2_1b"]["config"]
        for keys, what in (({"num_local_experts": 8, "num_experts_per_tok": 2}, MIXED),
                           ({"model_type": "minimax", "num_local_experts": 32}, MIXED),
                           ({"ffn_config": {"moe_num_experts": 16}}, MIXED),
                           ({"n_routed_experts": 64, "kv_lora_rank": 512}, MIXED),
                           ({"kv_lora_rank": 512}, "latent attention of an unknown model_type"),
                           ({"conv_L_cache": 3}, "a model with recurrent blocks"),
                           ({"mamba_d_state": 16}, "a model with recurrent blocks"),
                           ({"is_encoder_decoder": True}, "an encoder with a decoder")):
            with self.subTest(keys):
                self.refused(*map(str, JOB), "--hf-config", self.config({**base, **keys}),
                             parts=(f"{what} is not planned", "zpp_plan savings --model-params"))
        mixed = MODELS["Qwen3-30B-A3B"]["config"]
        self.refused(*map(str, JOB), "--hf-config", self.config({**mixed, "num_experts_per_tok": 129}),
                     parts=("a token goes through 129 of 128 experts",))
        for keys in ({"num_key_value_heads": 3}, {"head_dim": 7}):  # the file is named, its model not described
            result = self.plan(*JOB, "--hf-config", self.config({**base, **keys}))
            self.check_fails(result, zpp.USAGE, "config.json: ", program="zpp_plan")
            self.assertNotIn("billion", result.stderr)
        dense = {**base, "num_local_experts": 1}
        self.told(*map(str, JOB), "--hf-config", self.config(dense))


zpp.main()
