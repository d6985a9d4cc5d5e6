# ctest: name=plan_hf_models timeout=180 labels=cli processors=2
"""zpp_plan --hf-config plans as many parameters as the model of a public config.json has, and the bytes that follow
from them. hf_models.json has the keys of each file that decide, where they come from, and the number of parameters that
transformers 5 gives a model of them on PyTorch's meta device (of its decoder: without towers of images or sound)."""

import json
import pathlib
import re

import planned
import zpp

MODELS = json.loads((pathlib.Path(__file__).parent / "hf_models.json").read_text())
NODES, RANKS = 4, 8
JOB = ["--bf16", "--nodes", NODES, "--ranks-per-node", RANKS]
CLOSE = 0.01


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
        self.assertGreater(len(MODELS), 60)
        for name, model in MODELS.items():
            with self.subTest(name):
                result, told = self.told(*map(str, JOB), "--hf-config", self.config(model["config"]))
                parameters = model["parameters"]
                self.assertLess(abs(told["job"]["parameters"] / parameters - 1), CLOSE)
                counted = re.search(r": ([\d.]+) billion parameters", result.stderr)
                self.assertAlmostEqual(float(counted[1]) / (parameters * 1e-9), 1, delta=1e-3)
                self.assertNotIn("warning", result.stderr)
                tensors = told["tensors"]
                table = tensors["elements"][tensors["name"].index("wte.weight")]
                tied = "lm_head.weight" not in tensors["name"]
                by_hand = bytes_by_hand(parameters, table if tied else 0)
                # The GPT's table of positions lies beside a tied table, and is gathered as often: of a small model
                # that is more.
                close = CLOSE if parameters > 5e8 or not tied else 2 * CLOSE
                self.assertLess(abs(planned.traffic(told)["step"][1] / NODES / by_hand - 1), close)
                layers = decoder_of(model["config"])
                self.assertEqual(told["parameter_units"]["name"].count("embedding"), 1)
                known = next((layers[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in layers),
                             None)
                if known:
                    self.assertEqual(len(told["parameter_units"]["name"]), known + 2)

    def test_operations_are_those_of_the_files_parameters(self):
        """6 for each weight of a matrix and token, beside attention."""
        model = MODELS["Mistral-Small-24B-Base-2501"]
        _, told = self.told(*map(str, JOB), "--hf-config", self.config(model["config"]), "--seq-length", "4096")
        keys = model["config"]
        in_products = model["parameters"] - keys["vocab_size"] * keys["hidden_size"]  # but the table of tokens
        attention = 12 * keys["num_hidden_layers"] * 4096 * keys["hidden_size"]
        self.assertAlmostEqual(told["job"]["flops_per_step"] / told["job"]["tokens_per_step"] /
                               (6 * in_products + attention), 1, delta=CLOSE)

    def test_the_length_is_not_the_longest(self):
        """A model takes far longer sequences than it is trained with."""
        long = MODELS["llama3_1_70b"]["config"]
        self.assertEqual(long["max_position_embeddings"], 131072)
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(long))
        self.assertEqual(told["job"]["tokens_per_step"], 8192 * NODES * RANKS)
        self.assertIn("8192 tokens per sequence of the 131072 that the model takes (--seq-length)", result.stderr)
        result, told = self.told(*map(str, JOB), "--hf-config", self.config(long), "--seq-length", "16384")
        self.assertEqual(told["job"]["tokens_per_step"], 16384 * NODES * RANKS)
        self.assertLess(abs(told["job"]["parameters"] / MODELS["llama3_1_70b"]["parameters"] - 1), CLOSE)
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
        self.assertRegex(result.stderr, r"warning: .*model_type kolibri is not one that zpp_plan knows.* counted as "
                         r"those of llama: compare 1\.236 billion")
        result, _ = self.told(*map(str, JOB), "--hf-config", self.config(MODELS["llama3_2_1b"]["config"]),
                                 "--hidden-size", "1024")
        self.assertIn("--hidden-size 1024 replaces the width", result.stderr)

    def test_other_decoders_are_refused(self):
        """With a remedy that plans no wrong model."""
        base = MODELS["llama3_2_1b"]["config"]
        for keys, what in (({"num_local_experts": 8, "num_experts_per_tok": 2}, "a mixture of experts"),
                           ({"model_type": "qwen3_moe", "num_experts": 128}, "a mixture of experts"),
                           ({"model_type": "mixtral"}, "a mixture of experts"),
                           ({"ffn_config": {"moe_num_experts": 16}}, "a mixture of experts"),
                           ({"n_routed_experts": 64, "kv_lora_rank": 512}, "a mixture of experts"),
                           ({"kv_lora_rank": 512}, "attention with latent keys and values"),
                           ({"mamba_d_state": 16}, "a model with recurrent blocks"),
                           ({"is_encoder_decoder": True}, "an encoder with a decoder")):
            with self.subTest(keys):
                self.refused(*map(str, JOB), "--hf-config", self.config({**base, **keys}),
                             parts=(f"{what} is not planned", "zpp_plan savings --model-params"))
        dense = {**base, "num_local_experts": 1}
        self.told(*map(str, JOB), "--hf-config", self.config(dense))


zpp.main()
