"""The effective configuration of the run of a synthetic trace. `c`: a case of synthetic_cases.py with its defaults."""

SEQUENCES, SEQUENCE = 3, 8  # of a micro-batch; tokens of each
BLOCKS, WIDTH, HEADS = 3, 10, 2  # of the GPT


def config_of(c):
    return {"zero_optimization": {"stage": c["stage"], "zero_quantized_weights": c["qwz"],
                                  "zero_hpz_partition_size": c["hpz"],
                                  "zero_quantized_gradients": c["qgz"],
                                  "reduce_bucket_size": c["bucket"], **offload_options(c)},
            "bf16": {"enabled": c["bf16"]}, "fp16": {"enabled": c["fp16"] is not None, **(c["fp16"] or {})},
            "train_batch_size": c["nodes"] * c["local"] * c["micro"] * SEQUENCES,
            "train_micro_batch_size_per_gpu": SEQUENCES, "gradient_accumulation_steps": c["micro"],
            "optimizer": {"type": c["optimizer"][0], "params": {"lr": 1e-3, **c["optimizer"][1]}}, "zeropp": own_of(c)}


def own_of(c):
    """The object zeropp: an option without an effect is left out."""
    own = {"all_gather_algorithm": c["gather"], "reduce_scatter_algorithm": c["reduce"], "node_size": 0,
           "deterministic": False, "seed": 7, "train_steps": c["planned"] or c["first"] + len(c["skipped"]),
           "evaluation_batches": 2, "evaluation_interval": c["interval"], "data": {"source": "text"},
           "model": model_of(c)}
    if c["cuda"]:
        own["gpu_sampling"], own["backend"] = 1.0, "cuda"
    if c["qgz"]:
        own["gradient_codec_intra"], own["gradient_codec_inter"] = c["codecs"][1:]
    if c["feedback"]:
        own["error_feedback"] = {"hops": "both" if len(c["feedback"]) == 2 else c["feedback"][0], "beta": 0.5,
                                 "reset_period": 0, "dtype": c["feedback_dtype"]}
    given = {
        "moments": c["moments"],
        "shard_group_size": c["shard"],
        "weight_codec": c["qwz"] and c["codecs"][0],
        "measure_quantization_error": c["measure"],
        "verify_interval": c["verify"],
        "verify_action": c["verify"] and ("warn" if c["alarms"] else "end"),
        "keep_weight_images": c["images"],
        "hpz_device": c["hpz_device"],
        "offload_piece_size": c["offload"] and c["offload"][1],
    }
    return own | {name: value for name, value in given.items() if value}


def model_of(c):
    again = {"recompute_interval": 1, "cpu_checkpointing": True} if c["cpu_checkpointing"] else {}
    return {"seq_length": SEQUENCE, "name": "gpt", "num_layers": BLOCKS, "hidden_size": WIDTH,
            "num_attention_heads": HEADS, "vocab_size": 0, "recompute_activations": c["recompute"], **again}


def offload_options(c):
    """Keys of zero_optimization."""
    if c["offload"] is None:
        return {}
    files = {} if c["files"] is None else {"sub_group_size": c["files"][0]}
    of_optimizer = "nvme" if c["files"] else "cpu"
    of_weights = "none" if not c["offload_param"] else "cpu" if c["files"] is None else "nvme"
    on_nvme = {"max_in_cpu": c["files"][1], "buffer_count": c["files"][2]} if of_weights == "nvme" else {}
    return {"offload_optimizer": {"device": of_optimizer, "pin_memory": False, "ratio": c["offload"][0],
                                  "buffer_count": c["offload"][2]},
            "offload_param": {"device": of_weights, **on_nvme}, **files}
